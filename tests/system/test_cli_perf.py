"""The measuring commands against a running broker: that they count right, not how fast anything is."""

import pytest

from tests.system.command import Millstream

PERCENTILES = ["p50", "p95", "p99", "p99.9", "max", "mean"]


def end_offset(millstream: Millstream, topic: str) -> int:
    [described] = millstream("topic", "describe", topic, "-o", "json").document
    return sum(row["end_offset"] for row in described["partitions"])


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_what_is_counted_as_written_is_there(millstream: Millstream, topic: str, acks: str) -> None:
    figures = millstream("perf", "produce", topic, "-n", 5000, "-s", 50, "-a", acks, "-o", "json").document
    assert figures["records"] >= 5000
    assert end_offset(millstream, topic) == figures["records"]
    assert figures["bytes"] == 50 * figures["records"]
    assert list(figures["latency_ms"]) == ([] if acks == "0" else PERCENTILES)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_back(millstream: Millstream, topic: str, codec: str) -> None:
    figures = millstream(
        "perf", "produce", topic, "-n", 1000, "-z", codec, "--batch-records", 100, "-o", "json"
    ).document
    assert figures["requests"] == 10
    values = millstream("consume", topic, "-e").lines
    assert len(values) == 1000
    assert {len(value) for value in values} == {100}


def test_reading_counts_every_record_as_often_as_it_is_read(millstream: Millstream, topic: str) -> None:
    millstream("perf", "produce", topic, "-n", 3000, "--batch-records", 100, "-q")
    assert millstream("perf", "consume", topic, "-o", "json").document["records"] == 3000
    assert millstream("perf", "consume", topic, "--repeat", 3, "-o", "json").document["records"] == 9000
    assert millstream("perf", "consume", topic, "-n", 100, "-o", "json").document["records"] >= 100


def test_an_empty_topic_is_read_at_once(millstream: Millstream, topic: str) -> None:
    assert millstream("perf", "consume", topic, "-o", "json").document["records"] == 0


def test_a_missing_topic_is_made_to_write_to_but_not_to_read_from(millstream: Millstream, topic: str) -> None:
    missing = f"{topic}-missing"
    assert "there is no topic" in millstream("perf", "consume", missing, code=1).errors
    millstream("perf", "produce", missing, "-n", 10, "-p", 2, "-q")
    [described] = millstream("topic", "describe", missing, "-o", "json").document
    assert len(described["partitions"]) == 2


def test_a_rate_is_kept(millstream: Millstream, topic: str) -> None:
    """A busy machine may fall behind the rate, never ahead of it."""
    options = ("-n", 500, "--rate", 1000, "--batch-records", 1)
    figures = millstream("perf", "produce", topic, *options, "-o", "json").document
    assert figures["records"] == 500
    assert figures["seconds"] >= 0.49


def test_progress_and_a_summary_are_shown(millstream: Millstream, topic: str) -> None:
    shown = millstream("perf", "produce", topic, "--seconds", "1.6", "--rate", 2000, "--batch-records", 10)
    assert "records/s" in shown.errors
    assert [line.split()[0] for line in shown.lines[1:]] == ["rate", "requests", "latency"]


def test_latency_is_measured_to_the_acknowledgement_and_to_the_reader(millstream: Millstream, topic: str) -> None:
    options = ("--rate", 200, "--seconds", 1, "--warm-up", "0.2")
    figures = millstream("perf", "latency", topic, *options, "-o", "json").document
    assert figures["records"] == 200, "however late a busy machine sends them"
    assert list(figures["produce_ms"]) == list(figures["end_to_end_ms"]) == PERCENTILES
    assert 0 < figures["produce_ms"]["p50"] <= figures["produce_ms"]["max"]
    assert figures["end_to_end_ms"]["max"] > 0


def test_a_refused_batch_ends_the_measurement(millstream: Millstream, topic: str) -> None:
    millstream("topic", "alter", topic, "-c", "max.message.bytes=1000")
    refused = millstream("perf", "produce", topic, "-n", 1000, "-q", code=1)
    assert "MESSAGE_TOO_LARGE" in refused.errors
