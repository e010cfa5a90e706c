"""Settings of a broker: the table, and a broker's own values for it.

Settings that topics inherit are declared in ``log``, those of listeners and connections in ``network``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from millstream.config import log, network
from millstream.config.setting import (
    BOOLEAN,
    DAY_MS,
    INT,
    KIB,
    LIST,
    LONG,
    MIB,
    MINUTE_MS,
    NOT_EMPTY,
    SECOND_MS,
    STRING,
    Check,
    Fallback,
    Setting,
    SettingError,
    at_least,
    table,
)
from millstream.config.sources import Given, Source, from_environment, from_properties, from_set, merged

T = TypeVar("T")

# Who this broker is and where it keeps things.

BROKER_ID = Setting("broker.id", INT, default=0, check=at_least(0), doc="This broker's number in its cluster.")
NODE_ID = Setting[int | None](
    "node.id",
    INT,
    default=None,
    check=at_least(0),
    fallbacks=(Fallback(BROKER_ID),),
    doc="This broker's number in its cluster; the newer name of broker.id.",
)
BROKER_RACK = Setting[str | None](
    "broker.rack", STRING, default=None, doc="The rack or zone this broker stands in; replicas are spread over them."
)
LOG_DIR = Setting(
    "log.dir",
    STRING,
    default="millstream-data",
    check=NOT_EMPTY,
    doc="The folder that holds the partitions. Asked when log.dirs is not set.",
)
LOG_DIRS = Setting[tuple[str, ...] | None](
    "log.dirs",
    LIST,
    default=None,
    check=Check("one or more folders", lambda folders: bool(folders) and all(folders)),
    doc="The folders that hold the partitions, best on a disk each; log.dir speaks where it is not set.",
)
NUM_RECOVERY_THREADS_PER_DATA_DIR = Setting(
    "num.recovery.threads.per.data.dir",
    INT,
    default=2,
    check=at_least(1),
    dynamic=True,
    doc="How many logs of a folder are recovered at once at start, and flushed at once at stop.",
)
BACKGROUND_THREADS = Setting(
    "background.threads",
    INT,
    default=10,
    check=at_least(1),
    dynamic=True,
    doc="How many threads do the work that may block: flushing, cold reads, deleting files.",
)

# Topics.

AUTO_CREATE_TOPICS_ENABLE = Setting(
    "auto.create.topics.enable",
    BOOLEAN,
    default=True,
    doc="Whether asking for a topic that does not exist makes it.",
)
DELETE_TOPIC_ENABLE = Setting("delete.topic.enable", BOOLEAN, default=True, doc="Whether topics may be deleted at all.")
NUM_PARTITIONS = Setting(
    "num.partitions",
    INT,
    default=1,
    check=at_least(1),
    doc="How many partitions a topic gets when nobody says.",
)
DEFAULT_REPLICATION_FACTOR = Setting(
    "default.replication.factor",
    INT,
    default=1,
    check=at_least(1),
    doc="How many replicas a partition gets when nobody says.",
)
PRODUCER_ID_EXPIRATION_MS = Setting(
    "producer.id.expiration.ms",
    INT,
    default=DAY_MS,
    check=at_least(1),
    dynamic=True,
    doc="How long a partition remembers a producer that no longer writes to it.",
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = Setting(
    "producer.id.expiration.check.interval.ms",
    INT,
    default=10 * MINUTE_MS,
    check=at_least(1),
    doc="How often forgotten producers are looked for.",
)

# Replication and stopping.

REPLICA_LAG_TIME_MAX_MS = Setting(
    "replica.lag.time.max.ms",
    LONG,
    default=30 * SECOND_MS,
    doc="A follower that has not caught up for this long leaves the in-sync replicas.",
)
REPLICA_SOCKET_TIMEOUT_MS = Setting(
    "replica.socket.timeout.ms",
    INT,
    default=30 * SECOND_MS,
    check=at_least(1),
    doc="How long a follower waits for its leader's answer.",
)
REPLICA_SOCKET_RECEIVE_BUFFER_BYTES = Setting(
    "replica.socket.receive.buffer.bytes",
    INT,
    default=64 * KIB,
    check=at_least(-1),
    doc="The receive buffer of a follower's connection; -1 leaves the choice to the operating system.",
)
REPLICA_FETCH_MAX_BYTES = Setting(
    "replica.fetch.max.bytes",
    INT,
    default=1 * MIB,
    check=at_least(0),
    doc="How much a follower asks for of one partition at a time.",
)
REPLICA_FETCH_RESPONSE_MAX_BYTES = Setting(
    "replica.fetch.response.max.bytes",
    INT,
    default=10 * MIB,
    check=at_least(0),
    doc="How much a follower asks for of all partitions together at a time.",
)
REPLICA_FETCH_MIN_BYTES = Setting(
    "replica.fetch.min.bytes",
    INT,
    default=1,
    check=at_least(0),
    doc="A follower's fetch waits until this much is there, up to replica.fetch.wait.max.ms.",
)
REPLICA_FETCH_WAIT_MAX_MS = Setting(
    "replica.fetch.wait.max.ms",
    INT,
    default=500,
    check=at_least(0),
    doc="How long a follower's fetch may wait at the leader; less than replica.lag.time.max.ms.",
)
REPLICA_FETCH_BACKOFF_MS = Setting(
    "replica.fetch.backoff.ms",
    INT,
    default=1 * SECOND_MS,
    check=at_least(0),
    doc="How long a follower rests after a partition's fetch failed.",
)
REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = Setting(
    "replica.high.watermark.checkpoint.interval.ms",
    LONG,
    default=5 * SECOND_MS,
    check=at_least(1),
    doc="How often the file of high watermarks is written.",
)
NUM_REPLICA_FETCHERS = Setting(
    "num.replica.fetchers",
    INT,
    default=1,
    check=at_least(1),
    dynamic=True,
    doc="How many fetches a follower keeps open to each leader.",
)
CONTROLLED_SHUTDOWN_ENABLE = Setting(
    "controlled.shutdown.enable",
    BOOLEAN,
    default=True,
    doc="Whether a broker that stops first hands its leaderships over.",
)
CONTROLLED_SHUTDOWN_MAX_RETRIES = Setting(
    "controlled.shutdown.max.retries",
    INT,
    default=3,
    check=at_least(0),
    doc="How often handing leaderships over is tried again.",
)
CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS = Setting(
    "controlled.shutdown.retry.backoff.ms",
    LONG,
    default=5 * SECOND_MS,
    check=at_least(0),
    doc="How long a broker that stops rests between two such tries.",
)

#: Every setting a broker has, by name.
BROKER_SETTINGS: dict[str, Setting[Any]] = table([*vars(log).values(), *vars(network).values(), *globals().values()])


class BrokerConfig:
    """A broker's values, layer upon layer: its own dynamic changes, the cluster's, what it was started with, defaults.

    Never changes: ``with_changes`` makes the next one.
    """

    __slots__ = ("_values", "dynamic", "dynamic_default", "static", "warnings")

    def __init__(
        self,
        static: Mapping[str, Given] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic: Mapping[str, str] | None = None,
        warnings: tuple[str, ...] = (),
    ) -> None:
        self.static = dict(static or {})
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic = dict(dynamic or {})
        self.warnings = warnings
        self._values: dict[str, Any] = {}
        own = {name: self._own_values(setting) for name, setting in BROKER_SETTINGS.items()}
        for name, setting in BROKER_SETTINGS.items():
            self._values[name] = _first(setting, own)
        self._check_together()

    @classmethod
    def load(
        cls,
        properties_file: str | None = None,
        overrides: Iterable[str] | Mapping[str, str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> "BrokerConfig":
        """What a broker is started with: ``overrides`` (``name=value``) before environment before file.

        A name nobody knows is a warning in the file, which may be Kafka's own, and a SettingError elsewhere.
        """
        warnings: list[str] = []
        layers = [
            from_set(overrides, BROKER_SETTINGS),
            from_environment(environ or {}, BROKER_SETTINGS),
            from_properties(properties_file, BROKER_SETTINGS, warnings) if properties_file else {},
        ]
        return cls(merged(layers), warnings=tuple(warnings))

    def get(self, setting: Setting[T]) -> T:
        """The value in force."""
        value: T = self._values[setting.name]
        return value

    @property
    def broker_id(self) -> int:
        """The broker's number, under whichever of its two names it was given."""
        number: int = self._values[NODE_ID.name]
        return number

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The folders that hold partitions."""
        return self.get(LOG_DIRS) or (self.get(LOG_DIR),)

    def with_changes(
        self, dynamic: Mapping[str, str] | None = None, dynamic_default: Mapping[str, str] | None = None
    ) -> "BrokerConfig":
        """The same broker with other dynamic layers; None leaves a layer as it is."""
        return BrokerConfig(
            self.static,
            self.dynamic_default if dynamic_default is None else dynamic_default,
            self.dynamic if dynamic is None else dynamic,
            self.warnings,
        )

    def given(self, setting: Setting[Any]) -> list[tuple[Source, str]]:
        """What each layer says of this very setting, the strongest first, its default (when it has one) last."""
        found: list[tuple[Source, str]] = []
        name = setting.name
        if name in self.dynamic:
            found.append((Source.DYNAMIC_BROKER, self.dynamic[name]))
        if name in self.dynamic_default:
            found.append((Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default[name]))
        if name in self.static:
            found.append((Source.STATIC_BROKER, self.static[name].text))
        if setting.default is not None:
            found.append((Source.DEFAULT, setting.text(setting.default)))
        return found

    def _own_values(self, setting: Setting[Any]) -> tuple[Any, Any, Any, Any]:
        """Dynamic, cluster-wide dynamic, static and default value; None where a layer is silent."""
        name = setting.name
        static = self.static.get(name)
        return (
            setting.parse(self.dynamic[name], "dynamic") if name in self.dynamic else None,
            setting.parse(self.dynamic_default[name], "dynamic default") if name in self.dynamic_default else None,
            setting.parse(static.text, static.origin) if static else None,
            setting.default,
        )

    def _check_together(self) -> None:
        """Refuse values that are fine alone and wrong together."""
        if BROKER_ID.name in self.static and NODE_ID.name in self.static:
            broker_id = BROKER_ID.parse(self.static[BROKER_ID.name].text)
            if broker_id != self.broker_id:
                raise SettingError(f"node.id={self.broker_id}: must equal broker.id, which is {broker_id}")
        least, most = self.get(log.LOG_CLEANER_MIN_COMPACTION_LAG_MS), self.get(log.LOG_CLEANER_MAX_COMPACTION_LAG_MS)
        if least > most:
            raise SettingError(
                f"{log.LOG_CLEANER_MIN_COMPACTION_LAG_MS.name}={least}: must be at most the maximum, {most}"
            )
        wait, lag = self.get(REPLICA_FETCH_WAIT_MAX_MS), self.get(REPLICA_LAG_TIME_MAX_MS)
        if wait > lag:
            raise SettingError(
                f"{REPLICA_FETCH_WAIT_MAX_MS.name}={wait}: must be at most {REPLICA_LAG_TIME_MAX_MS.name}, {lag}"
            )


def _first(setting: Setting[Any], own: Mapping[str, tuple[Any, Any, Any, Any]]) -> Any:
    """The strongest layer's value, and within a layer the first of the setting and its fallbacks."""
    chain = setting.chain()
    for layer in range(4):
        for fallback in chain:
            value = own[fallback.setting.name][layer]
            if value is not None:
                return fallback.scaled(value)
    return None
