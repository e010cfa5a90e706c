"""Broker settings of the log: what a topic inherits where it has no setting of its own."""

from millstream.config.setting import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    DOUBLE_MAX,
    GIB,
    HOUR_MS,
    INT,
    KIB,
    LIST,
    LONG,
    LONG_MAX,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    STRING,
    Check,
    Fallback,
    Setting,
    at_least,
    between,
    one_of,
    some_of,
)

COMPRESSION_TYPES = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = some_of("delete", "compact")
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
GZIP_LEVELS = Check("-1 or from 1 to 9", lambda level: level == -1 or 1 <= level <= 9)
LZ4_LEVELS = between(1, 17)
ZSTD_LEVELS = between(-131072, 22)
#: A segment must at least hold the offset and length that every batch starts with.
SEGMENT_BYTES_LEAST = 14
RETENTION = Check("-1 or at least 1", lambda limit: limit == -1 or limit >= 1)

# Segments: when one is closed and the next begun, and how it is indexed.

LOG_SEGMENT_BYTES = Setting(
    "log.segment.bytes",
    INT,
    default=1 * GIB,
    check=at_least(SEGMENT_BYTES_LEAST),
    dynamic=True,
    doc="A segment is closed and a new one opened once the next batch would pass this size.",
)
LOG_ROLL_HOURS = Setting(
    "log.roll.hours",
    INT,
    default=168,
    check=at_least(1),
    doc="Hours after which a segment is closed even when it is not full. Asked when log.roll.ms is not set.",
)
LOG_ROLL_MS = Setting[int | None](
    "log.roll.ms",
    LONG,
    default=None,
    check=at_least(1),
    dynamic=True,
    fallbacks=(Fallback(LOG_ROLL_HOURS, times=HOUR_MS),),
    doc="Milliseconds after which a segment is closed even when it is not full.",
)
LOG_ROLL_JITTER_HOURS = Setting(
    "log.roll.jitter.hours",
    INT,
    default=0,
    check=at_least(0),
    doc="Upper bound, in hours, of a random part taken off a segment's age. Asked when log.roll.jitter.ms is not set.",
)
LOG_ROLL_JITTER_MS = Setting[int | None](
    "log.roll.jitter.ms",
    LONG,
    default=None,
    check=at_least(0),
    dynamic=True,
    fallbacks=(Fallback(LOG_ROLL_JITTER_HOURS, times=HOUR_MS),),
    doc="Upper bound of a random part taken off a segment's age, so that segments do not all close at once.",
)
LOG_INDEX_SIZE_MAX_BYTES = Setting(
    "log.index.size.max.bytes",
    INT,
    default=10 * MIB,
    check=at_least(4),
    dynamic=True,
    doc="A segment is closed once its offset index has this size.",
)
LOG_INDEX_INTERVAL_BYTES = Setting(
    "log.index.interval.bytes",
    INT,
    default=4 * KIB,
    check=at_least(0),
    dynamic=True,
    doc="About how many bytes of log lie between two entries of its index.",
)
LOG_PREALLOCATE = Setting(
    "log.preallocate",
    BOOLEAN,
    default=False,
    check=Check("and only false yet: files grow as they are written", lambda value: not value),
    dynamic=True,
    doc="Whether a new segment's file is given its full size at once; it never is.",
)
LOG_SEGMENT_DELETE_DELAY_MS = Setting(
    "log.segment.delete.delay.ms",
    LONG,
    default=60 * SECOND_MS,
    check=at_least(0),
    dynamic=True,
    doc="How long a segment's files stay on disk after the segment has left the log.",
)

# Retention: when old segments go.

LOG_CLEANUP_POLICY = Setting(
    "log.cleanup.policy",
    LIST,
    default=("delete",),
    check=CLEANUP_POLICIES,
    dynamic=True,
    doc="Whether old segments are deleted, compacted to the last record of each key, or both.",
)
LOG_RETENTION_HOURS = Setting(
    "log.retention.hours",
    INT,
    default=168,
    check=RETENTION,
    doc="Hours that a segment is kept; -1 for ever. Asked when neither minutes nor milliseconds are set.",
)
LOG_RETENTION_MINUTES = Setting[int | None](
    "log.retention.minutes",
    INT,
    default=None,
    check=RETENTION,
    fallbacks=(Fallback(LOG_RETENTION_HOURS, times=60),),
    doc="Minutes that a segment is kept; -1 for ever. Asked when log.retention.ms is not set.",
)
LOG_RETENTION_MS = Setting[int | None](
    "log.retention.ms",
    LONG,
    default=None,
    check=RETENTION,
    dynamic=True,
    fallbacks=(Fallback(LOG_RETENTION_MINUTES, times=MINUTE_MS), Fallback(LOG_RETENTION_HOURS, times=HOUR_MS)),
    doc="Milliseconds that a segment is kept; -1 for ever.",
)
LOG_RETENTION_BYTES = Setting(
    "log.retention.bytes",
    LONG,
    default=-1,
    dynamic=True,
    doc="Bytes that each partition may keep before its oldest segments go; -1 for no limit.",
)
LOG_RETENTION_CHECK_INTERVAL_MS = Setting(
    "log.retention.check.interval.ms",
    LONG,
    default=5 * MINUTE_MS,
    check=at_least(1),
    doc="How often segments are looked over for ones that have outlived their retention.",
)

# Compaction.

