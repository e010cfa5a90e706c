"""The order in which rows are read, and places in it as Confluent's offsets name them.  Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from millstream.pipelines.connect.base import Offset
from millstream.pipelines.connect.errors import Misconfigured

UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: One more than there is: a literal of the least is out of range before its sign is looked at.
LEAST = 1 - 2**63
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Order:
    """What rows are read in the order of: expressions, what they are cast to, and what offsets call them."""

    expressions: tuple[str, ...]
    casts: tuple[str, ...]
    has_time: bool
    has_number: bool

    def values(self, offset: Offset) -> list[Any]:
        """The place that an offset names."""
        values: list[Any] = []
        if self.has_time:
            at_ms, nanos = _named(offset, "timestamp"), offset.get("timestamp_nanos", 0)
            values.append(UNIX_EPOCH + timedelta(milliseconds=at_ms // 1000 * 1000, microseconds=_micros(at_ms, nanos)))
        if self.has_number:
            # Before every row of a moment, where nobody said behind which.
            values.append(offset.get("incrementing", LEAST) if self.has_time else _named(offset, "incrementing"))
        return values

    def offset(self, texts: Sequence[str]) -> Offset:
        """The offset of a place."""
        offset: dict[str, Any] = {}
        if self.has_time:
            moment = datetime.fromisoformat(texts[0])
            micros = (moment.replace(tzinfo=moment.tzinfo or UTC) - UNIX_EPOCH) // MICROSECOND
            offset |= {"timestamp": micros // 1000, "timestamp_nanos": micros % 1_000_000 * 1000}
        if self.has_number:
            offset["incrementing"] = int(Decimal(texts[-1]))
        return offset


def _named(offset: Offset, name: str) -> int:
    found = offset.get(name)
    if not isinstance(found, int):
        raise Misconfigured(
            f"the offset {dict(offset)} has no {name}; reset the connector's offsets, or alter this one"
        )
    return found


def _micros(at_ms: int, nanos: int) -> int:
    """The part of a second: nanoseconds are within the second, and may be missing."""
    return nanos // 1000 if nanos else at_ms % 1000 * 1000
