"""What the controller knows: the topics as the registry holds them, the live brokers, and where each replica stands.

Hard state, which is what the registry holds, changes only by ``replay`` of a change that was written there.  Phases
and brokers are soft: they are found again after a failover.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream.controller import partition_states, replica_states
from millstream.controller.partition_states import Phase
from millstream.controller.replica_states import ReplicaPhase
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.registry.nodes import Assignment, BrokerRegistration, PartitionState, TopicAssignment


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker; its epoch is the transaction that registered it."""

    broker_id: int
    epoch: int
    registration: BrokerRegistration


@dataclass(slots=True)
class Partition:
    """One partition; ``version`` is its state node's, -1 while there is none."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    state: PartitionState | None = None
    version: int = -1
    phase: Phase = Phase.NON_EXISTENT
    replica_phases: dict[int, ReplicaPhase] = field(default_factory=dict)

    def enter(self, phase: Phase) -> None:
        self.phase = partition_states.entered(self.phase, phase)

    def move(self, replica: int, phase: ReplicaPhase) -> None:
        before = self.replica_phases.get(replica, ReplicaPhase.NON_EXISTENT)
        self.replica_phases[replica] = replica_states.entered(before, phase)

    @property
    def assignment(self) -> Assignment:
        return Assignment(self.replicas, self.adding, self.removing)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def leader(self) -> int | None:
        return None if self.state is None else self.state.leader


@dataclass(slots=True)
class Topic:
    """One topic; ``version`` is its node's."""

    name: str
    topic_id: Uuid
    version: int = 0
    is_doomed: bool = False  #: marked for deletion
    partitions: dict[int, Partition] = field(default_factory=dict)

    def assignment(self) -> TopicAssignment:
        """As its node says it."""
        partitions = self.partitions.items()
        return TopicAssignment(
            topic_id=self.topic_id,
            partitions={number: partition.replicas for number, partition in partitions},
            adding={number: partition.adding for number, partition in partitions if partition.adding},
            removing={number: partition.removing for number, partition in partitions if partition.removing},
        )


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic and its settings came; leaders are decided apart."""

    name: str
    topic_id: Uuid
    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicIdGiven:
    """A topic from before there were ids, or from another broker's folders, has got one."""

    name: str
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A topic was widened by these partitions."""

    name: str
    replicas: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class AssignmentsChanged:
    """Partitions of a topic get, or have got, other replicas."""

    name: str
    assignments: Mapping[int, Assignment]


@dataclass(frozen=True, slots=True)
class StateDecided:
    """A partition has another leader, epoch or in-sync set."""

    partition: TopicPartition
    state: PartitionState


@dataclass(frozen=True, slots=True)
class TopicDoomed:
    """A topic was marked for deletion."""

    name: str


@dataclass(frozen=True, slots=True)
class PartitionErased:
    """A doomed topic's partition has no replica left."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class TopicErased:
    """A doomed topic is gone, after its partitions."""

    name: str


@dataclass(frozen=True, slots=True)
class BrokersSettled:
    """Every partition's state takes into account that these brokers came, by their epochs."""

    epochs: Mapping[int, int]


Change = (
    TopicCreated
    | TopicIdGiven
    | PartitionsAdded
    | AssignmentsChanged
    | StateDecided
    | TopicDoomed
    | PartitionErased
    | TopicErased
    | BrokersSettled
)


def shape(name: str) -> str:
    """The same for names that metrics, which turn '.' into '_', could not tell apart."""
    return name.replace(".", "_")


