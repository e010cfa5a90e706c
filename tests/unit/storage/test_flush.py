"""Reaching the disk: commits that many share, full flushes, and cuts in between."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from millstream.model.errors import ProtocolError
from millstream.storage.flush import UNFLUSHED_BATCHES_MAX, UNFLUSHED_MS_MAX
from millstream.storage.log import Log
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import NOW_MS, Here, append, batch, idempotent, made, new_log, open_logs


class Threads:
    """Workers whose jobs start when the test lets them."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = asyncio.Event()

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        self.calls += 1
        await self.gate.wait()
        return await asyncio.to_thread(function, *args)

    async def in_process(self, function: Callable[..., Any], *args: Any) -> Any:
        raise AssertionError


@pytest.fixture
def files() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_folder("/data")
    disk.sync_folder("/")
    return disk


@pytest.fixture
def log(files: MemoryFiles) -> Log:
    return new_log(files, "/data")


def test_flush_messages_asks_for_a_commit_before_the_answer(files: MemoryFiles) -> None:
    log = new_log(files, "/data", flush_messages=3)
    asked = []
    for count in (2, 1):
        append(log, batch(count))
        asked.append(log.needs_flush)
    asyncio.run(log.flush_async(Here()))
    assert [*asked, log.needs_flush] == [False, True, False]
    assert files.is_durable(log.segments.active.path)


def test_a_log_that_was_closed_unwritten_has_its_names_on_the_disk_with_its_first_commit(files: MemoryFiles) -> None:
    logs = open_logs(files, "/data")
    made(logs)
    logs.close()
    log = made(open_logs(files, "/data"))
    append(log, batch())
    asyncio.run(log.flush_async(Here()))
    assert files.is_durable(log.segments.active.path)


def test_one_commit_serves_all_who_came_before_it(log: Log) -> None:
    async def scenario() -> int:
        threads = Threads()
        append(log, batch())
        first = asyncio.create_task(log.flush_async(threads))
        await asyncio.sleep(0)
        rest = []
        for _ in range(5):
            append(log, batch())
            rest.append(asyncio.create_task(log.flush_async(threads)))
            await asyncio.sleep(0)
        threads.gate.set()
        await asyncio.gather(first, *rest)
        return threads.calls

    assert asyncio.run(scenario()) == 2
    assert log.flusher.durable_offset == 6


def test_a_commit_leaves_the_recovery_point_and_a_full_flush_moves_it(log: Log, files: MemoryFiles) -> None:
    append(log, idempotent(0, 2), epoch=3)
    asyncio.run(log.flush_async(Here()))
    assert (log.flusher.durable_offset, log.recovery_point) == (2, 0)
    log.flush()
    assert log.recovery_point == 2
    for name in ("00000000000000000000.log", "00000000000000000002.snapshot", "leader-epoch-checkpoint"):
        assert files.is_durable(f"{log.folder}/{name}"), name


def test_a_commit_covers_segments_closed_since_the_last(files: MemoryFiles) -> None:
    log = new_log(files, "/data", segment_bytes=100)
    for _ in range(4):
        append(log, batch())
    asyncio.run(log.flush_async(Here()))
    assert len(log.segments) == 4
    assert all(files.is_durable(segment.path) for segment in log.segments)


def test_appends_go_on_while_a_flush_runs(log: Log) -> None:
    async def scenario() -> None:
        threads = Threads()
        append(log, batch(2))
        flushing = asyncio.create_task(log.flusher.fill(threads))
        await asyncio.sleep(0)
        append(log, batch(3))
        threads.gate.set()
        await flushing

    asyncio.run(scenario())
    assert (log.recovery_point, log.end_offset) == (2, 5)
    assert log.unflushed_batches == 1


def test_a_cut_during_a_flush_makes_it_count_for_nothing(log: Log, files: MemoryFiles) -> None:
    async def scenario() -> None:
        threads = Threads()
        append(log, idempotent(0, 2))
        append(log, idempotent(2, 2))
        flushing = asyncio.create_task(log.flusher.fill(threads))
        await asyncio.sleep(0)
        log.truncate_to(2)
        append(log, idempotent(0, 2, producer_id=9))
        append(log, idempotent(2, 2, producer_id=9))
        threads.gate.set()
        await flushing

    asyncio.run(scenario())
    assert log.recovery_point == 0
    assert not files.exists(log.snapshots.path(4)), "it told of batches that are gone"


def test_a_failed_flush_takes_the_directory_offline(log: Log, files: MemoryFiles) -> None:
    append(log, batch())
    with files.failing("flush"), pytest.raises(ProtocolError):
        asyncio.run(log.flush_async(Here()))
    assert log.is_offline
    assert log.flusher.durable_offset == 0


