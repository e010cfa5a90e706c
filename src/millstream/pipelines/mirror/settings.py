"""The settings of a mirror file: MirrorMaker 2's names, kinds and defaults, as a table.

Each may be given for all flows, ``topics = orders``, or for one, ``A->B.topics = orders``.
"""

from collections.abc import Mapping
from typing import Any

from millstream.config.setting import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    MIB,
    NOT_EMPTY,
    STRING,
    Setting,
    at_least,
    one_of,
    table,
)
from millstream.pipelines.mirror.policy import DEFAULT_SEPARATOR, POLICIES

#: Where the file is silent on replicas, MirrorMaker's number, or as many as there are brokers.
AS_THERE_ARE = 0
SOURCE, TARGET = "source", "target"

ENABLED = Setting("enabled", BOOLEAN, default=False, doc="Whether this flow is wanted; each is off until it is on.")
TOPICS = Setting("topics", LIST, default=(".*",), doc="Names and regular expressions of the topics to mirror.")
TOPICS_EXCLUDE = Setting(
    "topics.exclude",
    LIST,
    default=(r"mm2.*\.internal", r".*\.replica", "__.*"),
    doc="Those that are not mirrored in any case.",
)
GROUPS = Setting("groups", LIST, default=(".*",), doc="Names and regular expressions of the groups to follow.")
GROUPS_EXCLUDE = Setting(
    "groups.exclude",
    LIST,
    default=("console-consumer-.*", "connect-.*", "__.*"),
    doc="Those that are not followed in any case.",
)
CONFIG_EXCLUDE = Setting(
    "config.properties.exclude",
    LIST,
    default=(
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    ),
    doc="Settings of topics that each cluster has for itself.",
)
POLICY_CLASS = Setting(
    "replication.policy.class",
    STRING,
    default="org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    check=one_of(*POLICIES),
    doc="How mirrored topics are called.",
)
POLICY_SEPARATOR = Setting(
    "replication.policy.separator", STRING, default=DEFAULT_SEPARATOR, check=NOT_EMPTY, doc="Between cluster and topic."
)
INTERNAL_SEPARATOR = Setting(
    "replication.policy.internal.topic.separator.enabled",
    BOOLEAN,
    default=True,
    doc="Whether the mirror's own topics have that separator too.",
)
REPLICATION_FACTOR = Setting(
    "replication.factor", INT, default=AS_THERE_ARE, check=at_least(1), doc="Replicas of mirrored topics: 2."
)
OFFSET_SYNCS_FACTOR = Setting(
    "offset-syncs.topic.replication.factor", INT, default=AS_THERE_ARE, check=at_least(1), doc="Of the syncs: 3."
)
CHECKPOINTS_FACTOR = Setting(
    "checkpoints.topic.replication.factor", INT, default=AS_THERE_ARE, check=at_least(1), doc="Of the checkpoints: 3."
)
HEARTBEATS_FACTOR = Setting(
    "heartbeats.topic.replication.factor", INT, default=AS_THERE_ARE, check=at_least(1), doc="Of the heartbeats: 3."
)
OFFSET_SYNCS_LOCATION = Setting(
    "offset-syncs.topic.location", STRING, default=SOURCE, check=one_of(SOURCE, TARGET), doc="Where the syncs are kept."
)
REFRESH_TOPICS = Setting("refresh.topics.enabled", BOOLEAN, default=True, doc="Look for new topics and partitions.")
REFRESH_TOPICS_S = Setting(
    "refresh.topics.interval.seconds", LONG, default=600, check=at_least(1), doc="How often they are looked for."
)
SYNC_CONFIGS = Setting("sync.topic.configs.enabled", BOOLEAN, default=True, doc="Keep topics' settings in step.")
SYNC_CONFIGS_S = Setting(
    "sync.topic.configs.interval.seconds", LONG, default=600, check=at_least(1), doc="How often they are compared."
)
REFRESH_GROUPS = Setting("refresh.groups.enabled", BOOLEAN, default=True, doc="Look for new groups.")
REFRESH_GROUPS_S = Setting(
    "refresh.groups.interval.seconds", LONG, default=600, check=at_least(1), doc="How often they are looked for."
)
EMIT_HEARTBEATS = Setting("emit.heartbeats.enabled", BOOLEAN, default=True, doc="Write heartbeats.")
EMIT_HEARTBEATS_S = Setting("emit.heartbeats.interval.seconds", LONG, default=1, check=at_least(1), doc="How often.")
MIRROR_HEARTBEATS = Setting(
    "heartbeats.replication.enabled", BOOLEAN, default=True, doc="Mirror heartbeats, whatever topics says."
)
EMIT_CHECKPOINTS = Setting("emit.checkpoints.enabled", BOOLEAN, default=True, doc="Write groups' offsets, translated.")
EMIT_CHECKPOINTS_S = Setting("emit.checkpoints.interval.seconds", LONG, default=60, check=at_least(1), doc="How often.")
EMIT_OFFSET_SYNCS = Setting("emit.offset-syncs.enabled", BOOLEAN, default=True, doc="Write which offset became which.")
SYNC_GROUP_OFFSETS = Setting(
    "sync.group.offsets.enabled",
    BOOLEAN,
    default=False,
    doc="Commit what was translated, for groups idle there.",
)
SYNC_GROUP_OFFSETS_S = Setting(
    "sync.group.offsets.interval.seconds", LONG, default=60, check=at_least(1), doc="How often."
)
TASKS_MAX = Setting("tasks.max", INT, default=0, check=at_least(1), doc="Tasks at once; one for two processors.")
BATCH_BYTES = Setting(
    "mirror.batch.bytes",
    LONG,
    default=256 * MIB,
    check=at_least(1),
    doc="About how much a micro-batch passes on, which is when readers see it.",
)
TIMEOUT_MS = Setting(
    "request.timeout.ms",
    INT,
    default=30_000,
    check=at_least(1),
    doc="How long an answer, and a broker that went away, is waited for.",
)

#: Everything that a flow may be told.
TABLE: Mapping[str, Setting[Any]] = table(list(globals().values()))
#: MirrorMaker's own replication where the file does not say.
FACTORS = {REPLICATION_FACTOR: 2, OFFSET_SYNCS_FACTOR: 3, CHECKPOINTS_FACTOR: 3, HEARTBEATS_FACTOR: 3}
