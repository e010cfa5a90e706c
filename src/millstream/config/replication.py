"""Broker settings of replication: how followers fetch, and who counts as in sync."""

from millstream.config.setting import INT, LONG, MIB, SECOND_MS, STRING, Check, Setting, at_least

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

REPLICA_LAG_TIME_MAX_MS = Setting(
    "replica.lag.time.max.ms",
    LONG,
    default=30 * SECOND_MS,
    check=at_least(1),
    doc="A follower that has not caught up with its leader for this long is no longer in sync.",
)
REPLICA_FETCH_WAIT_MAX_MS = Setting(
    "replica.fetch.wait.max.ms",
    INT,
    default=500,
    check=at_least(0),
    doc="How long a leader keeps a follower's fetch that finds nothing; well below replica.lag.time.max.ms.",
)
REPLICA_FETCH_MIN_BYTES = Setting(
    "replica.fetch.min.bytes",
    INT,
    default=1,
    check=at_least(0),
    doc="A follower's fetch waits for this many bytes; more than 1 holds up whoever writes with acks=all.",
)
REPLICA_FETCH_MAX_BYTES = Setting(
    "replica.fetch.max.bytes",
    INT,
    default=MIB,
    check=at_least(0),
    doc="How much a follower takes of a partition at a time; a batch that is larger is taken whole.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = Setting(
    "replica.fetch.response.max.bytes",
    INT,
    default=10 * MIB,
    check=at_least(0),
    doc="How much a follower takes of all its leader's partitions at a time.",
)
REPLICA_FETCH_BACKOFF_MS = Setting(
    "replica.fetch.backoff.ms",
    INT,
    default=SECOND_MS,
    check=at_least(0),
    doc="How long a follower waits, at most, after a fetch that failed; it begins with a fraction of it.",
)
REPLICA_SOCKET_TIMEOUT_MS = Setting(
    "replica.socket.timeout.ms",
    INT,
    default=30 * SECOND_MS,
    check=at_least(1),
    doc="How long a follower waits for its leader's answer; more than replica.fetch.wait.max.ms.",
)
REPLICA_SELECTOR_CLASS = Setting[str | None](
    "replica.selector.class",
    STRING,
    default=None,
    check=Check(f"empty, or {RACK_AWARE}", lambda name: name in ("", RACK_AWARE, RACK_AWARE.rpartition(".")[2])),
    doc="Set to RackAwareReplicaSelector, consumers are sent to an in-sync replica in their own rack (client.rack).",
)
