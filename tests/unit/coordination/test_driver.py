"""The driver of an internal partition, with a real log, on virtual time, and a machine that only counts."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from millstream.coordination.coordinator import Coordinator, index_of, java_hash
from millstream.coordination.decision import Decision, Origin, Producer, Question, Timer
from millstream.coordination.driver import Shard, Stage
from millstream.coordination.loading import REPLAYED_AT_ONCE, Codec
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.metrics.metric import Metrics
from millstream.metrics.table import METRICS
from millstream.metrics.traffic import TopicTraffic
from millstream.model.batch import HEADER_BYTES, header_at
from millstream.model.compression import ZSTD
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.model.records import Record, assemble, encode_batch
from millstream.replication.partition import Partition
from millstream.replication.purgatory import Purgatory
from millstream.replication.role import Leadership
from millstream.storage.log import Log
from tests.simulation.files import MemoryFiles
from tests.simulation.loop import SimClock, SimWorkers, run
from tests.unit.storage.ground import TOPIC_ID, TP, new_log


class Add(NamedTuple):
    """A question: count so much further; the answer is the sum."""

    amount: int
    after_ms: int | None = None
    producer: Producer | None = None
    is_pure: bool = True


class Wait(NamedTuple):
    """A question that is answered when somebody adds."""


class Show(NamedTuple):
    """A question: the sum."""


class Errand(NamedTuple):
    """A question, and the order that comes of it."""

    amount: int


class Counter:
    """A machine that keeps a sum, and sums that wait for a transaction's end."""

    def __init__(self) -> None:
        self.sum = 0
        self.pending: dict[int, int] = {}
        self.waiting: list[int] = []

    def decide(self, event: Any, now_ms: int) -> Decision:
        if not isinstance(event, Question):
            return Decision(records=[_record(event)], is_pure=True)
        request = event.request
        if isinstance(request, Wait):
            self.waiting.append(event.ticket)
            return Decision()
        if isinstance(request, Show):
            return Decision(answers=[(event.ticket, self.sum)])
        if isinstance(request, Errand):
            return Decision(answers=[(event.ticket, "sent")], orders=[request.amount])
        if request.amount < 0:
            raise ProtocolError(ErrorCode.INVALID_REQUEST)
        waiting, self.waiting = self.waiting, []
        total = self.sum + request.amount
        return Decision(
            records=[_record(request.amount)],
            answers=[(ticket, total) for ticket in (event.ticket, *waiting)],
            timers=[] if request.after_ms is None else [Timer("again", request.after_ms, request.amount)],
            producer=request.producer,
            is_pure=request.is_pure,
        )

    def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
        assert record.value is not None
        if origin.producer_id >= 0:
            self.pending[origin.producer_id] = self.pending.get(origin.producer_id, 0) + record.value
        else:
            self.sum += record.value

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        amount = self.pending.pop(producer_id, 0)
        self.sum += amount if is_commit else 0

    def loaded(self, now_ms: int) -> Decision:
        return Decision()

    def stands(self, order: int) -> bool:
        return order >= self.sum


def _record(amount: int) -> CoordinatorRecord:
    return CoordinatorRecord("amount", amount)


def _decode(key: bytes, value: bytes | None) -> CoordinatorRecord:
    if key != b"amount" or value is None:
        raise CorruptFrame("not an amount")
    return _record(int(value))


CODEC = Codec(lambda record: (record.key.encode(), str(record.value).encode()), _decode)


