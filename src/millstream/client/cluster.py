"""A cluster as a client sees it: found through any broker, asked for its topics, reached leader by leader."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from millstream.client.wire import CLIENT_ID, Address, Connection, ConnectionLost, Unreachable, connect
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from millstream.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")

NO_NODE = -1
#: What a broker answers when our picture of the cluster is older, or newer, than its own: look again, ask again.
STALE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
RETRY_PAUSE_S = 0.1
#: How long a topic that was asked for may take to appear, where brokers make topics on demand.
APPEARANCE_S = 3.0


class StaleMetadata(ProtocolError):
    """A broker does not have, or no longer leads, what the cluster's metadata said it does."""


def error_of(code: int) -> ErrorCode:
    """A code off the wire; one that is newer than this client is an unknown server error."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def check(code: int, detail: str | None = None) -> None:
    """ProtocolError unless ``code`` says that all is well."""
    if code:
        raise ProtocolError(error_of(code), detail or "")


def check_partition(code: int, detail: str) -> None:
    """The same for a partition's row in its leader's answer, where some refusals only mean that we asked too early."""
    if code:
        error = error_of(code)
        raise StaleMetadata(error, detail) if error in STALE else ProtocolError(error, detail)


@dataclass(slots=True)
class Partition:
    """Who holds a partition; ``leader`` is -1 while there is none."""

    index: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


@dataclass(slots=True)
class Topic:
    """A topic and its partitions, in order."""

    name: str
    id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: list[Partition] = field(default_factory=list)


class Cluster:
    """Connections to a cluster's brokers, made when first needed and kept; an async context manager."""

    def __init__(self, bootstrap: Sequence[Address], *, client_id: str = CLIENT_ID, timeout_s: float = 30.0) -> None:
        self.timeout_s = timeout_s
        self.cluster_id: str | None = None
        self.controller_id = NO_NODE
        self.brokers: dict[int, Address] = {}
        self.racks: dict[int, str | None] = {}
        self.topics: dict[str, Topic] = {}
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._connections: dict[Address, Connection] = {}
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.any_broker()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Reaching brokers.

    async def any_broker(self) -> Connection:
        """A connection to some broker: one that is open, else the first that can be reached."""
        for connection in self._connections.values():
            if not connection.is_closed:
                return connection
        fault: ConnectionError = Unreachable("no broker is known")
        for address in dict.fromkeys([*self._bootstrap, *self.brokers.values()]):
            try:
                return await self.broker_at(address)
            except ConnectionError as error:
                fault = error
        raise fault

    async def broker_at(self, address: Address) -> Connection:
        """The connection to one broker."""
        async with self._connecting:
            connection = self._connections.get(address)
            if connection is None or connection.is_closed:
                connection = await self.new_connection(address)
                self._connections[address] = connection
            return connection

    async def new_connection(self, address: Address) -> Connection:
        """A further connection, for the caller alone and to be closed by it."""
        return await connect(address, client_id=self._client_id, timeout_s=self.timeout_s)

    async def broker(self, node_id: int) -> Connection:
        """The connection to the broker with this id; LEADER_NOT_AVAILABLE when it is not in the cluster."""
        if node_id not in self.brokers:
            raise StaleMetadata(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster now")
        return await self.broker_at(self.brokers[node_id])

    async def ask(self, request: Request, response: type[R]) -> R:
        """Any broker's answer."""
        return await (await self.any_broker()).call(request, response, timeout_s=self.timeout_s)

    async def ask_controller(self, request: Request, response: type[R], codes: Callable[[R], Iterable[int]]) -> R:
        """The controller's answer; any broker's where the cluster does not tell its controller.

        ``codes`` gives an answer's error codes: while one says that the controller has moved, or it cannot be reached
        at all, the new one is asked.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.timeout_s
        while True:
            if self.controller_id == NO_NODE:
                await self.refresh([])
            known = self.controller_id in self.brokers
            try:
                connection = await (self.broker(self.controller_id) if known else self.any_broker())
            except Unreachable:
                if loop.time() >= deadline_s:
                    raise
            else:
                answer = await connection.call(request, response, timeout_s=self.timeout_s)
                if ErrorCode.NOT_CONTROLLER not in codes(answer) or loop.time() >= deadline_s:
                    return answer
            self.controller_id = NO_NODE
            await asyncio.sleep(RETRY_PAUSE_S)

    # What the cluster looks like.

    async def refresh(self, names: Iterable[str] | None, *, may_create: bool = False) -> dict[str, ErrorCode]:
        """Look at the topics named (at all of them when None), and return the refusal of each that has one."""
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)
        answer = await self.ask(request, MetadataResponse)
        check(answer.error_code)
        self.brokers = {row.node_id: Address(row.host, row.port) for row in answer.brokers}
        self.racks = {row.node_id: row.rack for row in answer.brokers}
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        if names is None:
            self.topics.clear()
        faults: dict[str, ErrorCode] = {}
        for row in answer.topics:
            name = row.name or ""
            if row.error_code:
                faults[name] = error_of(row.error_code)
                self.topics.pop(name, None)
            else:
                self.topics[name] = _topic_of(row)
        return faults

    async def topic(self, name: str, *, may_create: bool = False, is_new: bool = False) -> Topic:
        """The topic of this name, looked up once; UNKNOWN_TOPIC_OR_PARTITION when there is none.

        Where ``may_create`` lets the broker make it, or ``is_new`` says it was made, its appearance is waited for.
        """
        deadline_s = asyncio.get_running_loop().time() + (APPEARANCE_S if may_create or is_new else 0.0)
        while name not in self.topics:
            faults = await self.refresh([name], may_create=may_create)
            if name in self.topics:
                break
            code = faults.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            is_coming = code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
            if not is_coming or asyncio.get_running_loop().time() >= deadline_s:
                detail = f"there is no topic {name!r}" if is_coming else f"topic {name!r}"
                raise ProtocolError(code, detail)
            await asyncio.sleep(RETRY_PAUSE_S)
        return self.topics[name]

    async def partition(self, tp: TopicPartition) -> Partition:
        """One partition of a known topic; UNKNOWN_TOPIC_OR_PARTITION when the topic has no such partition."""
        known = self.topics.get(tp.topic)
        if known is not None and all(partition.index != tp.partition for partition in known.partitions):
            self.forget([tp.topic])  # What is known may be from before the topic was widened.
        topic = await self.topic(tp.topic)
        for partition in topic.partitions:
            if partition.index == tp.partition:
                return partition
        raise ProtocolError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {tp.topic!r} has {len(topic.partitions)} partitions, none numbered {tp.partition}",
        )

    async def leader(self, tp: TopicPartition) -> Connection:
        """The connection to the partition's leader; LEADER_NOT_AVAILABLE when it has none now."""
        partition = await self.partition(tp)
        if partition.leader == NO_NODE:
            raise StaleMetadata(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {tp} has no leader")
        return await self.broker(partition.leader)

    def forget(self, topics: Iterable[str]) -> None:
        """Look these topics up again when they are next needed."""
        for name in topics:
            self.topics.pop(name, None)

    async def retrying(
        self, topics: Iterable[str], work: Callable[[], Awaitable[T]], *, again_if_lost: bool = True
    ) -> T:
        """Do ``work``; while it fails because leadership moved or a broker went away, look again and repeat it.

        Gives up with the last failure after the cluster's timeout. Work that may have been done although no answer
        came, and must not be done twice, is not repeated when ``again_if_lost`` is false.
        """
        names = list(topics)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.timeout_s
        while True:
            try:
                return await work()
            except (StaleMetadata, Unreachable):
                if loop.time() >= deadline_s:
                    raise
            except ConnectionLost:
                if not again_if_lost or loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S)
            self.forget(names)


def _topic_of(row: MetadataResponseTopic) -> Topic:
    partitions = [
        Partition(
            index=part.partition_index,
            leader=part.leader_id,
            leader_epoch=part.leader_epoch,
            replicas=list(part.replica_nodes),
            in_sync=list(part.isr_nodes),
            offline=list(part.offline_replicas),
        )
        for part in row.partitions
    ]
    partitions.sort(key=lambda partition: partition.index)
    return Topic(row.name or "", row.topic_id, row.is_internal, partitions)
