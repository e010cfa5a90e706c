"""Broker settings of consumer groups and their offsets."""

from millstream.config.setting import (
    DAY_MS,
    INT,
    INT_MAX,
    KIB,
    LIST,
    LONG,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    SHORT,
    STRING,
    Check,
    Setting,
    at_least,
    between,
    one_of,
    some_of,
)

CLASSIC = "classic"
CONSUMER = "consumer"
PROTOCOLS = Check(
    f"{CLASSIC}, with {CONSUMER} or without", lambda names: CLASSIC in names and set(names) <= {CLASSIC, CONSUMER}
)

# Which protocols members may speak.

GROUP_COORDINATOR_REBALANCE_PROTOCOLS = Setting(
    "group.coordinator.rebalance.protocols",
    LIST,
    default=(CLASSIC, CONSUMER),
    check=PROTOCOLS,
    doc="The protocols that members of groups may speak: classic always, consumer being the one of KIP-848.",
)

# The classic protocol.

GROUP_INITIAL_REBALANCE_DELAY_MS = Setting(
    "group.initial.rebalance.delay.ms",
    INT,
    default=300,
    check=at_least(0),
    doc="How long the first member of an empty group waits for others before it is given everything. Kafka waits "
    "3000; beside an embedded registry a person is waiting.",
)
GROUP_MIN_SESSION_TIMEOUT_MS = Setting(
    "group.min.session.timeout.ms",
    INT,
    default=6 * SECOND_MS,
    check=at_least(0),
    doc="The shortest session a member of the classic protocol may ask for.",
)
GROUP_MAX_SESSION_TIMEOUT_MS = Setting(
    "group.max.session.timeout.ms",
    INT,
    default=30 * MINUTE_MS,
    check=at_least(0),
    doc="The longest session a member of the classic protocol may ask for.",
)
GROUP_MAX_SIZE = Setting(
    "group.max.size",
    INT,
    default=INT_MAX,
    check=at_least(1),
    doc="How many members a group of the classic protocol may have.",
)

# The consumer protocol (KIP-848).

GROUP_CONSUMER_SESSION_TIMEOUT_MS = Setting(
    "group.consumer.session.timeout.ms",
    INT,
    default=45 * SECOND_MS,
    check=at_least(1),
    doc="How long a member of the consumer protocol may be silent before it is taken for dead.",
)
GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS = Setting(
    "group.consumer.min.session.timeout.ms",
    INT,
    default=45 * SECOND_MS,
    check=at_least(1),
    doc="The least that group.consumer.session.timeout.ms may be.",
)
GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS = Setting(
    "group.consumer.max.session.timeout.ms",
    INT,
    default=60 * SECOND_MS,
    check=at_least(1),
    doc="The most that group.consumer.session.timeout.ms may be.",
)
GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = Setting(
    "group.consumer.heartbeat.interval.ms",
    INT,
    default=5 * SECOND_MS,
    check=at_least(1),
    doc="How often members of the consumer protocol are told to show that they live.",
)
GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS = Setting(
    "group.consumer.min.heartbeat.interval.ms",
    INT,
    default=5 * SECOND_MS,
    check=at_least(1),
    doc="The least that group.consumer.heartbeat.interval.ms may be.",
)
GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS = Setting(
    "group.consumer.max.heartbeat.interval.ms",
    INT,
    default=15 * SECOND_MS,
    check=at_least(1),
    doc="The most that group.consumer.heartbeat.interval.ms may be.",
)
GROUP_CONSUMER_MAX_SIZE = Setting(
    "group.consumer.max.size",
    INT,
    default=INT_MAX,
    check=at_least(1),
    doc="How many members a group of the consumer protocol may have.",
)
GROUP_CONSUMER_ASSIGNORS = Setting(
    "group.consumer.assignors",
    LIST,
    default=("uniform", "range"),
    check=some_of("uniform", "range"),
    doc="The assignors members may ask for; the first is used where they ask for none.",
)
GROUP_CONSUMER_MIGRATION_POLICY = Setting(
    "group.consumer.migration.policy",
    STRING,
    default="bidirectional",
    check=one_of("bidirectional", "upgrade", "downgrade", "disabled"),
    doc="Whether a group with members may go over to the consumer protocol (upgrade), back (downgrade), or both.",
)
GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS = Setting(
    "group.consumer.regex.refresh.interval.ms",
    INT,
    default=10 * MINUTE_MS,
    check=at_least(10 * SECOND_MS),
    doc="How often the topics that a regular expression matches are looked up again when nothing else asks for it.",
)

# Offsets.

OFFSET_METADATA_MAX_BYTES = Setting(
    "offset.metadata.max.bytes",
    INT,
    default=4 * KIB,
    check=at_least(0),
    doc="The longest text a client may leave with an offset it commits.",
)
OFFSETS_RETENTION_MINUTES = Setting(
    "offsets.retention.minutes",
    INT,
    default=7 * DAY_MS // MINUTE_MS,
    check=at_least(1),
    doc="How long offsets are kept once no member of their group needs them any more.",
)
OFFSETS_RETENTION_CHECK_INTERVAL_MS = Setting(
    "offsets.retention.check.interval.ms",
    LONG,
    default=10 * MINUTE_MS,
    check=at_least(1),
    doc="How often offsets are looked over for ones that have outlived their retention.",
)
OFFSETS_COMMIT_TIMEOUT_MS = Setting(
    "offsets.commit.timeout.ms",
    INT,
    default=5 * SECOND_MS,
    check=at_least(1),
    doc="How long an answer waits until what it tells of is safe on every replica of the offsets topic.",
)
OFFSETS_LOAD_BUFFER_SIZE = Setting(
    "offsets.load.buffer.size",
    INT,
    default=5 * MIB,
    check=at_least(1),
    doc="How many bytes of the offsets topic are read at once when a coordinator takes over a part of it.",
)

# The topic that keeps them.

OFFSETS_TOPIC_NUM_PARTITIONS = Setting(
    "offsets.topic.num.partitions",
    INT,
    default=50,
    check=at_least(1),
    doc="How many partitions the offsets topic gets; not to be changed once it is there.",
)
OFFSETS_TOPIC_REPLICATION_FACTOR = Setting(
    "offsets.topic.replication.factor",
    SHORT,
    default=3,
    check=at_least(1),
    doc="How many replicas the offsets topic gets; where it is not set, no more than there are brokers.",
)
OFFSETS_TOPIC_SEGMENT_BYTES = Setting(
    "offsets.topic.segment.bytes",
    INT,
    default=100 * MIB,
    check=at_least(1),
    doc="The segment size of the offsets topic; small, so that it is compacted soon and loads fast.",
)
OFFSETS_TOPIC_COMPRESSION_CODEC = Setting(
    "offsets.topic.compression.codec",
    INT,
    default=0,
    check=between(0, 4),
    doc="The codec of batches in the offsets topic, by its number: none, gzip, snappy, lz4, zstd.",
)