class Ground:
    """A partition that this broker leads, alone or with a follower, and its shard."""

    def __init__(self, log: Log | None = None, isr: tuple[int, ...] = (0,)) -> None:
        loop = asyncio.get_running_loop()
        self.clock = SimClock(loop)
        self.log = log or new_log(MemoryFiles(clock=self.clock), "/data")
        self.purgatory = Purgatory()
        self.performed: list[Any] = []
        traffic = TopicTraffic(Metrics(METRICS), TP.topic)
        self.partition = Partition(TP, TOPIC_ID, 0, self.log, self.purgatory, 0, traffic)
        self.stage = Stage(
            make_machine=lambda index, epoch: Counter(),
            codec=CODEC,
            perform=self.perform,
            clock=self.clock,
            workers=SimWorkers(),
            purgatory=self.purgatory,
            load_bytes=lambda: 100,
            compression=lambda: ZSTD,
            write_timeout_ms=lambda: 5_000,
        )
        self.lead(1, isr)

    def lead(self, epoch: int, isr: tuple[int, ...] = (0,), leader: int = 0) -> None:
        told = Leadership(leader=leader, leader_epoch=epoch, isr=isr, replicas=isr, partition_epoch=epoch)
        assert self.partition.follow(told) is ErrorCode.NONE

    async def perform(self, order: int) -> int:
        self.performed.append(order)
        return order

    def shard(self) -> Shard:
        shard = Shard(self.partition, self.stage)
        shard.start()
        return shard


async def ask(shard: Shard, request: Any) -> Any:
    return await shard.ask(request, 0, "client", "host")


def on_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def scenario() -> None:
        run(test())

    scenario.__doc__, scenario.__name__ = test.__doc__, test.__name__
    return scenario


@on_virtual_time
async def test_what_is_decided_is_appended_and_replayed_before_the_answer() -> None:
    ground = Ground()
    shard = ground.shard()
    assert [await ask(shard, Add(2)), await ask(shard, Add(3))] == [2, 5]
    assert ground.log.end_offset == 2


@on_virtual_time
async def test_a_refused_question_writes_nothing() -> None:
    ground = Ground()
    shard = ground.shard()
    with pytest.raises(ProtocolError, match="INVALID_REQUEST"):
        await ask(shard, Add(-1))
    assert ground.log.end_offset == 0


@on_virtual_time
async def test_an_answer_may_come_from_another_members_question() -> None:
    ground = Ground()
    shard = ground.shard()
    waiting = asyncio.ensure_future(ask(shard, Wait()))
    await asyncio.sleep(1)
    assert not waiting.done()
    await ask(shard, Add(7))
    assert await waiting == 7


@on_virtual_time
async def test_answers_wait_for_the_replicas_and_reads_with_them() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    added, shown = (asyncio.ensure_future(ask(shard, each)) for each in (Add(4), Show()))
    await asyncio.sleep(1)
    assert not added.done()
    assert not shown.done()
    ground.partition.fetched_by(1, 1)
    assert [await added, await shown] == [4, 4]


@on_virtual_time
async def test_replicas_that_lag_too_long_have_the_client_ask_again() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    with pytest.raises(ProtocolError, match="COORDINATOR_NOT_AVAILABLE"):
        await ask(shard, Add(4))
    assert asyncio.get_running_loop().time() == 5.0
    ground.partition.fetched_by(1, 1)
    assert await ask(shard, Show()) == 4, "what was decided stands"


@on_virtual_time
async def test_all_that_wait_for_the_replicas_have_their_own_time() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    asked = []
    for _ in range(3):
        asked.append(asyncio.ensure_future(ask(shard, Add(1))))
        await asyncio.sleep(1)
    refused_s = []
    for each in asked:
        with pytest.raises(ProtocolError, match="COORDINATOR_NOT_AVAILABLE"):
            await each
        refused_s.append(asyncio.get_running_loop().time())
    assert refused_s == pytest.approx([5, 6, 7], abs=0.01)


@on_virtual_time
async def test_orders_wait_for_the_replicas_for_as_long_as_it_takes() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    with pytest.raises(ProtocolError, match="COORDINATOR_NOT_AVAILABLE"):
        await asyncio.gather(ask(shard, Add(1)), ask(shard, Errand(5)))
    await asyncio.sleep(600)
    assert ground.performed == []
    ground.partition.fetched_by(1, 1)
    await asyncio.sleep(0.001)
    assert ground.performed == [5]


