"""The nodes of the registry: where each lies and how it is written, byte for byte as Kafka lays them out.

Each kind of node is a ``NodeType``: a path with blanks, and how its value becomes bytes and comes back.  Keys in
the JSON stand in the order Kafka prints them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from millstream.model.ids import ZERO_UUID, Uuid, uuid_from_text, uuid_text
from millstream.registry.tree import RegistryFailure

T = TypeVar("T")

#: The name under /config/brokers whose overrides hold for every broker.
DEFAULT_ENTITY = "<default>"
TOPICS = "topics"
BROKERS = "brokers"


class UnknownVersion(ValueError):
    """A node that is laid out as only later brokers know."""


@dataclass(frozen=True, slots=True)
class NodeType(Generic[T]):
    """One kind of node; ``pattern`` has a blank for each argument of ``path``."""

    pattern: str
    encode: Callable[[T], bytes]
    read: Callable[[bytes], T]

    def path(self, *names: object) -> str:
        return self.pattern.format(*names)

    def decode(self, data: bytes, *names: object) -> T:
        """The node's value; RegistryFailure naming the node when its bytes are none."""
        try:
            return self.read(data)
        except UnknownVersion as error:
            raise RegistryFailure(
                self.path(*names), f"{error}; upgrade this broker, or name another registry"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RegistryFailure(self.path(*names), f"the node holds {data[:80]!r}, which cannot be read") from error


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _object(data: bytes, version_max: int) -> dict[str, Any]:
    """The node's JSON; UnknownVersion when it is of a later version than ``version_max``."""
    value: dict[str, Any] = json.loads(data)
    if (version := int(value.get("version", version_max))) > version_max:
        raise UnknownVersion(f"the node is of version {version}, and only those up to {version_max} are known")
    return value


def _empty(value: None) -> bytes:
    return b""


def _ignored(data: bytes) -> None:
    return None


class Endpoint(NamedTuple):
    """Where a listener is reached."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A live broker, as it describes itself."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    jmx_port: int = -1
    #: Whether its logs are all that they ever were: it stopped cleanly before, or never stopped since its last time.
    is_clean: bool = False
    #: Its min.insync.replicas, for topics that have none of their own.
    min_in_sync: int = 1
    #: Further keys that later versions wrote; kept when read.
    features: Mapping[str, Any] = field(default_factory=dict)

    def endpoint(self, listener: str | None) -> Endpoint:
        """The endpoint of that listener, else the first."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), self.endpoints[0])


def _encode_broker(broker: BrokerRegistration) -> bytes:
    # The two oldest fields name one plain endpoint, for readers that know no listeners.
    plain = next((endpoint for endpoint in broker.endpoints if endpoint.security_protocol == "PLAINTEXT"), None)
    value: dict[str, Any] = {
        "features": dict(broker.features),
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints
        },
        "endpoints": [f"{endpoint.listener}://{endpoint.host}:{endpoint.port}" for endpoint in broker.endpoints],
        "jmx_port": broker.jmx_port,
        "port": plain.port if plain else -1,
        "host": plain.host if plain else None,
        "version": 5,
        "timestamp": str(broker.timestamp_ms),
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    if broker.is_clean:
        value["clean"] = True
    if broker.min_in_sync != 1:
        value["min_insync_replicas"] = broker.min_in_sync
    return _json(value)


def _read_broker(data: bytes) -> BrokerRegistration:
    value = _object(data, 5)
    protocols = value.get("listener_security_protocol_map", {})
    endpoints = []
    for text in value["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener, host, int(port), protocols.get(listener, listener)))
    if not endpoints:
        raise ValueError("a broker without endpoints")
    return BrokerRegistration(
        endpoints=tuple(endpoints),
        rack=value.get("rack"),
        timestamp_ms=int(value.get("timestamp", 0)),
        jmx_port=value.get("jmx_port", -1),
        is_clean=value.get("clean", False) is True,
        min_in_sync=int(value.get("min_insync_replicas", 1)),
        features=value.get("features", {}),
    )


class Assignment(NamedTuple):
    """One partition's replicas, and which of them are coming and going while it is moved."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """Where it was before the move."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """Where it will be after the move."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    def towards(self, target: tuple[int, ...]) -> "Assignment":
        """The same while it moves to ``target``, from wherever it was before any move."""
        replicas = (*target, *(replica for replica in self.origin if replica not in target))
        return Assignment(
            replicas,
            adding=tuple(replica for replica in replicas if replica not in self.origin),
            removing=tuple(replica for replica in replicas if replica not in target),
        )


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """A topic: its id, and the replicas of each partition, those coming and going included."""

    topic_id: Uuid
    partitions: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def _encode_topic(topic: TopicAssignment) -> bytes:
    return _json(
        {
            "removing_replicas": topic.removing,
            "partitions": topic.partitions,
            "topic_id": uuid_text(topic.topic_id),
            "adding_replicas": topic.adding,
            "version": 3,
        }
    )


def _replicas(value: Mapping[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(partition): tuple(replicas) for partition, replicas in value.items()}


def _read_topic(data: bytes) -> TopicAssignment:
    value = _object(data, 3)
    text = value.get("topic_id")
    return TopicAssignment(
        topic_id=uuid_from_text(text) if text else ZERO_UUID,
        partitions=dict(sorted(_replicas(value["partitions"]).items())),
        adding=_replicas(value.get("adding_replicas", {})),
        removing=_replicas(value.get("removing_replicas", {})),
    )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Who leads a partition, since which epoch, and who is in sync; written by the controller alone."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    is_recovering: bool = False  #: its leader may lack records that were committed
    #: Replicas that left the in-sync set when too few were left to commit anything: they have all that was committed.
    eligible: tuple[int, ...] = ()
    last_known: int = -1  #: who led last, while nobody does


def _encode_state(state: PartitionState) -> bytes:
    # Written for thousands of partitions at once, hence by hand; _json gives the same bytes.
    recovering = ',"leader_recovery_state":1' if state.is_recovering else ""
    # Keys that Kafka does not know are left out while they say nothing.
    eligible = f',"eligible_leader_replicas":[{",".join(map(str, state.eligible))}]' if state.eligible else ""
    last_known = f',"last_known_leader":{state.last_known}' if state.last_known >= 0 else ""
    isr = ",".join(map(str, state.isr))
    return (
        f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,'
        f'"leader_epoch":{state.leader_epoch},"isr":[{isr}]{recovering}{eligible}{last_known}}}'
    ).encode()


def _read_state(data: bytes) -> PartitionState:
    value = _object(data, 1)
    return PartitionState(
        leader=value["leader"],
        leader_epoch=value["leader_epoch"],
        isr=tuple(value["isr"]),
        controller_epoch=value["controller_epoch"],
        is_recovering=value.get("leader_recovery_state", 0) == 1,
        eligible=tuple(value.get("eligible_leader_replicas", ())),
        last_known=value.get("last_known_leader", -1),
    )


def _encode_settled(epochs: Mapping[int, int]) -> bytes:
    return _json({"version": 1, "epochs": epochs})


def _read_settled(data: bytes) -> Mapping[int, int]:
    return {int(broker): epoch for broker, epoch in json.loads(data)["epochs"].items()} if data else {}


def _encode_life(life: int) -> bytes:
    return _json({"version": 1, "life": life})


def _read_life(data: bytes) -> int:
    return int(_object(data, 1)["life"])


class ControllerClaim(NamedTuple):
    """The broker that is controller, and since when."""

    broker_id: int
    timestamp_ms: int


def _encode_controller(claim: ControllerClaim) -> bytes:
    return _json(
        {
            "version": 2,
            "brokerid": claim.broker_id,
            "timestamp": str(claim.timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


def _read_controller(data: bytes) -> ControllerClaim:
    value = _object(data, 2)
    return ControllerClaim(int(value["brokerid"]), int(value.get("timestamp", 0)))


class ProducerIdBlock(NamedTuple):
    """Producer ids that one broker may hand out; both ends are inside."""

    broker_id: int
    first: int
    last: int


def _encode_block(block: ProducerIdBlock) -> bytes:
    return _json(
        {"version": 1, "broker": block.broker_id, "block_start": str(block.first), "block_end": str(block.last)}
    )


def _read_block(data: bytes) -> ProducerIdBlock:
    value = _object(data, 1)
    return ProducerIdBlock(value["broker"], int(value["block_start"]), int(value["block_end"]))


def _encode_overrides(overrides: Mapping[str, str]) -> bytes:
    return _json({"version": 1, "config": dict(overrides)})


def _read_overrides(data: bytes) -> Mapping[str, str]:
    value: dict[str, str] = _object(data, 1)["config"]
    return {str(name): str(text) for name, text in value.items()}


def _encode_change(entity_path: str) -> bytes:
    return _json({"version": 2, "entity_path": entity_path})


def _read_change(data: bytes) -> str:
    return str(_object(data, 2)["entity_path"])


def _encode_cluster_id(cluster_id: str) -> bytes:
    return _json({"version": "1", "id": cluster_id})


def _read_cluster_id(data: bytes) -> str:
    return str(_object(data, 1)["id"])


def _encode_number(number: int) -> bytes:
    return str(number).encode()


def _encode_log_dir_event(broker_id: int) -> bytes:
    return _json({"version": 1, "broker": broker_id, "event": 1})


def _read_log_dir_event(data: bytes) -> int:
    return int(json.loads(data)["broker"])


CLUSTER_ID = NodeType("/cluster/id", _encode_cluster_id, _read_cluster_id)
BROKER_IDS = NodeType("/brokers/ids", _empty, _ignored)
BROKER = NodeType("/brokers/ids/{}", _encode_broker, _read_broker)
#: The registrations whose consequences for every partition are written; one that is not listed came since.
SETTLED = NodeType("/brokers/settled", _encode_settled, _read_settled)
#: How often a broker began to write to its log directories.
LIFE = NodeType("/brokers/lives/{}", _encode_life, _read_life)
TOPIC_NAMES = NodeType("/brokers/topics", _empty, _ignored)
TOPIC = NodeType("/brokers/topics/{}", _encode_topic, _read_topic)
PARTITIONS = NodeType("/brokers/topics/{}/partitions", _empty, _ignored)
PARTITION = NodeType("/brokers/topics/{}/partitions/{}", _empty, _ignored)
PARTITION_STATE = NodeType("/brokers/topics/{}/partitions/{}/state", _encode_state, _read_state)
CONTROLLER = NodeType("/controller", _encode_controller, _read_controller)
CONTROLLER_EPOCH = NodeType("/controller_epoch", _encode_number, int)
DELETED_TOPICS = NodeType("/admin/delete_topics", _empty, _ignored)
DELETED_TOPIC = NodeType("/admin/delete_topics/{}", _empty, _ignored)
OVERRIDE_NAMES = NodeType("/config/{}", _empty, _ignored)
OVERRIDES = NodeType("/config/{}/{}", _encode_overrides, _read_overrides)
CONFIG_CHANGES = NodeType("/config/changes", _empty, _ignored)
CONFIG_CHANGE = NodeType("/config/changes/config_change_{}", _encode_change, _read_change)
LOG_DIR_EVENTS = NodeType("/log_dir_event_notification", _empty, _ignored)
LOG_DIR_EVENT = NodeType("/log_dir_event_notification/log_dir_event_{}", _encode_log_dir_event, _read_log_dir_event)
PRODUCER_IDS = NodeType("/latest_producer_id_block", _encode_block, _read_block)

#: Nodes that are always there, parents first.
LASTING_PATHS = (
    "/cluster",
    "/brokers",
    BROKER_IDS.path(),
    SETTLED.path(),
    "/brokers/lives",
    TOPIC_NAMES.path(),
    "/brokers/seqid",
    "/config",
    CONFIG_CHANGES.path(),
    *(OVERRIDE_NAMES.path(kind) for kind in (TOPICS, BROKERS, "clients", "users", "ips")),
    "/admin",
    DELETED_TOPICS.path(),
    "/consumers",
    "/isr_change_notification",
    LOG_DIR_EVENTS.path(),
    PRODUCER_IDS.path(),
)
