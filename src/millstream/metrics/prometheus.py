"""Metrics in Prometheus' text format (version 0.0.4)."""

import math
from collections.abc import Iterator

from millstream.metrics.metric import Kind, Labels, Metric, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = ("0.5", "0.75", "0.95", "0.98", "0.99", "0.999")

_VALUE_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_DOC_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def exposition(metrics: Metrics) -> str:
    """Every metric that has a value, with its doc and type."""
    lines: list[str] = []
    for metric in metrics.table:
        samples = list(_samples(metrics, metric))
        if samples:
            lines.append(f"# HELP {metric.name} {metric.doc.translate(_DOC_ESCAPES)}")
            lines.append(f"# TYPE {metric.name} {metric.kind.value}")
            lines += samples
    return "\n".join(lines) + "\n" if lines else ""


def _samples(metrics: Metrics, metric: Metric) -> Iterator[str]:
    name, names = metric.name, metric.labels
    if metric.kind is not Kind.SUMMARY:
        for labels, value in metrics.values(metric):
            yield f"{name}{_labels(names, labels)} {_number(value)}"
        return
    for labels, summary in metrics.summaries(metric):
        for quantile in QUANTILES:
            spread = _labels((*names, "quantile"), (*labels, quantile))
            yield f"{name}{spread} {_number(summary.quantile(float(quantile)))}"
        yield f"{name}_sum{_labels(names, labels)} {_number(summary.total)}"
        yield f"{name}_count{_labels(names, labels)} {_number(summary.count)}"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    pairs = (f'{name}="{value.translate(_VALUE_ESCAPES)}"' for name, value in zip(names, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _number(value: float) -> str:
    if math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
