"""The index of aborted transactions: Kafka's bytes, found by overlap, kept through cuts and crashes."""

import random
import struct

import pytest

from millstream.storage.aborted_index import (
    BLOCK,
    AbortedIndex,
    AbortedTransaction,
    DamagedIndex,
    decode_entries,
    encode_entries,
)
from millstream.storage.open_files import OpenFiles
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import SetClock

PATH = "/00000000000000000100.txnindex"
ENTRIES = [
    AbortedTransaction(7, 100, 110, 105),
    AbortedTransaction(8, 105, 120, 121),
    AbortedTransaction(9, 130, 140, 141),
]


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles(random.Random(0), SetClock())


def index(files: MemoryFiles, *entries: AbortedTransaction, is_filed: bool = False) -> AbortedIndex:
    made = AbortedIndex(OpenFiles(files), PATH, is_filed=is_filed)
    for entry in entries:
        made.append(entry)
    return made


def test_an_entry_has_34_bytes_in_kafkas_order() -> None:
    assert encode_entries(ENTRIES[:1]) == struct.pack(">hqqqq", 0, 7, 100, 110, 105)
    assert len(encode_entries(ENTRIES)) == 3 * 34
    assert decode_entries(encode_entries(ENTRIES)) == ENTRIES


def test_a_segment_without_aborts_has_no_file(files: MemoryFiles) -> None:
    index(files).flush()
    assert not files.exists(PATH)


def test_what_was_flushed_is_found_again_and_can_be_added_to(files: MemoryFiles) -> None:
    index(files, *ENTRIES[:2]).flush()
    again = index(files, is_filed=True)
    assert list(again) == ENTRIES[:2]
    again.append(ENTRIES[2])
    assert again.is_pending
    again.flush()
    assert decode_entries(files.read(PATH)) == ENTRIES


@pytest.mark.parametrize(
    ("offset", "upper", "found"),
    [
        (0, 100, []),
        (0, 101, ENTRIES[:1]),
        (110, 112, ENTRIES[:2]),
        (111, 112, ENTRIES[1:2]),
        (121, 130, []),
        (121, 131, ENTRIES[2:]),
        (0, 999, ENTRIES),
        (141, 999, []),
    ],
)
def test_transactions_are_found_that_overlap_a_range(
    files: MemoryFiles, offset: int, upper: int, found: list[AbortedTransaction]
) -> None:
    assert index(files, *ENTRIES).overlapping(offset, upper) == found


def test_many_transactions_are_found_as_by_looking_at_each(files: MemoryFiles) -> None:
    rng = random.Random(5)
    entries = []
    spans = []
    for at in range(3 * BLOCK + 17):
        last = 1_000 + 10 * at + rng.randrange(10)
        spans.append((max(0, last - rng.choice((1, 5, 20, 3_000))), last))
    for at, (first, last) in enumerate(spans):
        stable = min([last + 1, *(start for start, _ in spans[at + 1 :])])
        entries.append(AbortedTransaction(at, first, last, stable))
    found = index(files, *entries)
    for _ in range(300):
        offset = rng.randrange(900, 5_200)
        upper = offset + rng.randrange(1, 300)
        wanted = [entry for entry in entries if entry.last_offset >= offset and entry.first_offset < upper]
        assert found.overlapping(offset, upper) == wanted


def test_a_cut_removes_what_ended_after_it(files: MemoryFiles) -> None:
    kept = index(files, *ENTRIES[:2])
    kept.flush()
    kept.append(ENTRIES[2])
    kept.keep_below(140)
    assert list(kept) == ENTRIES[:2]
    kept.keep_below(120)
    assert list(kept) == ENTRIES[:1]
    assert decode_entries(files.read(PATH)) == ENTRIES[:1]
    kept.append(ENTRIES[1])
    kept.flush()
    assert decode_entries(files.read(PATH)) == ENTRIES[:2]


@pytest.mark.parametrize("tail", [b"", b"\0" * 34, b"\0" * 20, b"\xff" * 70, encode_entries(ENTRIES[:1])])
def test_after_a_crash_what_cannot_be_is_cut(files: MemoryFiles, tail: bytes) -> None:
    index(files, *ENTRIES).flush()
    file = files.open(PATH, writable=True)
    file.append(tail)
    file.close()
    kept = index(files, is_filed=True)
    kept.trust_below(140, 100)
    assert list(kept) == ENTRIES[:2]
    assert decode_entries(files.read(PATH)) == ENTRIES[:2]


@pytest.mark.parametrize(
    "data",
    [b"\0" * 33, b"\0\1" + bytes(32), encode_entries([ENTRIES[1], ENTRIES[0]]), struct.pack(">hqqqq", 0, 1, 9, 8, 9)],
)
def test_a_damaged_file_is_noticed(files: MemoryFiles, data: bytes) -> None:
    file = files.open(PATH, writable=True, create=True)
    file.append(data)
    file.close()
    with pytest.raises(DamagedIndex):
        index(files, is_filed=True).load()
