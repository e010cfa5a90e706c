"""Broker settings of what passes between the brokers of a cluster."""

from millstream.config.setting import BOOLEAN, INT, LONG, LONG_MAX, SECOND_MS, STRING, Setting, at_least

INTER_BROKER_LISTENER_NAME = Setting[str | None](
    "inter.broker.listener.name",
    STRING,
    default=None,
    doc="The listener that brokers use among themselves; the first of listeners where it is not set.",
)
CONTROLLER_SOCKET_TIMEOUT_MS = Setting(
    "controller.socket.timeout.ms",
    INT,
    default=30 * SECOND_MS,
    check=at_least(1),
    doc="How long a broker waits for another's answer before it hangs up and asks again.",
)
CONTROLLED_SHUTDOWN_ENABLE = Setting(
    "controlled.shutdown.enable",
    BOOLEAN,
    default=True,
    doc="Whether a broker that stops first has others lead what it leads.",
)
CONTROLLED_SHUTDOWN_MAX_RETRIES = Setting(
    "controlled.shutdown.max.retries",
    INT,
    default=3,
    check=at_least(1),
    doc="How often a broker that stops asks to be relieved before it stops all the same.",
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = Setting(
    "controlled.shutdown.retry.backoff.ms",
    LONG,
    default=5 * SECOND_MS,
    check=at_least(1),
    doc="How long it waits between two such attempts, for others to catch up that can take over.",
)
AUTO_LEADER_REBALANCE_ENABLE = Setting(
    "auto.leader.rebalance.enable",
    BOOLEAN,
    default=True,
    doc="Whether the controller gives leadership back to the first replicas of partitions as time passes.",
)
LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS = Setting(
    "leader.imbalance.check.interval.seconds",
    LONG,
    default=300,
    check=at_least(1),
    doc="How often the controller looks whether brokers lead what they should.",
)
LEADER_IMBALANCE_PER_BROKER_PERCENTAGE = Setting(
    "leader.imbalance.per.broker.percentage",
    INT,
    default=10,
    check=at_least(0),
    doc="Which part of what a broker should lead others may lead before it is given back.",
)
LEADER_REPLICATION_THROTTLED_RATE = Setting(
    "leader.replication.throttled.rate",
    LONG,
    default=LONG_MAX,
    check=at_least(0),
    dynamic=True,
    doc="Bytes a second that this broker sends of partitions that their topics throttle here, to those that catch up.",
)
FOLLOWER_REPLICATION_THROTTLED_RATE = Setting(
    "follower.replication.throttled.rate",
    LONG,
    default=LONG_MAX,
    check=at_least(0),
    dynamic=True,
    doc="Bytes a second that this broker fetches of partitions that their topics throttle here, while it catches up.",
)