class Context:
    """The cluster in the controller's mind."""

    def __init__(self, controller_id: int, epoch: int, epoch_version: int) -> None:
        self.controller_id = controller_id
        self.epoch = epoch
        self.epoch_version = epoch_version
        self.brokers: dict[int, LiveBroker] = {}
        #: The epochs of brokers whose coming was seen to in every partition.
        self.settled: Mapping[int, int] = {}
        self.leaving: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.doomed: set[str] = set()
        self.names_by_id: dict[Uuid, str] = {}
        self.names_by_shape: dict[str, str] = {}
        #: Of the topics about to be created or erased, those that have a node of settings.
        self.configured: set[str] = set()
        #: Replicas whose log directory failed, until their broker registers anew.
        self.failed: dict[int, set[TopicPartition]] = {}

    def partition(self, key: TopicPartition) -> Partition | None:
        topic = self.topics.get(key.topic)
        return None if topic is None else topic.partitions.get(key.partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Every partition, those of doomed topics included."""
        for name, topic in self.topics.items():
            for number, partition in topic.partitions.items():
                yield TopicPartition(name, number), partition

    def lasting_partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Every partition whose topic is not marked for deletion."""
        return ((key, partition) for key, partition in self.partitions() if key.topic not in self.doomed)

    def live_replicas(self, key: TopicPartition, partition: Partition) -> tuple[int, ...]:
        """The replicas that can serve, in order of preference."""
        return self.live_among(key, partition.replicas)

    def live_among(self, key: TopicPartition, replicas: Iterable[int]) -> tuple[int, ...]:
        """Those of ``replicas`` that can serve."""
        return tuple(
            replica for replica in replicas if replica in self.brokers and key not in self.failed.get(replica, ())
        )

    def absence(self, brokers: Iterable[int]) -> str | None:
        """Which of these are not alive, and who is; None when all are."""
        missing = ", ".join(str(broker) for broker in brokers if broker not in self.brokers)
        return (
            f"there is no broker {missing} now, only {', '.join(map(str, sorted(self.brokers)))}" if missing else None
        )

    def has_replica(self, key: TopicPartition, broker_id: int) -> bool:
        partition = self.partition(key)
        return partition is not None and broker_id in partition.replicas

    def add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        if topic.topic_id != ZERO_UUID:
            self.names_by_id[topic.topic_id] = topic.name
        self.names_by_shape[shape(topic.name)] = topic.name
        if topic.is_doomed:
            self.doomed.add(topic.name)

    def replay(self, change: Change) -> None:
        """Take in a change that the registry has taken in."""
        _REPLAY[type(change)](self, change)

    def _topic_created(self, change: TopicCreated) -> None:
        self.add_topic(Topic(change.name, change.topic_id))
        self._add_partitions(change.name, change.replicas)

    def _topic_id_given(self, change: TopicIdGiven) -> None:
        topic = self.topics[change.name]
        topic.topic_id = change.topic_id
        topic.version += 1
        self.names_by_id[change.topic_id] = change.name

    def _partitions_added(self, change: PartitionsAdded) -> None:
        self.topics[change.name].version += 1
        self._add_partitions(change.name, change.replicas)

    def _add_partitions(self, name: str, replicas_of: Mapping[int, tuple[int, ...]]) -> None:
        for number, replicas in replicas_of.items():
            partition = Partition(replicas)
            partition.enter(Phase.NEW)
            for replica in replicas:
                partition.move(replica, ReplicaPhase.NEW)
            self.topics[name].partitions[number] = partition

    def _assignments_changed(self, change: AssignmentsChanged) -> None:
        topic = self.topics[change.name]
        topic.version += 1
        for number, after in change.assignments.items():
            partition = topic.partitions[number]
            key = TopicPartition(change.name, number)
            for replica in set(partition.replicas) - set(after.replicas):
                del partition.replica_phases[replica]
                self.failed.get(replica, set()).discard(key)
            added = [replica for replica in after.replicas if replica not in partition.replicas]
            partition.replicas, partition.adding, partition.removing = after
            live = self.live_replicas(key, partition)
            for replica in added:
                partition.move(replica, ReplicaPhase.NEW)
                if partition.state is not None:
                    partition.move(replica, ReplicaPhase.ONLINE if replica in live else ReplicaPhase.OFFLINE)

    def _state_decided(self, change: StateDecided) -> None:
        partition = self.topics[change.partition.topic].partitions[change.partition.partition]
        partition.state = change.state
        partition.version += 1
        partition.enter(Phase.ONLINE if change.state.leader >= 0 else Phase.OFFLINE)
        live = self.live_replicas(change.partition, partition)
        for replica in partition.replicas:
            partition.move(replica, ReplicaPhase.ONLINE if replica in live else ReplicaPhase.OFFLINE)

    def _topic_doomed(self, change: TopicDoomed) -> None:
        self.topics[change.name].is_doomed = True
        self.doomed.add(change.name)

    def _partition_erased(self, change: PartitionErased) -> None:
        key = change.partition
        self.topics[key.topic].partitions.pop(key.partition).enter(Phase.NON_EXISTENT)

    def _topic_erased(self, change: TopicErased) -> None:
        topic = self.topics.pop(change.name)
        self.doomed.discard(change.name)
        self.names_by_id.pop(topic.topic_id, None)
        self.names_by_shape.pop(shape(topic.name), None)
        for broker_id, failed in self.failed.items():  # A namesake of the topic starts afresh.
            self.failed[broker_id] = {key for key in failed if key.topic != change.name}

    def _brokers_settled(self, change: BrokersSettled) -> None:
        self.settled = change.epochs


_REPLAY: dict[type, Callable[[Context, Any], None]] = {
    TopicCreated: Context._topic_created,
    TopicIdGiven: Context._topic_id_given,
    PartitionsAdded: Context._partitions_added,
    AssignmentsChanged: Context._assignments_changed,
    StateDecided: Context._state_decided,
    TopicDoomed: Context._topic_doomed,
    PartitionErased: Context._partition_erased,
    TopicErased: Context._topic_erased,
    BrokersSettled: Context._brokers_settled,
}
