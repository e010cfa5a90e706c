"""Which aborted transactions a reader of committed records is told of, whatever became of the log meanwhile."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.model.batch import HEADER_BYTES, BatchHeader, header_at
from millstream.model.records import ABORT, COMMIT, encode_marker
from millstream.storage.aborted_index import AbortedTransaction, decode_entries
from millstream.storage.files import OsFiles
from millstream.storage.log import Log
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    NOW_MS,
    TP,
    SetClock,
    append,
    append_marker,
    batch,
    headers_of,
    made,
    new_log,
    open_logs,
)

#: A segment holds about two batches.
SMALL: dict[str, Any] = {"segment_bytes": 300, "index_interval_bytes": 1}


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles(random.Random(0), SetClock())


@pytest.fixture
def log(files: MemoryFiles) -> Log:
    return new_log(files, "/data", **SMALL)


def write(log: Log, producer_id: int, sequence: int = 0, count: int = 1) -> int:
    """A batch in the producer's transaction; its first offset."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
    return append(log, batch(count, value=bytes(100), **fields)).first_offset


def end(log: Log, producer_id: int, kind: int = ABORT) -> int:
    return append_marker(
        log, encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)
    ).first_offset


def aborted(log: Log, offset: int, bytes_max: int = 1 << 20) -> list[tuple[int, int]]:
    piece = log.read(offset, bytes_max, log.end_offset)
    assert piece is not None
    found = log.aborted_within(piece, offset, log.end_offset)
    return [(each.producer_id, each.first_offset) for each in found]


def entries(log: Log) -> list[AbortedTransaction]:
    return [entry for segment in log.segments for entry in segment.aborted or ()]


def test_an_abort_is_told_of_wherever_its_transaction_is_read(log: Log) -> None:
    write(log, 1)
    write(log, 2)
    append(log, batch(value=bytes(100)))
    assert end(log, 1) == 3
    end(log, 2, COMMIT)
    append(log, batch(value=bytes(100)))
    assert len(log.segments) > 2
    assert entries(log) == [AbortedTransaction(1, 0, 3, 1)]
    assert [aborted(log, offset) for offset in range(6)] == [[(1, 0)]] * 4 + [[]] * 2


