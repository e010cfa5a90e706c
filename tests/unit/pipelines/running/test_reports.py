"""What a pipeline tells of itself, and what is made of Spark's own progress."""

from typing import Any

import pytest

from millstream.pipelines.running.reports import Batch, Failed, Report, Started, Unseen, batch_of, decode, encode

PROGRESS: dict[str, Any] = {
    "id": "55f5f706",
    "name": "totals",
    "batchId": 7,
    "numInputRows": 600,
    "durationMs": {"addBatch": 50, "triggerExecution": 72},
    "stateOperators": [{"numRowsTotal": 3, "memoryUsedBytes": 100}, {"numRowsTotal": 4, "memoryUsedBytes": 50}],
    "sources": [
        {"endOffset": {"a": {"0": 600, "1": 0}}, "latestOffset": {"a": {"0": 1000, "1": 20}}},
        {"endOffset": '{"b": {"0": 5}}', "latestOffset": '{"b": {"0": 6, "1": 2}}'},
        {"endOffset": 17, "latestOffset": None},
    ],
    "sink": {"numOutputRows": 300},
}


@pytest.mark.parametrize(
    "report", [Started(("a", "b")), Batch("a", 1, 2, None, 3, 4, 5, 6), Unseen("a"), Failed("no topic\nanywhere", True)]
)
def test_a_report_is_one_line_and_comes_back_as_it_was(report: Report) -> None:
    line = encode(report)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert decode(line) == report


def test_spark_s_progress_gives_rows_lag_time_and_state() -> None:
    assert batch_of(PROGRESS) == Batch("totals", 7, 600, 300, 400 + 20 + 1 + 2, 72, 7, 150)


def test_a_sink_that_does_not_count_and_a_source_without_offsets_are_no_numbers() -> None:
    bare = batch_of({"id": "x", "name": None, "batchId": 0, "sources": [{}], "sink": {"numOutputRows": -1}})
    assert bare == Batch("x", 0, 0, None, 0, 0, 0, 0)


def test_a_topic_that_was_made_anew_is_not_behind() -> None:
    source = {"endOffset": {"a": {"0": 900}}, "latestOffset": {"a": {"0": 10}}}
    assert batch_of({**PROGRESS, "sources": [source]}).lag == 0


def test_a_batch_that_is_run_again_does_not_know_how_far_behind_it_is() -> None:
    source = {"endOffset": {"a": {"0": 900}}, "latestOffset": None}
    assert batch_of({**PROGRESS, "sources": [source]}).lag is None
