"""Beside Spark's own Kafka connector: the same code gives the same tables, and the connector works with our broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.connector import jars_or_skip
from tests.pipelines.topics import Topics

ROOT = Path(__file__).parents[2]
THEN_MS = 1_700_000_000_000
COMPARISON_TIMEOUT_S = 280


@pytest.mark.timeout(300)
def test_the_same_code_gives_the_same_tables_with_either_format(topics: Topics, tmp_path: Path) -> None:
    """In a process of its own, since a session's jars are settled when its Java starts."""
    jars = jars_or_skip()
    topics.put(topics.new(2, name="same-a"), ["a", None, "c"], 0, timestamp_ms=THEN_MS, key=b"k")
    topics.put("same-a", ["d"] * 20, 1, timestamp_ms=THEN_MS + 1000, headers=[("h", b"1"), ("h", None)])
    topics.put(topics.new(name="same-b", settings={"message.timestamp.type": "LogAppendTime"}), ["e", "f"])
    with topics.transaction("kept", "same-b", ["g"]) as producer:
        producer.commit_transaction(30)
    with topics.transaction("given-up", "same-b", ["h"]) as producer:
        producer.abort_transaction(30)
    for name in ("same-out", "sink-ours", "sink-theirs"):
        topics.new(5, name=name)
    run = subprocess.run(
        [sys.executable, "-m", "tests.pipelines.comparison", topics.address, jars, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        check=False,
        capture_output=True,
        text=True,
        timeout=COMPARISON_TIMEOUT_S,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["differences"] == []
    assert found["cases"] >= 10
    assert found["connector_sink"] == found["connector_stream_sink"] == 23
