"""Settings of a broker: the table, and a broker's own values for it.

Settings that topics inherit are declared in ``log``, those of listeners and connections in ``network``, those of
consumer groups in ``groups``, those of transactions in ``transactions``, those of ZooKeeper in ``zookeeper``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from millstream.config import cluster, groups, log, network, replication, transactions, zookeeper
from millstream.config.listeners import PLAINTEXT, parse_limits, parse_listener, parse_protocol_map
from millstream.config.setting import (
    BOOLEAN,
    DAY_MS,
    INT,
    LIST,
    LONG,
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
BACKGROUND_THREADS = Setting(
    "background.threads",
    INT,
    default=10,
    check=at_least(1),
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
    doc="How long a partition remembers a producer that no longer writes to it.",
)

# Replication.

REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS = Setting(
    "replica.high.watermark.checkpoint.interval.ms",
    LONG,
    default=5 * SECOND_MS,
    check=at_least(1),
    doc="How often the file of high watermarks is written.",
)

#: Every setting a broker has, by name.
BROKER_SETTINGS: dict[str, Setting[Any]] = table(
    setting
    for declared in (*map(vars, (cluster, groups, log, network, replication, transactions, zookeeper)), globals())
    for setting in declared.values()
)


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

    def connections_max_from(self, address: str) -> int:
        """How many connections one address may hold."""
        own = parse_limits(self.get(network.MAX_CONNECTIONS_PER_IP_OVERRIDES))
        return own.get(address, self.get(network.MAX_CONNECTIONS_PER_IP))

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

    def is_given(self, setting: Setting[Any]) -> bool:
        """Whether anyone has said anything of this very setting, so that it is not its default that speaks."""
        return any(setting.name in layer for layer in (self.dynamic, self.dynamic_default, self.static))

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
        session, heartbeat = groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS, groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS
        for lesser, greater in (
            (log.LOG_CLEANER_MIN_COMPACTION_LAG_MS, log.LOG_CLEANER_MAX_COMPACTION_LAG_MS),
            (groups.GROUP_MIN_SESSION_TIMEOUT_MS, groups.GROUP_MAX_SESSION_TIMEOUT_MS),
            (groups.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS, session),
            (session, groups.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS),
            (groups.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS, heartbeat),
            (heartbeat, groups.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS),
            (heartbeat, session),
        ):
            if (least := self.get(lesser)) > (most := self.get(greater)):
                raise SettingError(f"{lesser.name}={least}: must be at most {greater.name}, which is {most}")
        held, largest = self.get(network.QUEUED_MAX_REQUEST_BYTES), self.get(network.SOCKET_REQUEST_MAX_BYTES)
        if held != network.UNLIMITED and held < largest:
            raise SettingError(
                f"{network.QUEUED_MAX_REQUEST_BYTES.name}={held}: must be -1 or at least "
                f"{network.SOCKET_REQUEST_MAX_BYTES.name}, {largest}"
            )
        own, used = self.get(network.LISTENERS), self.get(cluster.INTER_BROKER_LISTENER_NAME)
        if used is not None and used.upper() not in (parse_listener(text).name for text in own):
            raise SettingError(f"{cluster.INTER_BROKER_LISTENER_NAME.name}={used}: is not a name in listeners")
        protocols = parse_protocol_map(self.get(network.LISTENER_SECURITY_PROTOCOL_MAP))
        for text in self.get(network.LISTENERS):
            protocol = protocols.get(parse_listener(text).name)
            if protocol != PLAINTEXT:
                spoken = "has no protocol in listener.security.protocol.map" if protocol is None else f"is {protocol}"
                raise SettingError(f"{network.LISTENERS.name}={text}: {spoken}; only {PLAINTEXT} is served yet")


def _first(setting: Setting[Any], own: Mapping[str, tuple[Any, Any, Any, Any]]) -> Any:
    """The strongest layer's value, and within a layer the first of the setting and its fallbacks."""
    chain = setting.chain()
    for layer in range(4):
        for fallback in chain:
            value = own[fallback.setting.name][layer]
            if value is not None:
                return fallback.scaled(value)
    return None
