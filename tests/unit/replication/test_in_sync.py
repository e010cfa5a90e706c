"""How a leader asks the controller for other in-sync sets, and what it makes of the answers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)
from millstream.replication.in_sync import InSync
from millstream.replication.partition import Partition
from tests.simulation.loop import SimClock, run
from tests.unit.replication.replica import Replica
from tests.unit.storage.ground import TOPIC_ID, batch

LAG_MS = 10_000


class Leader:
    """As much of ``Replicas`` as is looked after: one partition that this broker leads."""

    broker_epoch = 77

    def __init__(self, *, isr: tuple[int, ...]) -> None:
        self.replica = Replica(1, SimClock(asyncio.get_running_loop()))  # type: ignore[arg-type]
        self.replica.told(1, epoch=5, isr=isr, partition_epoch=3)
        self.on_in_sync: Callable[[Partition], None] = lambda partition: None
        self.asked: list[list[int]] = []
        #: What the controller answers in turn; afterwards it grants everything.
        self.answers: list[ErrorCode | Exception] = []
        self.top_level = ErrorCode.NONE
        self.takes_s = 0.0
        self.in_sync = InSync(1, self, self.alter, self.replica.clock, lambda: LAG_MS)  # type: ignore[arg-type]
        self.in_sync.start()
        self.partition.on_in_sync = self.on_in_sync

    def __iter__(self) -> Iterator[Partition]:
        return iter([self.partition])

    @property
    def partition(self) -> Partition:
        return self.replica.partition

    @property
    def isr(self) -> tuple[int, ...]:
        return self.partition.role.leadership.isr

    async def alter(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        assert (request.broker_id, request.broker_epoch) == (1, 77)
        (row,) = request.topics[0].partitions
        members = [state.broker_id for state in row.new_isr_with_epochs]
        self.asked.append(members)
        assert row.min_in_sync == self.partition._log().config.min_insync_replicas
        await asyncio.sleep(self.takes_s)
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if isinstance(answer, Exception):
            raise answer
        if self.top_level:
            code, self.top_level = self.top_level, ErrorCode.NONE
            return AlterPartitionResponse(error_code=code)
        result = AlterPartitionPartitionResult(
            partition_index=0, error_code=answer, leader_id=1, leader_epoch=5, isr=members, partition_epoch=4
        )
        return AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=TOPIC_ID, partitions=[result])])


def looked_after(scenario: Callable[[Leader], Awaitable[None]], *, isr: tuple[int, ...] = (1, 2, 3)) -> None:
    async def play() -> None:
        leader = Leader(isr=isr)
        await scenario(leader)
        await leader.in_sync.stop()

    run(play())


def test_a_follower_that_has_caught_up_is_asked_for_at_once() -> None:
    async def scenario(leader: Leader) -> None:
        leader.replica.write(batch(2))
        leader.partition.fetched_by(2, 2)
        assert leader.partition.high_watermark == 2
        leader.partition.fetched_by(3, 1)
        await asyncio.sleep(1)
        assert leader.asked == []
        leader.partition.fetched_by(3, 2)
        await asyncio.sleep(0.01)
        assert (leader.asked, leader.isr) == ([[1, 2, 3]], (1, 2, 3))
        assert leader.partition.role.leadership.partition_epoch == 4

    looked_after(scenario, isr=(1, 2))


def test_one_that_lags_is_found_by_the_clock_and_the_watermark_goes_on_without_it() -> None:
    async def scenario(leader: Leader) -> None:
        leader.replica.write(batch(2))
        leader.partition.fetched_by(2, 2)
        assert leader.partition.high_watermark == 0
        for _ in range(int(1.5 * LAG_MS / 100)):
            await asyncio.sleep(0.1)
            leader.partition.fetched_by(2, 2)
        assert (leader.asked, leader.isr) == ([[1, 2]], (1, 2))
        assert leader.partition.high_watermark == 2

    looked_after(scenario)


def test_what_nobody_answers_is_asked_again_and_the_watermark_waits_meanwhile() -> None:
    async def scenario(leader: Leader) -> None:
        leader.answers = [TimeoutError(), ConnectionResetError(), ProtocolError(ErrorCode.NOT_CONTROLLER)]
        leader.partition.fetched_by(3, 0)
        await asyncio.sleep(0.05)
        leader.replica.write(batch(1))
        leader.partition.fetched_by(2, 1)
        assert leader.partition.high_watermark == 0, "the third may be in sync by now"
        await asyncio.sleep(1)
        assert leader.asked == [[1, 2, 3]] + [[1, 2]] * 3, "as it is, until somebody says what came of it"
        assert leader.partition.high_watermark == 1
        leader.partition.fetched_by(3, 1)
        await asyncio.sleep(0.05)
        assert leader.isr == (1, 2, 3)

    looked_after(scenario, isr=(1, 2))


def test_a_refusal_lets_the_watermark_go_on_and_is_tried_again_later() -> None:
    async def scenario(leader: Leader) -> None:
        leader.answers = [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INELIGIBLE_REPLICA]
        leader.takes_s = 0.01
        leader.partition.fetched_by(3, 0)
        await asyncio.sleep(0.005)
        leader.replica.write(batch(1))
        leader.partition.fetched_by(2, 1)
        assert leader.partition.high_watermark == 0
        await asyncio.sleep(0.01)
        assert leader.partition.high_watermark == 1
        leader.partition.fetched_by(3, 1)
        await asyncio.sleep(1)
        assert (len(leader.asked), leader.isr) == (3, (1, 2, 3))

    looked_after(scenario, isr=(1, 2))


def test_a_broker_that_is_registered_anew_asks_again_under_its_new_epoch() -> None:
    async def scenario(leader: Leader) -> None:
        leader.top_level = ErrorCode.STALE_BROKER_EPOCH
        leader.partition.fetched_by(3, 0)
        await asyncio.sleep(1)
        assert (len(leader.asked), leader.isr) == (3, (1, 2, 3))

    looked_after(scenario, isr=(1, 2))


def test_an_answer_that_the_controllers_word_has_overtaken_changes_nothing() -> None:
    async def scenario(leader: Leader) -> None:
        leader.takes_s = 1
        leader.partition.fetched_by(3, 0)
        await asyncio.sleep(0.5)
        leader.replica.told(1, epoch=6, isr=(1,), partition_epoch=9)
        await asyncio.sleep(0.6)
        assert (leader.isr, leader.partition.role.leadership.partition_epoch) == ((1,), 9)

    looked_after(scenario, isr=(1, 2))
