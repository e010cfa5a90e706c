"""Metrics in Prometheus' text format (version 0.0.4)."""

import math
from collections.abc import Iterator

from millstream.metrics.metric import Kind, Labels, Metric, Metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
QUANTILES = ("0.5", "0.75", "0.95", "0.98", "0.99", "0.999")

_VALUE_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_DOC_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def lines(metrics: Metrics) -> Iterator[str]:
    """Every metric that has a value, with its doc and type, line by line; a metric is read as its turn comes."""
    for metric in metrics.table:
        is_first = True
        for sample in _samples(metrics, metric):
            if is_first:
                yield f"# HELP {metric.name} {metric.doc.translate(_DOC_ESCAPES)}"
                yield f"# TYPE {metric.name} {metric.kind.value}"
                is_first = False
            yield sample


def exposition(metrics: Metrics) -> str:
    """All of it as one text."""
    return "".join(f"{line}\n" for line in lines(metrics))


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