@on_virtual_time
async def test_a_leadership_lost_while_answers_wait_leaves_them_waiting_in_peace_until_the_shard_is_closed() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    added = asyncio.ensure_future(ask(shard, Add(4)))
    await asyncio.sleep(1)
    ground.lead(2, isr=(0, 1), leader=1)
    await asyncio.sleep(1)  # A watch that went round and round would never let this time pass.
    assert not added.done()
    shard.close()
    with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
        await added


@on_virtual_time
async def test_an_order_that_is_no_longer_wanted_when_it_is_safe_is_dropped() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    waiting = [asyncio.ensure_future(ask(shard, each)) for each in (Add(1), Errand(5), Add(6))]
    await asyncio.sleep(0)
    ground.partition.fetched_by(1, 2)
    await asyncio.gather(*waiting)
    assert ground.performed == []


@on_virtual_time
async def test_a_timer_tells_its_event_once_and_moving_it_costs_no_second() -> None:
    ground = Ground()
    shard = ground.shard()
    for _ in range(3):
        await ask(shard, Add(1, after_ms=1_000))
        await asyncio.sleep(0.9)
    assert await ask(shard, Show()) == 3
    await asyncio.sleep(0.2)
    assert await ask(shard, Show()) == 4
    await asyncio.sleep(10)
    assert await ask(shard, Show()) == 4


@on_virtual_time
async def test_a_timer_can_be_set_earlier_than_it_was() -> None:
    ground = Ground()
    shard = ground.shard()
    await ask(shard, Add(1, after_ms=60_000))
    await ask(shard, Add(1, after_ms=1_000))
    await asyncio.sleep(1.1)
    assert await ask(shard, Show()) == 3


@on_virtual_time
async def test_an_order_is_carried_out_in_the_turn_after_the_answer_when_nothing_waits() -> None:
    ground = Ground()
    shard = ground.shard()
    assert await ask(shard, Errand(5)) == "sent"
    assert ground.performed == []
    await asyncio.sleep(0)
    assert ground.performed == [5]
    assert await ask(shard, Show()) == 5


@on_virtual_time
async def test_records_of_a_transaction_count_when_its_marker_commits() -> None:
    ground = Ground()
    shard = ground.shard()
    for producer_id in (7, 8):
        await ask(shard, Add(2, producer=Producer(producer_id, 0)))
    shard.end_transaction(7, 0, is_commit=True, coordinator_epoch=1)
    shard.end_transaction(8, 0, is_commit=False, coordinator_epoch=1)
    assert await ask(shard, Show()) == 2


