"""How far a reader is behind the end of its partitions, in records and in time."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from millstream.client.cluster import Cluster, StaleMetadata
from millstream.client.partitions import EARLIEST, LATEST, fetch, list_offsets
from millstream.client.reader import whole_batches
from millstream.client.wire import ConnectionLost, Unreachable
from millstream.model.batch import LOG_APPEND_TIME
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import decode_batch

#: Records that are looked at together; each may be in a batch of a megabyte.
LOOKS_AT_ONCE = 16


class Span(NamedTuple):
    """What there is of a partition: from ``start`` to ``end``, not included."""

    start: int
    end: int


class Lag(NamedTuple):
    """Records not yet read, and the age of the oldest of them; None where that is not known."""

    records: int
    age_ms: int | None


async def spans_of(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Span]:
    """What each partition holds; those that are gone, or have no leader now, are left out."""
    wanted = list(partitions)
    if not wanted:
        return {}
    await cluster.refresh(dict.fromkeys(tp.topic for tp in wanted))
    led = {
        TopicPartition(topic.name, partition.index)
        for topic in cluster.topics.values()
        for partition in topic.partitions
        if partition.leader >= 0
    }
    there = [tp for tp in wanted if tp in led]
    starts, ends = await asyncio.gather(
        *(list_offsets(cluster, dict.fromkeys(there, place)) for place in (EARLIEST, LATEST))
    )
    return {tp: Span(starts[tp].offset, ends[tp].offset) for tp in there}


async def lags_of(
    cluster: Cluster, positions: Mapping[TopicPartition, int], spans: Mapping[TopicPartition, Span], now_ms: int
) -> dict[TopicPartition, Lag]:
    """The lag of each position in a partition that ``spans`` knows.

    The age is that of the record at the position, or of the first one left where retention has overtaken it.
    """
    behind = {
        tp: max(position, spans[tp].start)
        for tp, position in positions.items()
        if tp in spans and max(position, spans[tp].start) < spans[tp].end
    }
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(tp: TopicPartition, offset: int) -> int | None:
        async with gate:
            return await timestamp_at(cluster, tp, offset)

    looks = await asyncio.gather(*(look(tp, offset) for tp, offset in behind.items()))
    moments = dict(zip(behind, looks, strict=True))
    lags = {}
    for tp, position in positions.items():
        if tp not in spans:
            continue
        moment_ms = moments.get(tp)
        if tp not in behind:
            age_ms: int | None = 0
        else:
            age_ms = None if moment_ms is None else max(0, now_ms - moment_ms)
        lags[tp] = Lag(max(0, spans[tp].end - position), age_ms)
    return lags


async def timestamp_at(cluster: Cluster, tp: TopicPartition, offset: int) -> int | None:
    """The timestamp of the first record at or after ``offset``, read from its batch alone; None when it has none."""
    try:
        connection = await cluster.leader(tp)
        # A broker gives one whole batch however little is asked for.
        [row] = await fetch(cluster, connection, {tp: offset}, bytes_max=1, partition_bytes_max=1, wait_ms=0)
    except (StaleMetadata, Unreachable, ConnectionLost):
        return None  # Its leader is moving; how old the record is will be known in a moment.
    if row.error_code:
        return None
    for at, header in whole_batches(row.records):
        if header.next_offset <= offset:
            continue
        if header.attributes & LOG_APPEND_TIME:
            return _known(header.max_timestamp)
        if header.base_offset >= offset:
            return _known(header.base_timestamp)
        try:
            later = (record for record in decode_batch(row.records, at) if record.offset >= offset)
            record = next(later, None)
        except ProtocolError:
            return _known(header.max_timestamp)  # The bytes cannot be unpacked here; the newest is a fair answer.
        if record is not None:
            return _known(record.timestamp)
    return None


def _known(timestamp_ms: int) -> int | None:
    return timestamp_ms if timestamp_ms >= 0 else None
