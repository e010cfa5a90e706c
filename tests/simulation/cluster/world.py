"""A whole cluster and its clients, laid out from one seed."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from millstream.broker.broker import Broker
from millstream.client.wire import Address
from millstream.coordination.coordinator import index_of
from millstream.model.errors import ErrorCode
from millstream.model.ids import CONSUMER_OFFSETS
from millstream.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.registry.nodes import PARTITION_STATE, PARTITIONS, TOPIC, TOPIC_NAMES, PartitionState
from tests.simulation.broker import PORT
from tests.simulation.cluster.clients import PAUSE_S, Routed, Way
from tests.simulation.cluster.ledger import Ledger
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.processes import ClusterLoop
from tests.simulation.cluster.producers import Consumer, Producer
from tests.simulation.cluster.registry import Ensemble
from tests.simulation.network import SimNetwork
from tests.simulation.test_crashing_transactions import Watcher
from tests.simulation.transacting import PARTITIONS as TRANSACTED_PARTITIONS
from tests.simulation.transacting import TOPIC as TRANSACTED
from tests.simulation.transacting import GaveUp, Transactor

EVENTS = "events"
#: Segments that are begun often; and, now and then, some that have room for batches that threads write.
LARGE_SEGMENT_BYTES = 1_000_000
SEGMENT_BYTES = (1_500, 20_000, LARGE_SEGMENT_BYTES)


@dataclass
class Plan:
    """What the seed decides before anything runs."""

    rng: random.Random
    brokers: int = 3
    replicas: int = 3
    min_insync: int = 2
    #: Every write reaches the disk before it counts, so that the power may go everywhere at once.
    is_flushed: bool = False
    event_partitions: int = 2
    fault_s: float = 20.0
    session_timeout_s: float = 6.0
    settings: dict[str, str] = field(default_factory=dict)
    #: Whether some of the batches are so large that threads write them.
    has_large: bool = False

    @classmethod
    def draw(cls, rng: random.Random) -> "Plan":
        brokers = rng.choice((3, 3, 3, 4))
        replicas, min_insync = rng.choice(((3, 2), (3, 2), (3, 2), (3, 1), (2, 1), (2, 2), (3, 3)))
        is_flushed = rng.random() < 0.3
        settings = {
            "min.insync.replicas": str(min_insync),
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min_insync),
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "2",
            "auto.create.topics.enable": "false",
            "log.segment.bytes": str(rng.choice(SEGMENT_BYTES)),
            "log.cleaner.enable": "false",
            "replica.lag.time.max.ms": rng.choice(("1500", "4000")),
            "replica.fetch.wait.max.ms": rng.choice(("100", "500")),
            "replica.fetch.backoff.ms": rng.choice(("100", "1000")),
            "replica.socket.timeout.ms": "3000",
            "controller.socket.timeout.ms": "3000",
            "controlled.shutdown.retry.backoff.ms": "1000",
            "log.flush.scheduler.interval.ms": rng.choice(("500", "60000")),
        }
        if is_flushed:
            settings["log.flush.interval.messages"] = "1"
        return cls(
            rng,
            brokers,
            replicas,
            min_insync,
            is_flushed,
            event_partitions=rng.randint(1, 3),
            fault_s=rng.uniform(8, 25),
            session_timeout_s=rng.choice((2.0, 4.0)),
            settings=settings,
            has_large=settings["log.segment.bytes"] == str(LARGE_SEGMENT_BYTES),
        )

    def __str__(self) -> str:
        flushed = ", every write flushed" if self.is_flushed else ""
        return f"{self.brokers} brokers, {self.replicas} replicas, min.insync.replicas {self.min_insync}{flushed}"


class Client(Protocol):
    """Whoever works until it is stopped."""

    is_stopped: bool

    async def run(self) -> None: ...


class ClusterTransactor(Routed, Transactor):
    """A transactional producer that follows leaders and coordinators."""

    def __init__(self, world: "World", name: str) -> None:
        self.way, self.ledger, self._world = world.way(name), world.ledger, world
        Transactor.__init__(self, next(iter(world.machines.values())), world.child_rng(), name)

    async def committed_offset(self, group: str) -> int:
        """As the group's coordinator has it: one that was left behind and does not know tells what was, as Kafka's."""
        while True:
            found = await Transactor.committed_offset(self, group)
            if self.way.last_coordinator(group) == self._world.coordinator(group):
                return found
            self.way.forget()
            await asyncio.sleep(PAUSE_S)

    def _give_up(self) -> Exception:
        return GaveUp()


class ClusterWatcher(Routed, Watcher):
    """A reader of committed records that follows leaders."""

    def __init__(self, world: "World", name: str) -> None:
        self.way, self.ledger = world.way(name), world.ledger
        Watcher.__init__(self, next(iter(world.machines.values())), world.child_rng())


class World:
    """Machines, a registry, a network, clients and the ledger of what they went through."""

    def __init__(self, plan: Plan, loop: ClusterLoop, network: SimNetwork) -> None:
        self.plan = plan
        self.loop = loop
        self.network = network
        self.ledger = Ledger(loop.time)
        self.ensemble = Ensemble(loop, network, self.child_rng(), plan.session_timeout_s)
        self.machines = {
            broker_id: Machine(
                loop,
                self.ensemble,
                network,
                broker_id,
                plan.rng.getrandbits(32),
                plan.settings,
                plan.rng.choice((0, 0, 3)),
            )
            for broker_id in range(1, plan.brokers + 1)
        }
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.transactors: list[ClusterTransactor] = []
        self.watchers: list[ClusterWatcher] = []

    def child_rng(self) -> random.Random:
        """Chance of somebody's own, so that whoever draws more than before changes nobody else's luck."""
        return random.Random(self.plan.rng.getrandbits(64))

    def way(self, node: str) -> Way:
        """How a client on that node finds the brokers."""
        addresses = {machine.id: Address(machine.host, PORT) for machine in self.machines.values()}
        return Way(self.network, addresses, node, self.child_rng())

    @property
    def serving(self) -> list[Broker]:
        """The brokers that serve, by id."""
        found = (machine.serving for machine in self.machines.values())
        return [broker for broker in found if broker is not None]

    @property
    def controller(self) -> Broker | None:
        """Who is controller, as far as it knows itself."""
        active = [broker for broker in self.serving if broker.controller.is_active]
        return max(active, key=lambda broker: broker.controller.epoch, default=None)

    # What the registry says.

    def coordinator(self, group: str) -> int:
        """The broker that coordinates the group, -1 for none."""
        leaders = {index: state.leader for name, index, _, state, _ in self.states() if name == CONSUMER_OFFSETS}
        return leaders[index_of(group, len(leaders))]

    def newest_epoch(self, topic: str, partition: int) -> int:
        """The epoch under which the partition is led, or was last."""
        return next(
            state.leader_epoch for name, index, _, state, _ in self.states() if (name, index) == (topic, partition)
        )

    def states(self) -> Iterator[tuple[str, int, tuple[int, ...], PartitionState, int]]:
        """Every partition: topic, index, replicas, state and the state's version."""
        store = self.ensemble.tree._store
        if store.stat(TOPIC_NAMES.path()) is None:
            return
        for topic in store.children(TOPIC_NAMES.path()):
            assignment = TOPIC.decode(store.get(TOPIC.path(topic)).data)
            if store.stat(PARTITIONS.path(topic)) is None:
                continue
            for index, replicas in sorted(assignment.partitions.items()):
                path = PARTITION_STATE.path(topic, index)
                if store.stat(path) is not None:
                    node = store.get(path)
                    yield topic, index, tuple(replicas), PARTITION_STATE.decode(node.data), node.version

    def is_whole(self) -> bool:
        """Whether every partition has a leader and all of its replicas in sync, and none is being moved."""
        return not self.moving() and all(
            state.leader >= 0 and set(state.isr) == set(replicas) for _, _, replicas, state, _ in self.states()
        )

    def moving(self) -> list[str]:
        """The topics with partitions that are on their way to other brokers."""
        store = self.ensemble.tree._store
        if store.stat(TOPIC_NAMES.path()) is None:
            return []
        topics = {
            topic: TOPIC.decode(store.get(TOPIC.path(topic)).data) for topic in store.children(TOPIC_NAMES.path())
        }
        return [name for name, topic in topics.items() if any(topic.adding.values()) or any(topic.removing.values())]

    # Beginning.

    async def begin(self) -> None:
        """Start every broker, make the topics, and let the clients run."""
        async with asyncio.TaskGroup() as group:
            for machine in self.machines.values():
                group.create_task(machine.boot())
        await self._create(TRANSACTED, TRANSACTED_PARTITIONS)
        await self._create(EVENTS, self.plan.event_partitions)
        finder = ClusterWatcher(self, "finder")
        await finder.find_coordinators()
        self._make_clients()

    async def _create(self, topic: str, partitions: int) -> None:
        way = self.way("admin")
        row = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=self.plan.replicas,
            configs=[CreatableTopicConfig(name="min.insync.replicas", value=str(self.plan.min_insync))],
        )
        answer = await way.call(
            await way.anybody(), CreateTopicsRequest(topics=[row], timeout_ms=30_000), CreateTopicsResponse, 7
        )
        code = ErrorCode(answer.topics[0].error_code)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise self.ledger.violate(f"{topic} was not created: {code.name} {answer.topics[0].error_message}")

    def _make_clients(self) -> None:
        rng = self.plan.rng
        events = [(EVENTS, index) for index in range(self.plan.event_partitions)]
        for number, place in enumerate(events):
            for kind in ("safe", "safe", "bold")[: rng.randint(1, 3)]:
                name = f"{kind}{len(self.producers)}"
                self.producers.append(
                    Producer(
                        self.way(name),
                        self.ledger,
                        self.child_rng(),
                        name,
                        place,
                        self.newest_epoch,
                        is_safe=kind == "safe",
                        has_large=self.plan.has_large,
                    )
                )
            reader = self.way(f"reader{number}")
            self.consumers.append(Consumer(reader, self.ledger, self.child_rng(), place))
        for index in range(TRANSACTED_PARTITIONS):
            reader = self.way(f"raw{index}")
            self.consumers.append(Consumer(reader, self.ledger, self.child_rng(), (TRANSACTED, index)))
        self.transactors = [ClusterTransactor(self, f"t{number}") for number in range(rng.randint(1, 2))]
        self.watchers = [ClusterWatcher(self, "watcher")]

    @property
    def clients(self) -> "list[Client]":
        """Everybody; but nobody reads along where the power may go everywhere at once, for readers are shown what is
        not on disk yet, as Kafka's are.
        """
        readers: list[Client] = [] if self.plan.is_flushed else [*self.consumers, *self.watchers]
        return [*self.producers, *self.transactors, *readers]

    def client_runs(self) -> list[asyncio.Task[None]]:
        """Everybody at work."""
        return [self.loop.create_task(client.run()) for client in self.clients]

    def stop_clients(self) -> None:
        """Everybody ends what it has begun, and begins no more."""
        for client in self.clients:
            client.is_stopped = True
