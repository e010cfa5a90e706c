"""What a leader asks of a batch before it takes it in: from the header always, from the records only where it must.

Records are decoded for compacted topics (every record needs a key), for a topic with a codec of its own, and
where timestamps have a lower bound; a caller may then do it off the loop.
"""

from millstream.config.topic import TopicConfig
from millstream.model.batch import LOG_OVERHEAD, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, checked_header
from millstream.model.compression import CODEC_IDS, CODECS
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import check_records, recompress

#: A topic that keeps whatever codec its producers chose.
PRODUCER_COMPRESSION = "producer"
LOG_APPEND_TIME = "LogAppendTime"
#: No lower bound on timestamps is Kafka's default, spelled as its largest long.
UNBOUNDED_MS = 2**63 - 1


def checked_batch(records: memoryview) -> BatchHeader:
    """The header of the one batch that a producer may send a partition at a time, its CRC checked."""
    if not records:
        raise ProtocolError(ErrorCode.INVALID_RECORD, "no batch was sent")
    header = checked_header(records)
    if header.length + LOG_OVERHEAD != len(records):
        raise ProtocolError(ErrorCode.INVALID_RECORD, "a partition takes one batch in a request, more was sent")
    if header.compression not in CODECS:
        raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has the number {header.compression}")
    if header.base_offset != 0 or header.base_sequence < NO_SEQUENCE:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"offset {header.base_offset}, sequence {header.base_sequence}: a producer starts both at 0, or has none",
        )
    return header


def needs_a_look(config: TopicConfig) -> bool:
    """Whether this topic's records must be decoded before they are taken."""
    return (
        config.cleanup_compact
        or config.compression_type != PRODUCER_COMPRESSION
        or config.message_timestamp_before_max_ms < UNBOUNDED_MS
    )


def refuse_newest(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Refuse a batch whose newest record, as its header knows it, is from too far in the future, if times are kept."""
    if config.message_timestamp_type != LOG_APPEND_TIME:
        raise ProtocolError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} is more than message.timestamp.after.max.ms ahead of {now_ms}",
        )


def looked_at(records: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int) -> memoryview:
    """The batch as this topic keeps it, or the refusal; decodes every record."""
    span = check_records(records, 0, header)
    if config.cleanup_compact and span.has_null_key:
        raise ProtocolError(ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key")
    oldest_ms = now_ms - config.message_timestamp_before_max_ms
    if NO_TIMESTAMP < span.timestamp_min < oldest_ms and not config.message_timestamp_type == LOG_APPEND_TIME:
        raise ProtocolError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {span.timestamp_min} is more than message.timestamp.before.max.ms behind {now_ms}",
        )
    if config.compression_type != PRODUCER_COMPRESSION:
        wanted = CODEC_IDS[config.compression_type]
        if wanted != header.compression:
            return memoryview(recompress(records, header, wanted, level=config.compression_level))
    return records
