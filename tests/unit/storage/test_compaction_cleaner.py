"""The cleaner over real logs: what it picks, puts in place and writes down, and what it survives."""

import asyncio
import logging
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, Record, encode_batch, encode_marker
from millstream.storage.cleaner import Cleaner
from tests.unit.storage.cleaning import OS, Ground, content, fill, put
from tests.unit.storage.ground import NOW_MS, TP, Here, append, append_marker

GroundMaker = Callable[..., Ground]


@pytest.fixture
def make_ground(tmp_path: Path) -> Iterator[GroundMaker]:
    """Grounds that are closed when the test ends."""
    grounds: list[Ground] = []

    def make(settings: dict[str, str] | None = None, **changes: Any) -> Ground:
        grounds.append(Ground(tmp_path, settings, **changes))
        return grounds[-1]

    yield make
    for ground in grounds:
        ground.logs.close()


@pytest.fixture
def ground(make_ground: GroundMaker) -> Ground:
    return make_ground()


def test_a_dirty_log_is_compacted_and_what_it_holds_is_the_same_for_readers(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    latest = {key: value for _, key, value in content(log)}
    end_offset, size = log.end_offset, log.size_bytes
    assert ground.clean() == 1
    assert log.size_bytes < size / 3
    assert log.end_offset == end_offset
    assert {key: value for _, key, value in content(log)} == latest
    assert ground.clean() == 0


def test_readers_hold_on_to_what_they_are_reading(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    piece = log.read(0, 500, log.end_offset)
    assert piece is not None
    before = piece.read()
    ground.clean()
    assert piece.read() == before


def test_a_half_done_swap_is_finished_at_open(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    before = {key: value for _, key, value in content(log)}

    def stop() -> None:
        """The machine goes down once the cleaned log has its .swap name."""
        for name in sorted(OS.list(log.folder), key=lambda name: name.endswith(".log.cleaned")):
            if name.endswith(".cleaned"):
                OS.rename(f"{log.folder}/{name}", f"{log.folder}/{name.removesuffix('.cleaned')}.swap")
        raise SystemExit

    ground.workers.meanwhile = stop
    with pytest.raises(SystemExit):
        ground.clean()
    ground.logs.close()
    ground.open()
    log = ground.log()
    assert {key: value for _, key, value in content(log)} == before
    assert not [name for name in OS.list(log.folder) if name.endswith((".cleaned", ".swap"))]


def test_only_logs_with_the_policy_are_compacted(make_ground: GroundMaker) -> None:
    ground = make_ground(cleanup_compact=False, cleanup_delete=True)
    fill(ground.log())
    assert ground.clean() == 0


def test_nothing_happens_while_the_cleaner_is_switched_off(make_ground: GroundMaker) -> None:
    ground = make_ground({"log.cleaner.enable": "false"})
    fill(ground.log())
    assert ground.clean() == 0


def test_what_is_not_on_disk_yet_supersedes_nothing(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    before = content(log)
    assert asyncio.run(ground.cleaner.clean()) == 0
    assert content(log) == before


def test_the_dirtiest_log_comes_first(ground: Ground) -> None:
    fill(ground.log(0), rounds=40)
    ground.clean()
    fill(ground.log(0), rounds=40)
    fill(ground.log(1), rounds=40)
    ground.clean()
    assert [job.folder[-2:] for job in ground.workers.jobs] == ["-0", "-1", "-0"]


def test_a_log_that_cannot_be_compacted_is_reported_once_and_the_others_go_on(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    fill(ground.log(0))
    fill(ground.log(1))
    segment = ground.log(0).segments[0]
    for log in ground.logs:
        log.flush()
    data = bytearray(Path(segment.path).read_bytes())
    data[200] ^= 0xFF
    Path(segment.path).write_bytes(data)
    size = ground.log(0).size_bytes
    with caplog.at_level(logging.ERROR):
        ground.clean()
        ground.clean()
    assert len(caplog.records) == 1
    assert "orders-0" in caplog.text
    assert list(ground.cleaner.uncleanable) == [TopicPartition("orders", 0)]
    assert ground.log(0).size_bytes == size
    assert len(content(ground.log(1))) < 40


def test_a_full_disk_is_tried_again_later(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    fill(ground.log())

    def full() -> None:
        raise OSError(28, "No space left on device")

    ground.workers.meanwhile = full
    ground.clean()
    assert ground.cleaner.uncleanable == {}
    assert "No space left" in caplog.text
    ground.workers.meanwhile = lambda: None
    assert ground.clean() == 1


def test_a_log_removed_meanwhile_is_let_go(ground: Ground) -> None:
    fill(ground.log(0))
    fill(ground.log(1))
    ground.workers.meanwhile = lambda: ground.logs.delete(TP)
    ground.clean()
    assert ground.logs.get(TP) is None
    assert ground.cleaner.uncleanable == {}
    assert len(content(ground.log(1))) < 40


def test_a_log_cut_meanwhile_keeps_what_the_cut_left(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    cut_at = log.segments[2].base_offset + 1

    def cut() -> None:
        log.truncate_to(cut_at)

    ground.workers.meanwhile = cut
    ground.clean()
    assert log.end_offset <= cut_at
    assert [offset for offset, _, _ in content(log)] == list(range(log.end_offset))
    assert not [name for name in OS.list(log.folder) if name.endswith(".cleaned")]


def test_segments_that_retention_took_meanwhile_do_not_come_back(ground: Ground) -> None:
    log = ground.log()
    log.config = replace(log.config, segment_bytes=400)
    fill(log)
    put_in_front = log.segments[3].base_offset

    def retain() -> None:
        log.advance_start(put_in_front)
        log.enforce_retention(ground.clock.ms, log.end_offset)

    ground.workers.meanwhile = retain
    latest = {key: value for _, key, value in content(log)}
    ground.clean()
    assert log.start_offset == put_in_front
    assert log.segments[0].base_offset >= put_in_front - 10
    assert {key: value for _, key, value in content(log)} == latest
    assert not [name for name in OS.list(log.folder) if name.endswith(".cleaned")]


def test_tombstones_go_after_their_time_once_there_is_new_dirt(ground: Ground) -> None:
    log = ground.log()
    put(log, ("gone", "1"), ("kept", "1"))
    put(log, ("gone", None))
    fill(log)
    ground.clean()
    assert [(key, value) for _, key, value in content(log)][:2] == [(b"kept", b"1"), (b"gone", None)]
    ground.clock.ms += 1_001
    fill(log, rounds=80)
    ground.clean()
    assert b"gone" not in [key for _, key, _ in content(log)]


def test_a_duplicate_is_recognised_after_its_batch_was_compacted_away(ground: Ground) -> None:
    log = ground.log()
    mine = encode_batch([Record(0, NOW_MS, b"key-0", b"x")], producer_id=9, producer_epoch=0, base_sequence=0)
    first = append(log, bytearray(mine))
    fill(log)
    ground.clean()
    assert first.first_offset not in [offset for offset, _, _ in content(log)]
    ground.logs.close()
    for path in Path(log.folder).glob("*.snapshot"):
        path.unlink()
    Path(ground.path, ".kafka_cleanshutdown").unlink()
    Path(ground.path, "recovery-point-offset-checkpoint").unlink()
    ground.open()
    again = append(ground.log(), bytearray(mine))
    assert (again.is_duplicate, again.first_offset) == (True, first.first_offset)


def test_aborted_records_are_gone_for_every_reader(ground: Ground) -> None:
    log = ground.log()
    fields = {"producer_id": 4, "producer_epoch": 0, "transactional": True}
    put(log, ("secret", "aborted"), base_sequence=0, **fields)
    append_marker(log, encode_marker(ABORT, producer_id=4, producer_epoch=0, timestamp=NOW_MS))
    fill(log)
    ground.clean()
    assert b"secret" not in [key for _, key, _ in content(log)]


def test_an_aborted_transaction_leaves_the_index_a_pass_after_its_data(ground: Ground) -> None:
    """Its own marker, of which no data is left, goes on for its time."""

    def known() -> list[int]:
        return [entry.producer_id for segment in ground.log().segments for entry in segment.aborted or ()]

    log = ground.log()
    put(log, ("secret", "aborted"), base_sequence=0, producer_id=4, producer_epoch=0, transactional=True)
    append_marker(log, encode_marker(ABORT, producer_id=4, producer_epoch=1, timestamp=NOW_MS))
    fill(log)
    assert known() == [4]
    ground.clean()
    assert b"secret" not in [key for _, key, _ in content(log)]
    assert known() == [4], "whoever reads the old segment still must know"
    ground.reopen()
    assert known() == [4]
    fill(ground.log())
    ground.clean()
    assert known() == []
    assert not list(Path(log.folder).glob("*.txnindex"))
    ground.reopen()
    assert known() == []


def test_the_active_segment_is_rolled_when_its_records_waited_too_long(make_ground: GroundMaker) -> None:
    ground = make_ground(max_compaction_lag_ms=10_000, segment_bytes=1 << 20)
    log = ground.log()
    fill(log)
    assert ground.clean() == 0
    ground.clock.ms += 20_000
    assert ground.clean() == 1
    assert len(content(log)) == 5


def test_the_work_runs_in_another_process(ground: Ground) -> None:
    class OtherProcess(Here):
        async def in_process(self, function: Any, *args: Any) -> Any:
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                return await asyncio.get_running_loop().run_in_executor(pool, function, *args)

    log = ground.log()
    fill(log)
    latest = {key: value for _, key, value in content(log)}
    log.flush()
    cleaner = Cleaner(
        ground.logs, OtherProcess(), ground.clock, Random(5), lambda: ground.config, lambda partition: 1 << 60
    )
    assert asyncio.run(cleaner.clean()) == 1
    assert {key: value for _, key, value in content(log)} == latest
    assert len(content(log)) < 40
