"""What a connector's process tells whoever started it: a line of JSON for each thing, over a pipe."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from millstream.pipelines.connect.job import Place


@dataclass(frozen=True, slots=True)
class Started:
    """The connector runs, in so many tasks; told again when there are more of them."""

    tasks: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch is done for good."""

    number: int
    #: Of a source, what it brought; of a sink, what it was given.
    records: int
    took_ms: int
    #: Topics that records went into or came from.
    topics: tuple[str, ...] = ()
    #: Records of a sink's topics that it was not given yet; None for sources, and where nobody has looked.
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far the partitions are that moved in a batch; once at the start, how far all are."""

    offsets: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The connector cannot go on, in a line and with its trace; final where no further try would help."""

    message: str
    trace: str
    is_final: bool


Report = Started | Batch | Offsets | Failed

_KINDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in (Started, Batch, Offsets, Failed)}
#: Fields that JSON has as lists.
_TUPLES = ("topics", "offsets")


def encode(report: Report) -> bytes:
    """A report as its line."""
    return json.dumps({"is": type(report).__name__.lower(), **asdict(report)}).encode() + b"\n"


def decode(line: bytes) -> Report:
    """What ``encode`` wrote."""
    fields = json.loads(line)
    kind = _KINDS[fields.pop("is")]
    report: Report = kind(**{name: tuple(it) if name in _TUPLES else it for name, it in fields.items()})
    return report