def test_a_disk_that_failed_once_is_not_believed_again(log: Log, files: MemoryFiles) -> None:
    async def scenario() -> list[BaseException | None]:
        threads = Threads()
        append(log, batch())
        files.fail("flush", times=1)
        waiting = [asyncio.create_task(log.flush_async(threads)) for _ in range(3)]
        await asyncio.sleep(0)
        threads.gate.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert all(isinstance(outcome, ProtocolError) for outcome in asyncio.run(scenario()))


def test_whoever_waits_for_a_log_that_is_deleted_is_let_go(log: Log) -> None:
    async def scenario() -> None:
        threads = Threads()
        append(log, batch())
        waiting = asyncio.create_task(log.flush_async(threads))
        await asyncio.sleep(0)
        log.delete()
        threads.gate.set()
        await waiting

    asyncio.run(scenario())


def test_a_waiter_that_gives_up_leaves_the_others_waiting(log: Log) -> None:
    async def scenario() -> None:
        threads = Threads()
        append(log, batch())
        first = asyncio.create_task(log.flush_async(threads))
        await asyncio.sleep(0)
        second = asyncio.create_task(log.flush_async(threads))
        await asyncio.sleep(0)
        second.cancel()
        threads.gate.set()
        await first

    asyncio.run(scenario())
    assert log.flusher.durable_offset == 1


def test_a_deleted_log_ends_its_flush_quietly(log: Log) -> None:
    async def scenario() -> None:
        threads = Threads()
        append(log, batch())
        flushing = asyncio.create_task(log.flusher.fill(threads))
        await asyncio.sleep(0)
        log.delete()
        threads.gate.set()
        await flushing

    asyncio.run(scenario())
    assert not log.is_offline


def test_what_waits_unflushed_is_bounded(log: Log) -> None:
    append(log, batch())
    assert not log.flusher.is_due(NOW_MS)
    assert log.flusher.is_due(NOW_MS + UNFLUSHED_MS_MAX)
    log.unflushed_batches = UNFLUSHED_BATCHES_MAX
    assert log.flusher.is_due(NOW_MS)
    log.flush()
    assert not log.flusher.is_due(NOW_MS + UNFLUSHED_MS_MAX)


def test_flush_ms_asks_earlier(files: MemoryFiles) -> None:
    log = new_log(files, "/data", flush_ms=10)
    append(log, batch())
    assert not log.flusher.is_due(NOW_MS + 9)
    assert log.flusher.is_due(NOW_MS + 10)


def test_a_closed_segment_is_flushed_soon(log: Log) -> None:
    append(log, batch())
    log.roll(NOW_MS)
    assert log.flusher.is_due(NOW_MS)
    log.flush()
    assert log.segments[0].file is None, "its descriptor is given back"


def test_only_snapshots_of_segments_and_the_newest_stay(log: Log) -> None:
    for _ in range(3):
        append(log, batch())
        log.flush()
    assert log.snapshots.offsets == [3]
    log.roll(NOW_MS)
    append(log, batch())
    log.flush()
    append(log, batch())
    log.flush()
    assert log.snapshots.offsets == [3, 5]


def test_a_snapshot_taken_at_a_roll_is_on_disk_once_the_recovery_point_counts_on_it(
    log: Log, files: MemoryFiles
) -> None:
    append(log, idempotent(0))
    log.roll(NOW_MS)
    log.flush()
    path = log.snapshots.path(log.recovery_point)
    before = files.read(path)
    for _ in range(8):
        files.crash()
        assert files.read(path) == before


def test_flushing_and_appending_in_real_threads_lose_nothing(log: Log) -> None:
    async def scenario() -> None:
        threads = Threads()
        threads.gate.set()
        main = threading.get_ident()
        for _ in range(50):
            append(log, batch())
            await log.flush_async(threads)
            assert threading.get_ident() == main

    asyncio.run(scenario())
    assert log.flusher.durable_offset == 50


def test_indexes_of_a_closed_segment_reach_the_disk_though_its_batches_were_there_before(files: MemoryFiles) -> None:
    log = new_log(files, "/data", index_interval_bytes=0)
    for _ in range(3):
        append(log, batch())
    log.roll(NOW_MS)
    closed = next(iter(log.segments))
    append(log, batch())
    asyncio.run(log.flush_async(Here()))
    assert not closed.offsets.is_synced, "a commit is for batches alone"
    log.flush()
    assert all(index.is_synced for index in closed.indexes)
