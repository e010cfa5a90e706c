"""Clients of a cluster: they follow leaders and coordinators, and ask again as real clients do."""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from millstream.client.wire import Address, Connection, connect
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from millstream.protocol.messages.produce import ProduceRequest
from millstream.protocol.schema import Request, Response
from tests.simulation.cluster.ledger import Ledger
from tests.simulation.network import SimNetwork

R = TypeVar("R", bound=Response)

REQUEST_TIMEOUT_S = 4.0
PAUSE_S = 0.2
#: Kinds of coordinators, as FindCoordinator numbers them.
GROUP, TRANSACTION = 0, 1
#: Ask again, perhaps somebody else.
LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    }
)


class GaveUp(Exception):
    """This client does not know, or does not like, what became of its request."""


class Way:
    """How one client finds the brokers: connections, leaders and coordinators, as last heard."""

    def __init__(self, network: SimNetwork, addresses: Mapping[int, Address], node: str, rng: random.Random) -> None:
        self.rng = rng
        self._network = network
        self._addresses = addresses
        self._node = node
        self._connections: dict[int, Connection] = {}
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        self._epochs: dict[tuple[str, int], int] = {}
        self._coordinators: dict[tuple[str, int], int] = {}

    async def to(self, broker_id: int) -> Connection:
        """A connection to that broker; OSError when there is none."""
        connection = self._connections.get(broker_id)
        if connection is None or connection.is_closed:
            with self._network.as_node(self._node):
                connection = await connect(self._addresses[broker_id], timeout_s=REQUEST_TIMEOUT_S)
            self._connections[broker_id] = connection
        return connection

    async def anybody(self) -> Connection:
        """A connection to some broker."""
        return await self.to(self.rng.choice(sorted(self._addresses)))

    async def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Who leads the partition, and under which epoch; OSError while nobody is known to."""
        found = self._leaders.get((topic, partition))
        if found is None:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            connection = await self.anybody()
            answer = await self.call(connection, request, MetadataResponse, 12)
            for row in (row for each in answer.topics for row in each.partitions):
                # As every client since KIP-320: a broker that was left behind tells nothing new.
                newest = self._epochs.get((topic, row.partition_index), -1)
                if row.leader_id >= 0 and row.leader_epoch >= newest:
                    self._epochs[topic, row.partition_index] = row.leader_epoch
                    self._leaders[topic, row.partition_index] = row.leader_id, row.leader_epoch
            found = self._leaders.get((topic, partition))
        if found is None:
            raise ConnectionError(f"nobody leads {topic}-{partition}")
        return found

    async def coordinator(self, key: str, kind: int) -> int:
        """Who coordinates; OSError while nobody is known to."""
        found = self._coordinators.get((key, kind))
        if found is None:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            answer = await self.call(await self.anybody(), request, FindCoordinatorResponse, 3)
            if answer.error_code:
                raise ConnectionError(f"no coordinator for {key}: {ErrorCode(answer.error_code).name}")
            found = self._coordinators[key, kind] = answer.node_id
        return found

    def last_coordinator(self, group: str) -> int:
        """Who was asked last about the group."""
        return self._coordinators[group, GROUP]

    async def call(self, connection: Connection, request: Request, response: type[R], version: int) -> R:
        """The answer; OSError when none came, and the connection is of no more use."""
        try:
            return await connection.call(request, response, version=version, timeout_s=REQUEST_TIMEOUT_S)
        except TimeoutError:
            connection.close()
            raise

    def forget(self) -> None:
        """Who led and who coordinated may be another by now."""
        self._leaders.clear()
        self._coordinators.clear()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


class Routed:
    """Asks whoever is right for each request, again and again while nobody is; for the clients of one broker."""

    way: Way
    ledger: Ledger
    rng: random.Random
    #: What it waits for, and why it does not have it yet.
    plight = ""

    async def ask(
        self, request: Request, response: type[R], code: Callable[[R], int], version: int, patience: float = 1.0
    ) -> R:
        """The answer; each time it is not to be had, GaveUp as this client is impatient."""
        while True:
            try:
                connection = await self.way.to(await self._whom(request))
                answer = await self.way.call(connection, request, response, version)
            except OSError as error:  # TimeoutError and ConnectionError are.
                self.plight = f"{type(request).__name__}: {error}"
                self.way.forget()
            else:
                self.plight = f"{type(request).__name__}: {code(answer)}"
                if code(answer) == ErrorCode.UNKNOWN_SERVER_ERROR:
                    raise self.ledger.violate(f"{type(request).__name__} failed within the broker")
                if code(answer) not in LATER:
                    return answer
                self.way.forget()
            if self.rng.random() >= patience:
                raise self._give_up()
            await asyncio.sleep(self.rng.uniform(0.01, PAUSE_S))

    def _give_up(self) -> Exception:
        return GaveUp()

    async def _whom(self, request: Any) -> int:
        if isinstance(request, ProduceRequest):
            topic = request.topic_data[0]
            return (await self.way.leader(topic.name, topic.partition_data[0].index))[0]
        if isinstance(request, FetchRequest):
            fetched = request.topics[0]
            return await self._reader_of(fetched.topic, fetched.partitions[0].partition, fetched.partitions[0])
        if isinstance(request, ListOffsetsRequest):
            listed = request.topics[0]
            return await self._reader_of(listed.name, listed.partitions[0].partition_index, listed.partitions[0])
        if isinstance(request, FindCoordinatorRequest):
            return await self.way.coordinator(request.key, request.key_type)
        key, kind = _coordinated(request)
        return await self.way.coordinator(key, kind)

    async def _reader_of(self, topic: str, partition: int, row: FetchPartition | ListOffsetsPartition) -> int:
        """Who leads; whoever led before or leads since shall refuse, as for every client since KIP-320."""
        leader, row.current_leader_epoch = await self.way.leader(topic, partition)
        return leader


def _coordinated(request: Any) -> tuple[str, int]:
    """Whose coordinator is asked: a group's, or a transactional id's."""
    if hasattr(request, "groups"):
        return request.groups[0].group_id, GROUP
    if hasattr(request, "group_id") and not hasattr(request, "v3_and_below_topics"):
        is_offsets_announcement = type(request).__name__ == "AddOffsetsToTxnRequest"
        return (request.transactional_id, TRANSACTION) if is_offsets_announcement else (request.group_id, GROUP)
    return getattr(request, "v3_and_below_transactional_id", "") or request.transactional_id, TRANSACTION
