"""Broker settings of transactions."""

from millstream.config.setting import (
    BOOLEAN,
    DAY_MS,
    HOUR_MS,
    INT,
    MIB,
    MINUTE_MS,
    SHORT,
    Setting,
    at_least,
)

TRANSACTION_MAX_TIMEOUT_MS = Setting(
    "transaction.max.timeout.ms",
    INT,
    default=15 * MINUTE_MS,
    check=at_least(1),
    doc="The longest time-out a producer may ask for its transactions.",
)
TRANSACTIONAL_ID_EXPIRATION_MS = Setting(
    "transactional.id.expiration.ms",
    INT,
    default=7 * DAY_MS,
    check=at_least(1),
    doc="How long a transactional id that nobody uses is remembered.",
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = Setting(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    INT,
    default=HOUR_MS,
    check=at_least(1),
    doc="How often transactional ids are looked over for ones that nobody has used for too long.",
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = Setting(
    "transaction.partition.verification.enable",
    BOOLEAN,
    default=True,
    dynamic=True,
    doc="Whether a partition asks the coordinator if it is in the transaction before it takes its first records.",
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = Setting(
    "transaction.two.phase.commit.enable",
    BOOLEAN,
    default=True,
    doc="Whether producers may have transactions without a time-out, which an outside coordinator commits (KIP-939). "
    "Kafka says no; an embedded registry serves people who trust each other.",
)

# The topic that keeps them.

TRANSACTION_STATE_LOG_NUM_PARTITIONS = Setting(
    "transaction.state.log.num.partitions",
    INT,
    default=50,
    check=at_least(1),
    doc="How many partitions the topic of transactions gets; not to be changed once it is there.",
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = Setting(
    "transaction.state.log.replication.factor",
    SHORT,
    default=3,
    check=at_least(1),
    doc="How many replicas the topic of transactions gets; where it is not set, no more than there are brokers.",
)
TRANSACTION_STATE_LOG_MIN_ISR = Setting(
    "transaction.state.log.min.isr",
    INT,
    default=2,
    check=at_least(1),
    doc="How many replicas must have what is written to the topic of transactions, of as many as it was made with.",
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = Setting(
    "transaction.state.log.segment.bytes",
    INT,
    default=100 * MIB,
    check=at_least(1),
    doc="The segment size of the topic of transactions; small, so that it is compacted soon and loads fast.",
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = Setting(
    "transaction.state.log.load.buffer.size",
    INT,
    default=5 * MIB,
    check=at_least(1),
    doc="How many bytes of the topic of transactions are read at once when a coordinator takes over a part of it.",
)
