"""How far a reader is behind the end of its partitions, in records and in time."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from millstream.client.cluster import Cluster, StaleMetadata
from millstream.client.partitions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, fetch, list_offsets
from millstream.client.reader import seen_batches
from millstream.client.wire import ConnectionLost, Unreachable
from millstream.model.batch import LOG_APPEND_TIME, BatchHeader
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import decode_batch

#: Records that are looked at together; each may be in a batch of a megabyte.
LOOKS_AT_ONCE = 16
#: How far markers and aborted records are followed for the first record behind them.
LOOKS_MAX = 64
#: A first look is for one batch, however little is asked for; those after it are for many small ones.
LOOK_BYTES = (1, 256 * 1024)


class Span(NamedTuple):
    """What there is of a partition: from ``start`` to ``end``, not included."""

    start: int
    end: int


class Lag(NamedTuple):
    """Records not yet read, and the age of the oldest of them; None where that is not known."""

    records: int
    age_ms: int | None


class Unread(NamedTuple):
    """The first record still to be read, and when it was written; None where that is not known."""

    offset: int
    written_ms: int | None


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

    The age is that of the first record still to be read. Markers of transactions, and what was aborted, are not
    records: a reader with only these before it has read all there is, though its offset is not the end.
    """
    behind = {
        tp: max(position, spans[tp].start)
        for tp, position in positions.items()
        if tp in spans and max(position, spans[tp].start) < spans[tp].end
    }
    gate = asyncio.Semaphore(LOOKS_AT_ONCE)

    async def look(tp: TopicPartition, offset: int) -> Unread | None:
        async with gate:
            return await first_unread(cluster, tp, offset, spans[tp].end)

    looks = await asyncio.gather(*(look(tp, offset) for tp, offset in behind.items()))
    unread = dict(zip(behind, looks, strict=True))
    lags = {}
    for tp, position in positions.items():
        if tp not in spans:
            continue
        if tp not in behind:
            lags[tp] = Lag(max(0, spans[tp].end - position), 0)
            continue
        first = unread[tp]
        if first is None:
            lags[tp] = Lag(0, 0)
            continue
        age_ms = None if first.written_ms is None else max(0, now_ms - first.written_ms)
        # What retention has taken is counted; what a reader skips is not.
        skipped = first.offset - behind[tp]
        lags[tp] = Lag(spans[tp].end - position - skipped, age_ms)
    return lags


async def first_unread(cluster: Cluster, tp: TopicPartition, offset: int, end: int) -> Unread | None:
    """The first record at or after ``offset`` that a reader is given, from its batch alone; None if there is none."""
    isolation = READ_COMMITTED
    for number in range(LOOKS_MAX):
        try:
            connection = await cluster.leader(tp)
            [row] = await fetch(
                cluster,
                connection,
                {tp: offset},
                bytes_max=LOOK_BYTES[number > 0],
                partition_bytes_max=LOOK_BYTES[number > 0],
                wait_ms=0,
                isolation=isolation,
            )
        except (StaleMetadata, Unreachable, ConnectionLost):
            break  # Its leader is moving; how old the record is will be known in a moment.
        if row.error_code:
            break
        before = offset
        for at, header, is_seen in seen_batches(row.records, row.aborted):
            if header.next_offset <= offset:
                continue
            if is_seen and (found := _first_of(row.records, at, header, offset)) is not None:
                return found
            offset = header.next_offset
        if offset >= end:
            return None
        if offset == before:
            if isolation == READ_UNCOMMITTED:
                break
            isolation = READ_UNCOMMITTED  # A transaction is open here: its records are yet to be read, or aborted.
    return Unread(offset, None)


def _first_of(fetched: memoryview, at: int, header: BatchHeader, offset: int) -> Unread | None:
    """The batch's first record at or after ``offset``; None when compaction has left it none there."""
    if header.attributes & LOG_APPEND_TIME:
        return Unread(max(offset, header.base_offset), _known(header.max_timestamp))
    if header.base_offset >= offset:
        return Unread(header.base_offset, _known(header.base_timestamp))
    try:
        later = (record for record in decode_batch(fetched, at) if record.offset >= offset)
        record = next(later, None)
    except ProtocolError:
        return Unread(offset, _known(header.max_timestamp))  # It cannot be unpacked here; the newest is a fair answer.
    return None if record is None else Unread(record.offset, _known(record.timestamp))


def _known(timestamp_ms: int) -> int | None:
    return timestamp_ms if timestamp_ms >= 0 else None
