"""Groups while the broker is killed, loses its power or its disk at moments of the seed's choice.

What must hold: an offset that was said to be committed is never forgotten, and a member that was told of its place in
a group finds it again after every restart, in the old protocol and in the new one.
"""

import asyncio
import random
from abc import ABC, abstractmethod

import pytest

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.simulation.asking import create
from tests.simulation.broker import SimBroker
from tests.simulation.loop import run
from tests.simulation.network import SimNetwork, Weather
from tests.simulation.test_crashing_transactions import SETTINGS, crash
from tests.simulation.transacting import PARTITIONS, TOPIC, Client

COMMIT_VERSION = 9
#: A broker may lose a commit that it did not acknowledge, or the answer to one that it keeps.
SESSION_MS = 60_000


class Member(Client, ABC):
    """The only member of its group: it joins, heartbeats and commits ever higher offsets."""

    def __init__(self, machine: SimBroker, rng: random.Random, group: str) -> None:
        super().__init__(machine, rng)
        self.group = group
        self.acknowledged = -1
        self.is_stopped = False

    async def run(self) -> None:
        await self.join()
        while not self.is_stopped:
            if self.rng.random() < 0.3:
                await self.heartbeat()
            elif self.rng.random() < 0.3:
                assert await self.committed_offset(self.group) == self.acknowledged
            else:
                await self._commit(self.acknowledged + 1)
            await asyncio.sleep(self.rng.uniform(0, 0.1))

    @abstractmethod
    async def join(self) -> None:
        """Become the member."""

    @abstractmethod
    async def heartbeat(self) -> None:
        """Be the member still."""

    @abstractmethod
    def membership(self) -> tuple[str, int]:
        """The member's id, and its generation or epoch."""

    async def _commit(self, offset: int) -> None:
        member_id, epoch = self.membership()
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.group,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
        )

        def code(answer: OffsetCommitResponse) -> int:
            return answer.topics[0].partitions[0].error_code

        assert code(await self.ask(request, OffsetCommitResponse, code, COMMIT_VERSION)) == ErrorCode.NONE
        self.acknowledged = offset


class Nobody(Member):
    """Commits without being a member, as an administrator does."""

    async def join(self) -> None:
        """There is nothing to join."""

    async def heartbeat(self) -> None:
        """Nobody waits for it."""

    def membership(self) -> tuple[str, int]:
        return "", -1


class Classic(Member):
    """A member by JoinGroup and SyncGroup, with an assignment that it gives itself."""

    _member_id = ""
    _generation = -1

    async def join(self) -> None:
        while True:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"any")],
            )
            joined = await self.ask(request, JoinGroupResponse, lambda answer: answer.error_code, 5)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            elif joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:  # It was never told of its place, and lost it.
                self._member_id = ""
            else:
                assert joined.error_code == ErrorCode.NONE, ErrorCode(joined.error_code)
                self._member_id, self._generation = joined.member_id, joined.generation_id
                if await self._sync():
                    return

    async def _sync(self) -> bool:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            assignments=[SyncGroupRequestAssignment(member_id=self._member_id, assignment=b"all of it")],
        )
        synced = await self.ask(request, SyncGroupResponse, lambda answer: answer.error_code, 4)
        if synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID:  # Joining members are forgotten with the broker.
            return False
        if synced.error_code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return False
        assert synced.error_code == ErrorCode.NONE, ErrorCode(synced.error_code)
        assert synced.assignment == b"all of it"
        return True

    async def heartbeat(self) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=self._generation, member_id=self._member_id)
        answer = await self.ask(request, HeartbeatResponse, lambda answer: answer.error_code, 3)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)

    def membership(self) -> tuple[str, int]:
        return self._member_id, self._generation


class Modern(Member):
    """A member by ConsumerGroupHeartbeat, whose partitions the coordinator chooses."""

    _epoch = 0

    async def join(self) -> None:
        answer = await self._heartbeat(subscribed_topic_names=[TOPIC], topic_partitions=[], rebalance_timeout_ms=30_000)
        assert answer.assignment is not None
        (given,) = answer.assignment.topic_partitions
        assert sorted(given.partitions) == list(range(PARTITIONS))
        self._epoch = answer.member_epoch
        await self._heartbeat(topic_partitions=[given])

    async def heartbeat(self) -> None:
        answer = await self._heartbeat()
        assert answer.member_epoch == self._epoch

    async def _heartbeat(self, **news: object) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=f"member of {self.group}",
            member_epoch=self._epoch,
            **news,  # type: ignore[arg-type]
        )
        answer = await self.ask(request, ConsumerGroupHeartbeatResponse, lambda answer: answer.error_code, 1)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer

    def membership(self) -> tuple[str, int]:
        return f"member of {self.group}", self._epoch


async def live(network: SimNetwork, seed: int) -> None:
    """A life of a few crashes; members complain of what they find."""
    rng = random.Random(seed)
    may_lose_power = rng.random() < 0.6
    settings = SETTINGS | ({"log.flush.interval.messages": "1"} if may_lose_power else {})
    machine = SimBroker(network, seed, settings, delay_ms_max=rng.choice((0, 3)))
    await machine.start()
    await create(await machine.connect(), TOPIC, PARTITIONS)
    await Client(machine, rng).find_coordinators()
    network.weather.reset_chance = rng.choice((0, 0.01))
    members = [kind(machine, rng, f"{kind.__name__} group") for kind in (Nobody, Classic, Modern)]
    tasks = [asyncio.create_task(member.run()) for member in members]
    for _ in range(rng.randint(1, 4)):
        await asyncio.sleep(rng.uniform(0, 2))
        await crash(machine, rng, may_lose_power=may_lose_power)
    await asyncio.sleep(rng.uniform(0, 1))
    for member in members:
        member.is_stopped = True
    await asyncio.gather(*tasks)
    for member in members:
        await member.heartbeat()
        assert await member.committed_offset(member.group) == member.acknowledged
    await machine.stop()


def check(seed: int) -> None:
    rng = random.Random(seed)
    network = SimNetwork(rng, Weather(latency_ms_most=rng.choice((0.5, 5)), fragment_chance=0.1))
    run(live(network, seed), network)


@pytest.mark.parametrize("seed", range(50))
def test_groups_find_themselves_again_whatever_the_broker_goes_through(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_groups_find_themselves_again_in_many_more_lives() -> None:
    for seed in range(1_000, 3_000):
        check(seed)