@on_virtual_time
async def test_a_machine_is_loaded_from_its_log_transactions_included() -> None:
    ground = Ground()
    shard = ground.shard()
    await ask(shard, Add(1))
    for producer_id in (7, 8, 9):
        await ask(shard, Add(10 ** (producer_id - 6), producer=Producer(producer_id, 0)))
    shard.end_transaction(7, 0, is_commit=True, coordinator_epoch=1)
    shard.end_transaction(8, 0, is_commit=False, coordinator_epoch=1)
    shard.close()
    again = ground.shard()
    with pytest.raises(ProtocolError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        await ask(again, Show())
    await asyncio.sleep(0)
    assert await ask(again, Show()) == 11
    again.end_transaction(9, 0, is_commit=True, coordinator_epoch=1)
    assert await ask(again, Show()) == 1011


@on_virtual_time
async def test_a_record_that_cannot_be_read_is_skipped_and_the_rest_loads() -> None:
    ground = Ground()
    await ask(ground.shard(), Add(1))
    strange = encode_batch([Record(key=b"strange", value=b"?"), Record(value=b"no key")])
    ground.partition.append_internal(memoryview(strange), ground.clock.now_ms())
    last = encode_batch([Record(key=b"amount", value=b"5")])
    ground.partition.append_internal(memoryview(last), ground.clock.now_ms())
    shard = ground.shard()
    await asyncio.sleep(0)
    assert await ask(shard, Show()) == 6


@on_virtual_time
async def test_machines_that_are_loaded_at_once_leave_others_their_turns() -> None:
    ground = Ground()
    await ask(ground.shard(), Add(1))
    many = encode_batch([Record(key=b"amount", value=b"1")] * (3 * REPLAYED_AT_ONCE))
    ground.partition.append_internal(memoryview(many), ground.clock.now_ms())
    replayed = 0

    class Counting(Counter):
        def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
            nonlocal replayed
            replayed += 1
            super().replay(record, origin)

    stage = replace(ground.stage, make_machine=lambda index, epoch: Counting())
    shards = [Shard(ground.partition, stage) for _ in range(10)]
    for shard in shards:
        shard.start()
    while not all(shard.is_active for shard in shards):
        before = replayed
        await asyncio.sleep(0)
        assert replayed - before <= 2 * REPLAYED_AT_ONCE
    assert [await ask(shard, Show()) for shard in shards] == [3 * REPLAYED_AT_ONCE + 1] * 10


@on_virtual_time
async def test_a_batch_whose_records_are_none_is_skipped_and_the_rest_loads() -> None:
    ground = Ground()
    await ask(ground.shard(), Add(1))
    whole = encode_batch([Record(key=b"amount", value=b"100")])
    strange = assemble(header_at(whole), whole[HEADER_BYTES:-1])  # Cut short, under a checksum that holds.
    ground.partition.append_internal(memoryview(strange), ground.clock.now_ms())
    last = encode_batch([Record(key=b"amount", value=b"5")])
    ground.partition.append_internal(memoryview(last), ground.clock.now_ms())
    shard = ground.shard()
    await asyncio.sleep(0)
    assert await ask(shard, Show()) == 6


@on_virtual_time
async def test_whoever_waits_is_told_when_the_leadership_is_lost() -> None:
    ground = Ground(isr=(0, 1))
    shard = ground.shard()
    asked = [asyncio.ensure_future(ask(shard, each)) for each in (Wait(), Add(1))]
    await asyncio.sleep(0)
    shard.close()
    for each in asked:
        with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
            await each


@on_virtual_time
async def test_an_append_that_fails_refuses_the_question_and_no_more_where_nothing_moved() -> None:
    ground = Ground()
    shard = ground.shard()
    await ask(shard, Add(1))
    ground.lead(2, leader=1)
    with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
        await ask(shard, Add(1))
    assert shard.is_active
    with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
        await ask(shard, Add(1, is_pure=False))
    assert not shard.is_active, "soft state had moved, so it is loaded again"


@on_virtual_time
async def test_an_event_whose_consequences_cannot_be_written_is_told_again() -> None:
    ground = Ground()
    shard = ground.shard()
    await ask(shard, Add(1, after_ms=1_000))
    ground.lead(2, leader=1)
    await asyncio.sleep(1.5)
    ground.lead(3)
    assert await ask(shard, Show()) == 1
    await asyncio.sleep(1)
    assert await ask(shard, Show()) == 2


@on_virtual_time
async def test_a_coordinator_has_a_shard_for_each_partition_led_here() -> None:
    ground = Ground()
    coordinator = Coordinator("orders", ground.stage, lambda: 1)
    with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
        coordinator.shard_for("group")
    coordinator.role_changed(ground.partition)
    shard = coordinator.shard_for("group")
    coordinator.role_changed(ground.partition)
    assert coordinator.shard_for("group") is shard, "told again of what it knows"
    ground.lead(2)
    coordinator.role_changed(ground.partition)
    assert coordinator.shard_for("group") is not shard, "a new epoch begins anew"
    ground.lead(3, leader=1)
    coordinator.role_changed(ground.partition)
    with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
        coordinator.shard_for("group")


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("group", 98629247), ("polygenelubricants", -(2**31)), ("naïve", 104710475)]
)
def test_keys_are_hashed_as_java_does(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_hash_without_a_positive_twin_goes_to_the_first_partition() -> None:
    assert index_of("polygenelubricants", 50) == 0
