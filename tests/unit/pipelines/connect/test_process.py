"""A connector's process between its query and whoever started it; no Spark is started."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from millstream.pipelines.connect.process import Batches, _watch, failure_of
from millstream.pipelines.connect.reports import Report, Started
from millstream.pipelines.connect.spark.gate import Gate

WAITING = {"message": "Waiting for next trigger", "isDataAvailable": True, "isTriggerActive": False}
WORKING = {"message": "Processing new data", "isDataAvailable": True, "isTriggerActive": True}
STARTING = {"message": "Initializing sources", "isDataAvailable": False, "isTriggerActive": False}


class Query:
    """A query that stands so each time it is looked at."""

    lastProgress = None  # noqa: N815

    def __init__(self, statuses: Iterator[Mapping[str, Any]]) -> None:
        self._statuses = statuses
        self.is_stopped = False

    @property
    def isActive(self) -> bool:  # noqa: N802
        return not self.is_stopped

    @property
    def status(self) -> Mapping[str, Any]:
        return next(self._statuses)

    def stop(self) -> None:
        self.is_stopped = True

    def exception(self) -> None:
        return None


class Following:
    """Tells that it runs."""

    def begin(self) -> list[Report]:
        return [Started(1)]

    def advance(self, progress: Mapping[str, Any]) -> list[Report]:
        raise AssertionError("there was no batch")


class Stops:
    """Told from the beginning."""

    def wait(self, timeout_s: float) -> bool:
        return True


def test_a_stop_waits_for_what_is_under_way_and_not_for_the_time_of_the_next_batch(tmp_path: Path) -> None:
    seen = [STARTING, WORKING, WORKING, WAITING]
    query: Any = Query(iter(seen))
    stops: Any = Stops()
    gate, told = Gate(str(tmp_path)), list[Report]()
    _watch(query, Batches(), Following(), told.append, stops, gate)
    assert query.is_stopped and not gate.is_closed()
    assert not gate.may_plan(), "a batch whose time comes after all is not begun"
    assert told == [Started(1)]
    with pytest.raises(StopIteration):
        next(query._statuses)


def test_what_is_secret_is_not_told_of_a_failure() -> None:
    try:
        raise ValueError("no login for anna with hunter22")
    except ValueError as error:
        failed = failure_of(error, {"hunter22"})
    assert failed.message == "ValueError: no login for anna with [hidden]"
    assert "hunter22" not in failed.trace and "[hidden]" in failed.trace
