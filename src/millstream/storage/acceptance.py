"""What a log refuses, and what it has already: asked of batches before they are appended."""

from typing import TYPE_CHECKING

from millstream.model.batch import LOG_OVERHEAD, NO_SEQUENCE, BatchHeader
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.storage.history import older_batches
from millstream.storage.producer_state import ProducerStates, RememberedBatch, end_marker
from millstream.storage.sent_batches import Batches

if TYPE_CHECKING:
    from millstream.storage.log import Log


def check(log: "Log", records: memoryview, batches: Batches, is_client: bool) -> RememberedBatch | None:
    """Refuse what may not be appended; the batch in the log that these repeat, if they do."""
    producers, config = log.producers, log.config
    for at, header in batches:
        if header.length + LOG_OVERHEAD > config.max_message_bytes:
            raise ProtocolError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.size} bytes, max.message.bytes is {config.max_message_bytes}",
            )
        if header.is_control:
            if is_client:
                raise ProtocolError(ErrorCode.INVALID_RECORD, "clients do not write control batches")
            marker = end_marker(records, at)
            if marker is not None:
                producers.check_marker(header, marker)
        elif header.producer_id >= 0:
            if is_client and header.base_sequence == NO_SEQUENCE:
                raise ProtocolError(ErrorCode.INVALID_RECORD, "a batch with a producer id has no sequence number")
            if len(batches) > 1 and producers is log.producers:
                producers = producers.draft()
            repeated = _repeated(log, producers, header)
            if repeated is not None:
                return repeated
            if producers is not log.producers:
                producers.advance(header, 0, header.max_timestamp)
    if len(records) > config.segment_bytes:
        raise ProtocolError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(records)} bytes, segment.bytes is {config.segment_bytes}"
        )
    return None


def _repeated(log: "Log", producers: ProducerStates, header: BatchHeader) -> RememberedBatch | None:
    try:
        return producers.check(header)
    except ProtocolError as refusal:
        producer = producers.get(header.producer_id)
        if refusal.code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER or producer is None or producer.has_history:
            raise
        producers.remember_older(header.producer_id, older_batches(log.segments, producer, log.start_offset))
        return producers.check(header)
