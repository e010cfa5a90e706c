"""What a running pipeline tells its supervisor: a line of JSON for each thing, over a pipe."""

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Started:
    """The queries run."""

    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """A query ended a micro-batch."""

    query: str
    number: int
    rows_in: int
    #: None where the sink does not count.
    rows_out: int | None
    #: Records that are there and were not read yet; None where nobody has looked, as in a batch that is run again.
    lag: int | None
    took_ms: int
    state_rows: int
    state_bytes: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """Somebody does not answer, so that nobody knows how much a query has not read yet."""

    query: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The pipeline cannot go on, in a line; it is final where no further try would help."""

    message: str
    is_final: bool


Report = Started | Batch | Unseen | Failed

_KINDS: dict[str, type[Started] | type[Batch] | type[Unseen] | type[Failed]] = {
    kind.__name__.lower(): kind for kind in (Started, Batch, Unseen, Failed)
}


def encode(report: Report) -> bytes:
    """A report as its line."""
    return json.dumps({"is": type(report).__name__.lower(), **asdict(report)}).encode() + b"\n"


def decode(line: bytes) -> Report:
    """What ``encode`` wrote."""
    fields = json.loads(line)
    kind = _KINDS[fields.pop("is")]
    if kind is Started:
        fields["queries"] = tuple(fields["queries"])
    return kind(**fields)


def batch_of(progress: dict[str, Any]) -> Batch:
    """The report of a micro-batch, from Spark's own progress of it."""
    states = progress.get("stateOperators") or []
    lags = [_lag(source) for source in progress.get("sources") or []]
    rows_out = (progress.get("sink") or {}).get("numOutputRows", -1)
    return Batch(
        query=progress.get("name") or progress["id"],
        number=progress["batchId"],
        rows_in=progress.get("numInputRows", 0),
        rows_out=rows_out if rows_out is not None and rows_out >= 0 else None,
        lag=None if None in lags else sum(filter(None, lags)),
        took_ms=(progress.get("durationMs") or {}).get("triggerExecution", 0),
        state_rows=sum(state.get("numRowsTotal", 0) for state in states),
        state_bytes=sum(state.get("memoryUsedBytes", 0) for state in states),
    )


def _lag(source: dict[str, Any]) -> int | None:
    """How many records of its topics a source is behind; 0 for sources that keep no offsets by partition."""
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if end and not latest:
        return None
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _offsets(document: Any) -> dict[tuple[str, str], int]:
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return {}
    if not isinstance(document, dict):
        return {}
    return {
        (topic, partition): offset
        for topic, offsets in document.items()
        if isinstance(offsets, dict)
        for partition, offset in offsets.items()
        if isinstance(offset, int)
    }
