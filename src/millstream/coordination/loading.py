"""Loading a machine from its partition's log: read and decoded in a thread, replayed a little in every turn."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from millstream.coordination.decision import Machine, Origin
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, crc_holds, header_at
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import COMMIT, control_kind, decode_batch
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.storage.log import Log

logger = logging.getLogger(__name__)

#: How many records are replayed before others have their turn.
REPLAYED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Codec:
    """How a topic's records are written and read."""

    encode: Callable[[CoordinatorRecord], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], CoordinatorRecord]


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    is_commit: bool


Loaded = tuple[CoordinatorRecord, Origin] | Marker


async def load(log: Log, machine: Machine, codec: Codec, workers: Workers, bytes_max: int) -> int:
    """Replay the whole log to ``machine``; where it ended.  A record that cannot be read is reported and skipped."""
    offset, end_offset = log.start_offset, log.end_offset
    while offset < end_offset:
        try:
            piece = log.read(offset, bytes_max, end_offset)
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            offset = _after_damage(log, offset)
            continue
        if piece is None:
            break
        before = offset
        found, offset = await workers.in_thread(_decoded, piece, offset, codec, log.topic_partition)
        if offset == before:
            offset = _after_damage(log, offset)
        for number, item in enumerate(found, 1):
            if isinstance(item, Marker):
                machine.replay_marker(item.producer_id, is_commit=item.is_commit)
            else:
                machine.replay(*item)
            if number % REPLAYED_AT_ONCE == 0:
                await asyncio.sleep(0)
    return end_offset


def _after_damage(log: Log, offset: int) -> int:
    """Where to go on when a batch is so damaged that its end cannot be found: at the next segment."""
    following = min((each.base_offset for each in log.segments if each.base_offset > offset), default=log.end_offset)
    logger.error("%s: offsets %d to %d are damaged, and skipped", log.topic_partition, offset, following - 1)
    return following


def _decoded(piece: FileSlice, offset: int, codec: Codec, topic_partition: TopicPartition) -> tuple[list[Loaded], int]:
    """The records of a slice, and the offset after it."""
    data = piece.read()
    found: list[Loaded] = []
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = header_at(data, at)
        if header.length < HEADER_BYTES - LOG_OVERHEAD or at + header.size > len(data):
            break
        if crc_holds(data, at, header):
            found.extend(_records(data, at, header, codec, topic_partition))
        else:
            logger.error("%s: the batch at offset %d is damaged, and skipped", topic_partition, header.base_offset)
        at += header.size
        offset = header.next_offset
    return found, offset


def _records(
    data: bytes, at: int, header: BatchHeader, codec: Codec, topic_partition: TopicPartition
) -> Iterator[Loaded]:
    for record in decode_batch(data, at):
        if header.is_control:
            yield Marker(header.producer_id, control_kind(record) == COMMIT)
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        try:
            if record.key is None:
                raise CorruptFrame("it has no key")
            decoded = codec.decode(record.key, record.value)
        except (CorruptFrame, ProtocolError) as fault:
            logger.error("%s: the record at offset %d is skipped: %s", topic_partition, record.offset, fault)
            continue
        yield decoded, Origin(record.offset, record.timestamp, producer_id)
