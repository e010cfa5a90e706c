"""Loading a machine from its partition's log: read in a thread, decoded and replayed a little in every turn.

Python decodes no faster in a thread, and a loop that must ask a busy thread for its turn gets it milliseconds late; so
only what blocks is done there.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from millstream.coordination.decision import Machine, Origin
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    crc_holds,
    header_at,
)
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import COMMIT, Record, control_kind, decode_batch
from millstream.model.workers import Workers
from millstream.storage.log import Log

logger = logging.getLogger(__name__)

#: How many records are decoded and replayed before others have their turn: about half a millisecond's worth.
REPLAYED_AT_ONCE = 100
#: A batch larger than this, or compressed, is taken apart in a thread all the same: a whole batch is one piece of work.
TAKEN_APART_AT_ONCE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Codec:
    """How a topic's records are written and read."""

    encode: Callable[[CoordinatorRecord], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], CoordinatorRecord]


async def load(log: Log, machine: Machine, codec: Codec, workers: Workers, bytes_max: int) -> int:
    """Replay the whole log to ``machine``; where it ended.  A record that cannot be read is reported and skipped.

    NOT_LEADER_OR_FOLLOWER when the log is deleted meanwhile, or moves to another directory.
    """
    offset, end_offset = log.start_offset, log.end_offset
    in_this_turn = 0
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
        data = await workers.in_thread(piece.read)
        for at, header in _batches(data):
            offset = header.next_offset
            if header.compression or header.size > TAKEN_APART_AT_ONCE_BYTES:
                records = await workers.in_thread(_taken_apart, data, at, header, log.topic_partition)
            else:
                records = _taken_apart(data, at, header, log.topic_partition)
            for first in range(0, len(records), REPLAYED_AT_ONCE):
                some = records[first : first + REPLAYED_AT_ONCE]
                _replay(machine, some, header, codec, log.topic_partition)
                in_this_turn += len(some)
                if in_this_turn >= REPLAYED_AT_ONCE:
                    in_this_turn = 0
                    await asyncio.sleep(0)
        if offset == before:
            offset = _after_damage(log, offset)
    return end_offset


def _after_damage(log: Log, offset: int) -> int:
    """Where to go on when a batch is so damaged that its end cannot be found: at the next segment."""
    following = min((each.base_offset for each in log.segments if each.base_offset > offset), default=log.end_offset)
    logger.error("%s: offsets %d to %d are damaged, and skipped", log.topic_partition, offset, following - 1)
    return following


def _batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """The whole batches of a slice, and where each starts."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = header_at(data, at)
        if header.length < HEADER_BYTES - LOG_OVERHEAD or at + header.size > len(data):
            break
        yield at, header
        at += header.size


def _taken_apart(data: bytes, at: int, header: BatchHeader, topic_partition: TopicPartition) -> list[Record]:
    """The records of a batch; none, and a report, where it is damaged."""
    fault: object = "its checksum does not match"
    if crc_holds(data, at, header):
        try:
            return decode_batch(data, at, header)
        except ProtocolError as refusal:
            fault = refusal
    logger.error("%s: the batch at offset %d is damaged, and skipped: %s", topic_partition, header.base_offset, fault)
    return []


def _replay(
    machine: Machine, records: list[Record], header: BatchHeader, codec: Codec, topic_partition: TopicPartition
) -> None:
    """Tell the machine what these records of a batch say."""
    attributes, producer_id = header.attributes, header.producer_id
    is_control = attributes & CONTROL
    origin_id = producer_id if attributes & TRANSACTIONAL else NO_PRODUCER_ID
    decode, replay = codec.decode, machine.replay
    for record in records:
        offset, timestamp, key, value, _ = record
        try:
            if is_control:
                machine.replay_marker(producer_id, is_commit=control_kind(record) == COMMIT)
                continue
            if key is None:
                raise CorruptFrame("it has no key")
            decoded = decode(key, value)
        except (CorruptFrame, ProtocolError) as fault:
            logger.error("%s: the record at offset %d is skipped: %s", topic_partition, offset, fault)
            continue
        replay(decoded, Origin(offset, timestamp, origin_id))
