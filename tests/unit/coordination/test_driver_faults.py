"""What a shard does when the log does not take records, or its machine fails: others go on."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import pytest

from millstream.coordination.decision import Decision, Origin, Producer, Question
from millstream.coordination.driver import LOAD_AGAIN_AFTER_S, RECORDS_AT_ONCE
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.batch import header_at
from millstream.model.compression import NONE
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import Record, encode_batch
from millstream.storage.moving import Copy
from tests.simulation.files import MemoryFiles
from tests.unit.coordination.test_driver import Add, Counter, Ground, Show, Wait, ask, on_virtual_time
from tests.unit.storage.ground import made, open_logs


class Many(NamedTuple):
    """A question: count by ones, so often; the answer is the sum."""

    ones: int
    is_divisible: bool = True
    #: What is answered instead when that is too large.
    instead: str | None = None


class Noted(NamedTuple):
    """An event: the records were refused."""

    ticket: int
    answer: str
    code: ErrorCode


class Crowd(Counter):
    """A machine that writes many records at once."""

    def decide(self, event: Any, now_ms: int) -> Decision:
        if isinstance(event, Noted):
            return Decision(answers=[(event.ticket, (event.answer, event.code))])
        if isinstance(event, Question) and isinstance(event.request, Many):
            ones, is_divisible, instead = event.request
            return Decision(
                records=[CoordinatorRecord("amount", 1)] * ones,
                answers=[(event.ticket, self.sum + ones)],
                is_divisible=is_divisible,
                if_refused=None if instead is None else partial(Noted, event.ticket, instead),
            )
        return super().decide(event, now_ms)


def ground_of(make: Callable[[], Counter], **config: Any) -> Ground:
    ground = Ground()
    ground.log.config = replace(ground.log.config, **config)
    ground.stage = replace(ground.stage, make_machine=lambda index, epoch: make(), compression=lambda: NONE)
    return ground


def small_batches(make: Callable[[], Counter] = Crowd) -> Ground:
    """A log that takes some twenty records at once."""
    return ground_of(make, max_message_bytes=300)


@on_virtual_time
async def test_records_that_need_not_go_together_are_appended_in_batches_that_fit() -> None:
    ground = small_batches()
    shard = ground.shard()
    assert await ask(shard, Many(2 * RECORDS_AT_ONCE + 1)) == 2 * RECORDS_AT_ONCE + 1
    assert await ask(shard, Show()) == ground.log.end_offset == 2 * RECORDS_AT_ONCE + 1


@on_virtual_time
async def test_one_that_never_fits_is_refused_and_the_others_are_written() -> None:
    class Mixed(Crowd):
        def decide(self, event: Any, now_ms: int) -> Decision:
            decision = super().decide(event, now_ms)
            if isinstance(event, Question) and isinstance(event.request, Many):
                large = CoordinatorRecord("amount", 10**300)
                decision = replace(
                    decision, records=[*decision.records[1:], large, *decision.records[:1]], is_pure=True
                )
            return decision

    ground = small_batches(Mixed)
    shard = ground.shard()
    with pytest.raises(ProtocolError, match="UNKNOWN_SERVER_ERROR"):
        await ask(shard, Many(70))
    assert shard.is_active
    assert await ask(shard, Show()) == 70


@on_virtual_time
async def test_a_machine_is_told_of_records_that_are_too_large_and_nobody_else_notices() -> None:
    ground = small_batches()
    shard = ground.shard()
    waiting = asyncio.ensure_future(ask(shard, Wait()))
    await asyncio.sleep(0)
    assert await ask(shard, Many(70, is_divisible=False, instead="too many")) == (
        "too many",
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
    assert shard.is_active
    assert ground.log.end_offset == 0
    await ask(shard, Add(5))
    assert await waiting == 5


@on_virtual_time
async def test_records_too_large_for_a_machine_that_does_not_mind_them_have_it_loaded_again() -> None:
    ground = small_batches()
    shard = ground.shard()
    await ask(shard, Add(1))
    with pytest.raises(ProtocolError, match="UNKNOWN_SERVER_ERROR"):
        await ask(shard, Many(70, is_divisible=False))
    assert not shard.is_active
    await asyncio.sleep(0)
    assert await ask(shard, Show()) == 1


class Stumbling(Counter):
    """A machine that fails at its first thirteen, as a bug would have it."""

    stumbled: ClassVar[list[int]] = []

    def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
        if record.value == 13 and not self.stumbled:
            self.stumbled.append(origin.offset)
            raise AssertionError("a bug")
        super().replay(record, origin)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        if producer_id == 13 and not self.stumbled:
            self.stumbled.append(producer_id)
            raise AssertionError("a bug")
        super().replay_marker(producer_id, is_commit=is_commit)


@on_virtual_time
async def test_a_machine_that_fails_at_what_was_appended_is_loaded_again() -> None:
    Stumbling.stumbled.clear()
    shard = ground_of(Stumbling).shard()
    await ask(shard, Add(1))
    with pytest.raises(ProtocolError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        await ask(shard, Add(13))
    await asyncio.sleep(0)
    assert await ask(shard, Show()) == 14, "as the log says"


@on_virtual_time
async def test_a_machine_that_fails_at_a_marker_is_loaded_again() -> None:
    Stumbling.stumbled.clear()
    shard = ground_of(Stumbling).shard()
    await ask(shard, Add(2, producer=Producer(13, 0)))
    with pytest.raises(ProtocolError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        shard.end_transaction(13, 0, is_commit=True, coordinator_epoch=1)
    await asyncio.sleep(0)
    assert await ask(shard, Show()) == 2


@on_virtual_time
async def test_a_load_that_fails_sends_clients_away_and_is_tried_again() -> None:
    Stumbling.stumbled.clear()
    ground = ground_of(Counter)
    await ask(ground.shard(), Add(13))
    ground.stage = replace(ground.stage, make_machine=lambda index, epoch: Stumbling())
    shard = ground.shard()
    await asyncio.sleep(0.1)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
            await ask(shard, Show())
        await asyncio.sleep(LOAD_AGAIN_AFTER_S / 3)
    await asyncio.sleep(LOAD_AGAIN_AFTER_S)
    assert await ask(shard, Show()) == 13


@on_virtual_time
async def test_a_machine_whose_log_moves_to_another_directory_meanwhile_is_loaded_from_there() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    shard = Ground(made(logs)).shard()
    for _ in range(10):
        await ask(shard, Add(1))
    logs.close()
    logs = open_logs(files, "/a", "/b")
    log = made(logs)
    ground = Ground(log)

    class Moving(Counter):
        def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
            super().replay(record, origin)
            if self.sum == 5 and ground.partition.log is log:
                copy = Copy(log, logs.directories[1])
                copy.finish()
                ground.partition.moved_to(logs.replace(copy))

    ground.stage = replace(ground.stage, make_machine=lambda index, epoch: Moving())
    shard = ground.shard()
    await asyncio.sleep(0.1)
    assert await ask(shard, Show()) == 10
    assert [directory.failure for directory in logs.directories] == [None, None]
    assert await ask(shard, Add(1)) == 11


@on_virtual_time
async def test_the_last_part_of_a_millisecond_is_waited_for_once() -> None:
    """A wait that ended before its time, rounded down, would be begun again and again."""
    ground = Ground(isr=(0, 1))
    shard, wait, waits = ground.shard(), ground.purgatory.wait, 0

    async def counted(*args: Any) -> None:
        nonlocal waits
        waits += 1
        assert waits < 10
        await wait(*args)

    ground.purgatory.wait = counted  # type: ignore[assignment, method-assign]
    first, second = (asyncio.ensure_future(ask(shard, Add(1))) for _ in range(2))
    await asyncio.sleep(0.0006)
    ground.partition.fetched_by(1, 1)
    assert await first == 1
    with pytest.raises(ProtocolError, match="COORDINATOR_NOT_AVAILABLE"):
        await second


@on_virtual_time
async def test_a_shard_that_is_closed_is_not_loaded_again() -> None:
    Stumbling.stumbled.clear()
    ground = ground_of(Counter)
    await ask(ground.shard(), Add(13))
    ground.stage = replace(ground.stage, make_machine=lambda index, epoch: Stumbling())
    shard = ground.shard()
    await asyncio.sleep(0.1)
    shard.close()
    await asyncio.sleep(3 * LOAD_AGAIN_AFTER_S)
    assert not shard.is_active


@on_virtual_time
async def test_what_is_written_in_a_transaction_is_appended_under_its_guard() -> None:
    ground = Ground()
    shard = ground.shard()
    header = header_at(encode_batch([Record()], producer_id=7, producer_epoch=0, transactional=True))
    guards = [ground.partition.begin_verification(header)]
    assert await shard.ask(Add(2, producer=Producer(7, 0)), 0, "", "", guards[0]) == 2
    shard.end_transaction(7, 0, is_commit=True, coordinator_epoch=1)
    guards.append(ground.partition.begin_verification(header))
    shard.end_transaction(7, 0, is_commit=True, coordinator_epoch=1)
    for guard in guards:
        with pytest.raises(ProtocolError, match="INVALID_TXN_STATE"):
            await shard.ask(Add(2, producer=Producer(7, 0)), 0, "", "", guard)
    assert await ask(shard, Show()) == 2


@on_virtual_time
async def test_a_refusal_for_another_reason_is_told_to_the_machine_too() -> None:
    ground = ground_of(Crowd)
    shard = ground.shard()
    ground.lead(2, leader=1)
    told = ("not now", ErrorCode.NOT_COORDINATOR)
    assert await ask(shard, Many(1, is_divisible=False, instead="not now")) == told
    assert shard.is_active