def test_only_what_the_answer_holds_is_told_of(log: Log) -> None:
    for producer_id in range(20):
        write(log, producer_id)
        end(log, producer_id)
    for offset in range(0, 40, 2):
        found = aborted(log, offset, bytes_max=1)
        assert (offset // 2, offset) in found
        assert len(found) <= 2


def test_a_log_without_transactions_knows_of_none(log: Log) -> None:
    append(log, batch())
    assert aborted(log, 0) == []
    assert not log.directory.files.exists(f"{log.folder}/{0:020d}.txnindex")


def test_an_old_transaction_among_many_is_found(log: Log) -> None:
    write(log, 99)
    for producer_id in range(5):
        write(log, producer_id)
        end(log, producer_id)
    end(log, 99)
    stables = [entry.last_stable_offset for entry in entries(log)]
    assert stables == [0] * 5 + [log.end_offset]
    assert aborted(log, 0, bytes_max=1) == [(99, 0)]
    assert aborted(log, 1, bytes_max=1) == [(0, 1), (99, 0)]
    assert aborted(log, 10, bytes_max=1) == [(4, 9), (99, 0)]


def test_a_cut_takes_the_abort_with_its_marker(log: Log) -> None:
    write(log, 1)
    end(log, 1)
    write(log, 2)
    marker = end(log, 2)
    append(log, batch(value=bytes(100)))
    log.truncate_to(marker)
    assert entries(log) == [AbortedTransaction(1, 0, 1, 2)]
    assert log.producers.first_unstable_offset(log.end_offset) == 2
    assert end(log, 2) == marker
    assert entries(log) == [AbortedTransaction(1, 0, 1, 2), AbortedTransaction(2, 2, 3, 4)]


def test_a_cut_leaves_the_aborts_of_segments_before(log: Log) -> None:
    write(log, 1)
    end(log, 1)
    log.roll(NOW_MS)
    write(log, 2)
    log.truncate_to(end(log, 2))
    assert [len(segment.aborted or ()) for segment in log.segments] == [1, 0]
    assert aborted(log, 0, bytes_max=1) == [(1, 0)]


def test_segments_take_their_aborts_with_them(files: MemoryFiles) -> None:
    log = new_log(files, "/data", **SMALL, file_delete_delay_ms=0)
    for producer_id in range(6):
        write(log, producer_id)
        end(log, producer_id)
    log.flush()
    log.advance_start(7)
    log.enforce_retention(NOW_MS, log.end_offset)
    assert log.segments[0].base_offset > 0
    assert all(entry.last_offset >= log.segments[0].base_offset for entry in entries(log))
    assert aborted(log, 7)[0] == (3, 6)
    kept = {f"{segment.base_offset:020d}.txnindex" for segment in log.segments if segment.aborted}
    names = {name for name in files.list(log.folder) if name.endswith(".txnindex")}
    assert names == kept


@pytest.mark.parametrize("how", ["close", "kill", "flush and kill", "crash"])
def test_aborts_survive_a_restart(files: MemoryFiles, how: str) -> None:
    logs = open_logs(files, "/data", **SMALL)
    log = made(logs, **SMALL)
    write(log, 1)
    write(log, 2)
    end(log, 1)
    if how == "flush and kill":
        logs.checkpoint({})
        log.flush()
    write(log, 3)
    end(log, 2)
    before = entries(log)
    assert len(before) == 2
    if how == "close":
        logs.close()
    elif how == "crash":
        log.flush()
        logs.checkpoint({})
        files.crash()
    else:
        files.kill()
    again = open_logs(files, "/data", **SMALL).get(TP)
    assert again is not None
    assert entries(again) == before
    assert again.producers.first_unstable_offset(again.end_offset) == 3
    assert aborted(again, 0)[0] == (1, 0)


@pytest.mark.parametrize("damage", ["cut", "overwrite"])
@pytest.mark.parametrize("is_active", [True, False])
def test_a_damaged_index_is_made_anew_from_the_log(tmp_path: Path, damage: str, is_active: bool) -> None:
    logs = open_logs(OsFiles(), str(tmp_path), **SMALL)
    log = made(logs, **SMALL)
    write(log, 1)
    for producer_id in range(2, 6):
        write(log, producer_id)
        end(log, producer_id)
    end(log, 1)
    if is_active and not log.segments.active.aborted:
        write(log, 8)
        end(log, 8)
    before, folder = entries(log), Path(log.folder)
    logs.close()
    path = sorted(folder.glob("*.txnindex"))[-1 if is_active else 0]
    data = path.read_bytes()
    path.write_bytes(data[:-3] if damage == "cut" else b"\1" * len(data))
    again = open_logs(OsFiles(), str(tmp_path), **SMALL).get(TP)
    assert again is not None
    aborted(again, 0)
    assert entries(again) == before
    assert path.read_bytes() == data
    assert decode_entries(data)


def test_reading_committed_records_by_the_list_shows_no_aborted_one(log: Log) -> None:
    """As a consumer does it: a producer's records are skipped from a transaction's start to its marker."""
    rng = random.Random(3)
    undecided: dict[int, list[int]] = {producer_id: [] for producer_id in range(5)}
    sequences = dict.fromkeys(undecided, 0)
    committed: set[int] = set()
    for _ in range(300):
        producer_id = rng.randrange(5)
        if undecided[producer_id] and rng.random() < 0.4:
            kind = rng.choice((ABORT, COMMIT))
            end(log, producer_id, kind)
            if kind == COMMIT:
                committed.update(undecided[producer_id])
            undecided[producer_id].clear()
        else:
            undecided[producer_id].append(write(log, producer_id, sequences[producer_id]))
            sequences[producer_id] += 1
    upper = min(offset for offsets in undecided.values() for offset in offsets)
    offset, shown = 0, set()
    while (piece := log.read(offset, 400, upper)) is not None:
        told = sorted((each.first_offset, each.producer_id) for each in log.aborted_within(piece, offset, upper))
        whole = headers_of(b"".join(_whole(piece.read())))
        shown |= _shown(whole, told)
        offset = whole[-1].next_offset
    assert shown == {each for each in committed if each < upper}
    assert len(shown) > 30


def _shown(batches: list[BatchHeader], told: list[tuple[int, int]]) -> set[int]:
    skipping: set[int] = set()
    shown: set[int] = set()
    for header in batches:
        while told and told[0][0] <= header.last_offset:
            skipping.add(told.pop(0)[1])
        if header.is_control:
            skipping.discard(header.producer_id)
        elif header.producer_id not in skipping:
            shown.add(header.base_offset)
    return shown


def _whole(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + HEADER_BYTES <= len(data) and at + header_at(data, at).size <= len(data):
        size = header_at(data, at).size
        yield data[at : at + size]
        at += size
