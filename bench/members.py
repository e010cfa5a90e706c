"""Members of consumer groups, each on a connection of its own and all in one process.

They do what the protocol asks of a consumer and nothing else, so that a hundred of them measure the server: real
clients start threads, fetch, and wait for reasons of their own.
"""

import asyncio
import struct
import time
import uuid
from collections.abc import Iterable
from typing import TypeVar

from bench.wire import Refused, text
from millstream.client.wire import Address, Connection, connect
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from millstream.protocol.schema import Request, Response

CLASSIC, CONSUMER = "classic", "consumer"
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION = 27, 79, 25, 22
#: The coordinator is not there yet, is being loaded, or is elsewhere.
AGAIN = (14, 15, 16)
AGAIN_AFTER_S = 0.02

R = TypeVar("R", bound=Response)


class Group:
    """A group of simulated members, and when they agree on who reads what."""

    def __init__(
        self,
        server: str,
        name: str,
        topic: str,
        partitions: int,
        *,
        protocol: str = CLASSIC,
        session_ms: int = 45_000,
        heartbeat_s: float = 3.0,
    ) -> None:
        host, _, port = server.rpartition(":")
        self.address = Address(host, int(port))
        self.name, self.topic, self.partitions = name, topic, partitions
        self.protocol, self.session_ms, self.heartbeat_s = protocol, session_ms, heartbeat_s
        self.members: list[Member] = []
        #: When a member last heard that it must join again or give something back.
        self.told_at = 0.0
        self._settled = asyncio.Event()
        self._failure: BaseException | None = None

    async def add(self, count: int) -> None:
        """Connect so many more members and let them join."""
        kind = ClassicMember if self.protocol == CLASSIC else ConsumerMember
        fresh = [kind(self) for _ in range(count)]
        for member in fresh:
            await member.connect()
        self._settled.clear()
        self.members += fresh
        for member in fresh:
            member.start()

    def kill(self) -> None:
        """Let one member, not the leader, end without a word."""
        victim = next(member for member in reversed(self.members) if not member.is_leader)
        self._settled.clear()
        self.members.remove(victim)
        victim.end()

    async def settled(self, timeout_s: float = 120.0) -> float:
        """When the members came to agree, each partition having one reader."""
        async with asyncio.timeout(timeout_s):
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        return time.perf_counter()

    def note(self) -> None:
        """A member's part has changed: see whether they agree."""
        epochs = {member.epoch for member in self.members}
        held = [partition for member in self.members for partition in member.held]
        if len(epochs) == 1 and None not in epochs and sorted(held) == list(range(self.partitions)):
            self._settled.set()

    def failed(self, error: BaseException) -> None:
        self._failure = error
        self._settled.set()

    def close(self) -> None:
        for member in self.members:
            member.end()
        self.members.clear()