LOG_CLEANER_ENABLE = Setting(
    "log.cleaner.enable",
    BOOLEAN,
    default=True,
    doc="Whether topics whose cleanup policy includes compact are compacted at all.",
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = Setting(
    "log.cleaner.io.max.bytes.per.second",
    DOUBLE,
    default=DOUBLE_MAX,
    dynamic=True,
    doc="Bytes a second that compaction may read and write together.",
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = Setting(
    "log.cleaner.dedupe.buffer.size",
    LONG,
    default=128 * MIB,
    dynamic=True,
    doc="Memory for the map of keys to their last offsets, over all compactions at work.",
)
LOG_CLEANER_IO_BUFFER_SIZE = Setting(
    "log.cleaner.io.buffer.size",
    INT,
    default=512 * KIB,
    check=at_least(0),
    dynamic=True,
    doc="Memory for reading and writing segments, over all compactions at work.",
)
LOG_CLEANER_BACKOFF_MS = Setting(
    "log.cleaner.backoff.ms",
    LONG,
    default=15 * SECOND_MS,
    check=at_least(0),
    dynamic=True,
    doc="How long compaction rests when no partition needed it.",
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = Setting(
    "log.cleaner.min.cleanable.ratio",
    DOUBLE,
    default=0.5,
    check=between(0, 1),
    dynamic=True,
    doc="The part of a log that must be new since its last compaction before it is compacted again.",
)
LOG_CLEANER_DELETE_RETENTION_MS = Setting(
    "log.cleaner.delete.retention.ms",
    LONG,
    default=DAY_MS,
    check=at_least(0),
    dynamic=True,
    doc="How long a deletion mark stays in a compacted log, so that slow readers see it.",
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = Setting(
    "log.cleaner.min.compaction.lag.ms",
    LONG,
    default=0,
    check=at_least(0),
    dynamic=True,
    doc="How long a record stays as it was written before compaction may touch it.",
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = Setting(
    "log.cleaner.max.compaction.lag.ms",
    LONG,
    default=LONG_MAX,
    check=at_least(1),
    dynamic=True,
    doc="How long a record may wait before its log is compacted whatever the ratio.",
)

# Flushing.

LOG_FLUSH_INTERVAL_MESSAGES = Setting(
    "log.flush.interval.messages",
    LONG,
    default=LONG_MAX,
    check=at_least(1),
    dynamic=True,
    doc="How many records may be appended to a partition before they are flushed to disk.",
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = Setting(
    "log.flush.scheduler.interval.ms",
    LONG,
    default=LONG_MAX,
    doc="How long a record may lie in memory before it is flushed. Asked when log.flush.interval.ms is not set.",
)
LOG_FLUSH_INTERVAL_MS = Setting[int | None](
    "log.flush.interval.ms",
    LONG,
    default=None,
    dynamic=True,
    fallbacks=(Fallback(LOG_FLUSH_SCHEDULER_INTERVAL_MS),),
    doc="How long a record may lie in memory before it is flushed to disk.",
)

# Records: what is accepted and how it is kept.

MESSAGE_MAX_BYTES = Setting(
    "message.max.bytes",
    INT,
    default=1 * MIB + 12,
    check=at_least(0),
    dynamic=True,
    doc="The largest record batch, as it lies in the log, that a topic takes.",
)
COMPRESSION_TYPE = Setting(
    "compression.type",
    STRING,
    default="producer",
    check=COMPRESSION_TYPES,
    dynamic=True,
    doc="The codec that batches are kept in; 'producer' keeps the one they came in.",
)
COMPRESSION_GZIP_LEVEL = Setting(
    "compression.gzip.level",
    INT,
    default=-1,
    check=GZIP_LEVELS,
    dynamic=True,
    doc="Level used where gzip is asked for.",
)
COMPRESSION_LZ4_LEVEL = Setting(
    "compression.lz4.level", INT, default=9, check=LZ4_LEVELS, dynamic=True, doc="Level used where lz4 is asked for."
)
COMPRESSION_ZSTD_LEVEL = Setting(
    "compression.zstd.level", INT, default=3, check=ZSTD_LEVELS, dynamic=True, doc="Level used where zstd is asked for."
)
LOG_MESSAGE_TIMESTAMP_TYPE = Setting(
    "log.message.timestamp.type",
    STRING,
    default="CreateTime",
    check=TIMESTAMP_TYPES,
    dynamic=True,
    doc="Whether a record keeps its producer's time or is given the broker's when it is appended.",
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = Setting(
    "log.message.timestamp.before.max.ms",
    LONG,
    default=LONG_MAX,
    check=at_least(0),
    dynamic=True,
    doc="How far behind the broker's clock a record's own time may lie.",
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = Setting(
    "log.message.timestamp.after.max.ms",
    LONG,
    default=HOUR_MS,
    check=at_least(0),
    dynamic=True,
    doc="How far ahead of the broker's clock a record's own time may lie.",
)
MIN_INSYNC_REPLICAS = Setting(
    "min.insync.replicas",
    INT,
    default=1,
    check=at_least(1),
    dynamic=True,
    doc="How many replicas must have a record written with acks=all; with fewer in sync it is refused.",
)
UNCLEAN_LEADER_ELECTION_ENABLE = Setting(
    "unclean.leader.election.enable",
    BOOLEAN,
    default=False,
    dynamic=True,
    doc="Whether a replica out of sync may lead when no other is left, at the price of lost records.",
)
