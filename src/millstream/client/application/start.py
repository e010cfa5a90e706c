"""Where reading begins: the two ends, an offset, or a moment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as WirePartition

from millstream.client.application.errors import BadSetting, translated

if TYPE_CHECKING:
    from confluent_kafka import Consumer as Wire

#: "earliest", "latest", an offset, or an aware time: the first record at or after it.
Start: TypeAlias = Literal["earliest", "latest"] | int | datetime

_ENDS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}


def checked(start: Start) -> Start:
    """The start itself, if it is one."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise BadSetting(f"start={start} has no time zone; give an aware time, as datetime.now(UTC)")
    elif isinstance(start, str):
        if start not in _ENDS:
            raise BadSetting(f"start={start!r} is neither 'earliest' nor 'latest' nor an offset nor a datetime")
    elif isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise BadSetting(f"start={start!r} is no offset: offsets begin at 0")
    return start


def moment_ms(start: datetime) -> int:
    """As Kafka counts; 1970 for what is earlier, as negative numbers mean other things to a broker."""
    return max(0, int(start.timestamp() * 1000))


def placed(wire: Wire, partitions: Sequence[WirePartition], start: Start, timeout_s: float) -> list[WirePartition]:
    """These partitions with the offset at which to begin; only a moment has to be asked for."""
    if isinstance(start, datetime):
        wanted = [WirePartition(p.topic, p.partition, moment_ms(start)) for p in partitions]
        try:
            return wire.offsets_for_times(wanted, timeout_s) if wanted else []
        except KafkaException as exception:
            raise translated(exception, f"finding the offsets at {start}") from exception
    offset = _ENDS[start] if isinstance(start, str) else start
    return [WirePartition(p.topic, p.partition, offset) for p in partitions]