class Member:
    """What both protocols' members have: a connection, an epoch, and partitions."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.id = ""
        self.is_leader = False
        #: The generation or member epoch it agrees to, if it does.
        self.epoch: int | None = None
        self.held: list[int] = []
        self._connection: Connection | None = None
        self._life: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self._connection = await connect(self.group.address)

    def start(self) -> None:
        self._life = asyncio.create_task(self._live())

    def end(self) -> None:
        if self._life is not None:
            self._life.cancel()
        if self._connection is not None:
            self._connection.close()

    async def _live(self) -> None:
        try:
            await self._find()
            await self.live()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.group.failed(error)

    async def live(self) -> None:
        raise NotImplementedError

    async def call(self, request: Request, response: type[R]) -> R:
        assert self._connection is not None
        return await self._connection.call(request, response)

    async def _find(self) -> None:
        request = FindCoordinatorRequest(key=self.group.name, coordinator_keys=[self.group.name])
        while True:
            found = await self.call(request, FindCoordinatorResponse)
            if not found.coordinators[0].error_code:
                break
            await asyncio.sleep(AGAIN_AFTER_S)

    def agrees(self, epoch: int | None, held: Iterable[int]) -> None:
        self.epoch, self.held = epoch, list(held)
        self.group.note()


class ClassicMember(Member):
    """Joins, syncs, and beats until it is told to join again."""

    async def live(self) -> None:
        while True:
            joined = await self._join()
            if joined.error_code or not await self._sync(joined):
                continue
            await self._beat()
            self.epoch, self.group.told_at = None, time.perf_counter()

    async def _join(self) -> JoinGroupResponse:
        group = self.group
        subscription = b"\0\0" + struct.pack(">i", 1) + text(group.topic) + struct.pack(">i", -1)
        request = JoinGroupRequest(
            group_id=group.name,
            session_timeout_ms=group.session_ms,
            rebalance_timeout_ms=300_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        joined = await self.call(request, JoinGroupResponse)
        if joined.error_code in AGAIN:
            await asyncio.sleep(AGAIN_AFTER_S)
        elif joined.error_code == UNKNOWN_MEMBER_ID:
            self.id = ""
        elif joined.error_code not in (0, MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS):
            raise Refused(f"join of {group.name}: error {joined.error_code}")
        else:
            self.id = joined.member_id
        return joined

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Whether the member now has its part of this generation."""
        self.is_leader = joined.leader == self.id
        ids = [member.member_id for member in joined.members] if self.is_leader else []
        request = SyncGroupRequest(
            group_id=self.group.name,
            generation_id=joined.generation_id,
            member_id=self.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=self._assignment(at, len(ids)))
                for at, each in enumerate(ids)
            ],
        )
        synced = await self.call(request, SyncGroupResponse)
        if synced.error_code in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID):
            return False
        if synced.error_code:
            raise Refused(f"sync of {self.group.name}: error {synced.error_code}")
        (count,) = struct.unpack_from(">i", synced.assignment, 6 + len(text(self.group.topic)))
        at = 6 + len(text(self.group.topic)) + 4
        self.agrees(joined.generation_id, struct.unpack_from(f">{count}i", synced.assignment, at))
        return True

    def _assignment(self, at: int, count: int) -> bytes:
        """The ``at``-th of ``count`` members' share: every ``count``-th partition."""
        mine = range(at, self.group.partitions, count)
        rows = struct.pack(f">{len(mine) + 1}i", len(mine), *mine)
        return b"\0\0" + struct.pack(">i", 1) + text(self.group.topic) + rows + struct.pack(">i", -1)

    async def _beat(self) -> None:
        """Until the group rebalances."""
        assert self.epoch is not None
        request = HeartbeatRequest(group_id=self.group.name, generation_id=self.epoch, member_id=self.id)
        while True:
            await asyncio.sleep(self.group.heartbeat_s)
            code = (await self.call(request, HeartbeatResponse)).error_code
            if code:
                break
        if code not in (REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID):
            raise Refused(f"heartbeat in {self.group.name}: error {code}")


class ConsumerMember(Member):
    """Beats as often as it is told (KIP-848), and at once when it was given something or has given something back."""

    async def live(self) -> None:
        group = self.group
        self.id = str(uuid.uuid4())
        epoch = 0
        owned: list[TopicPartitions] | None = []
        while True:
            is_first = epoch == 0
            answer = await self.call(
                ConsumerGroupHeartbeatRequest(
                    group_id=group.name,
                    member_id=self.id,
                    member_epoch=epoch,
                    rebalance_timeout_ms=300_000 if is_first else -1,
                    subscribed_topic_names=[group.topic] if is_first else None,
                    topic_partitions=owned,
                ),
                ConsumerGroupHeartbeatResponse,
            )
            if answer.error_code in AGAIN:
                await asyncio.sleep(AGAIN_AFTER_S)
                continue
            if answer.error_code:
                raise Refused(f"heartbeat in {group.name}: error {answer.error_code} {answer.error_message}")
            epoch, owned, held = answer.member_epoch, None, self.held
            if answer.assignment is not None:
                owned = answer.assignment.topic_partitions
                held = [partition for topic in owned for partition in topic.partitions]
                group.told_at = time.perf_counter()
            self.agrees(epoch, held)
            if owned is None:
                await asyncio.sleep(answer.heartbeat_interval_ms / 1_000)
