"""The text that Prometheus scrapes."""

from millstream.metrics.metric import Kind, Metric, Metrics
from millstream.metrics.prometheus import exposition

BYTES = Metric("bytes_total", Kind.COUNTER, "Bytes,\nin all.", ("topic",))
LEVEL = Metric("level", Kind.GAUGE, "Level.")
TIME = Metric("time_ms", Kind.SUMMARY, "Time.", ("request",))


def test_nothing_counted_is_nothing_written() -> None:
    assert exposition(Metrics([BYTES, LEVEL, TIME])) == ""


def test_counters_and_gauges_are_written_with_their_labels_escaped() -> None:
    metrics = Metrics([BYTES, LEVEL])
    metrics.cell(BYTES, 'a"b\\c\nd').value += 12
    metrics.read(LEVEL, lambda: 0.25)
    assert exposition(metrics) == (
        "# HELP bytes_total Bytes,\\nin all.\n"
        "# TYPE bytes_total counter\n"
        'bytes_total{topic="a\\"b\\\\c\\nd"} 12\n'
        "# HELP level Level.\n"
        "# TYPE level gauge\n"
        "level 0.25\n"
    )


def test_a_summary_is_written_by_quantile_sum_and_count() -> None:
    metrics = Metrics([TIME])
    metrics.summary(TIME, "Fetch")
    for value in (1.0, 2.0):
        metrics.summary(TIME, "Produce").observe(value)
    lines = exposition(metrics).splitlines()
    assert lines[1] == "# TYPE time_ms summary"
    assert 'time_ms{request="Fetch",quantile="0.99"} NaN' in lines
    assert 'time_ms_sum{request="Produce"} 3' in lines
    assert 'time_ms_count{request="Produce"} 2' in lines
    (median,) = [line for line in lines if line.startswith('time_ms{request="Produce",quantile="0.5"}')]
    assert 1.0 <= float(median.split()[1]) <= 1.25
