"""Spark's own connector and ours on the same topics, in one run: ``python -m bench spark``."""

import subprocess

from bench.progress import say


def bench(contenders: list[str], quick: bool) -> str:
    """The table of the section ``spark``, or a sentence that says why there is none."""
    try:
        from bench import spark_lines, spark_sink, spark_source
    except ImportError as missing:
        return f"Not measured: {missing}; pip install 'millstream[spark]' brings it."
    rows, rounds, wait_rounds, seconds = (2_000_000, 1, 1, 10.0) if quick else (10_000_000, 3, 8, 20.0)
    try:
        say("spark: the source")
        lines = spark_source.measure(rows, rounds)
        say("spark: the sink, and from topic to topic")
        lines += spark_sink.measure(rows // 5, rounds, wait_rounds, seconds)
    except (FileNotFoundError, subprocess.SubprocessError) as fault:
        return f"Not measured: the connector's jars are fetched by Maven, and that failed ({fault})."
    return spark_lines.render(lines)
