"""Sparse indexes: what floor finds, what reaches the file, what is left after damage."""

import random
from bisect import bisect_right
from pathlib import Path

import pytest

from millstream.storage.files import OsFiles
from millstream.storage.index import OffsetIndex, TimeIndex
from millstream.storage.open_files import OpenFiles


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    return OffsetIndex(OpenFiles(OsFiles()), str(tmp_path / "00000000000000000000.index"))


def fill(index: OffsetIndex, count: int, *, step: int = 10) -> None:
    for at in range(1, count + 1):
        index.append(at * step, at * 4096)


def test_an_empty_index_has_no_floor(index: OffsetIndex) -> None:
    assert index.floor(5) is None
    assert index.last is None


def test_floor_is_the_last_entry_not_above_the_key(index: OffsetIndex) -> None:
    fill(index, 3)
    assert index.floor(9) is None
    assert index.floor(10) == (10, 4096)
    assert index.floor(29) == (20, 8192)
    assert index.floor(1_000) == (30, 12288)


@pytest.mark.parametrize("filed", [0, 1, 700, 5_000])
def test_floor_is_the_same_wherever_the_entries_lie(index: OffsetIndex, filed: int) -> None:
    """In memory, in the file, or in both; keys far from even, so that guesses by proportion miss."""
    rng = random.Random(filed)
    keys: list[int] = sorted({int(2 ** rng.uniform(0, 30)) for _ in range(5_000)})
    for at, key in enumerate(keys):
        if at == filed:
            index.flush()
        index.append(key, at)
    for key in [0, *keys[::37], keys[-1] + 1, *(rng.randrange(2**30) for _ in range(300))]:
        at = bisect_right(keys, key)
        assert index.floor(key) == ((keys[at - 1], at - 1) if at else None)


def test_entries_reach_the_file_in_kafka_s_format_and_nothing_more(index: OffsetIndex) -> None:
    index.append(31, 4185)
    index.flush()
    index.append(61, 8370)
    index.flush()
    assert Path(index.path).read_bytes().hex() == "0000001f00001059" + "0000003d000020b2"


def test_a_time_entry_is_twelve_bytes_and_only_grows(tmp_path: Path) -> None:
    times = TimeIndex(OpenFiles(OsFiles()), str(tmp_path / "x.timeindex"))
    times.extend_to(1_000, 3)
    times.extend_to(1_000, 5)
    times.extend_to(-1, 6)
    times.extend_to(1_001, 7)
    times.flush()
    assert Path(times.path).stat().st_size == 24
    assert times.last == (1_001, 7)


def test_a_loaded_file_gives_the_same_answers(index: OffsetIndex) -> None:
    fill(index, 2_000)
    index.flush()
    again = OffsetIndex(OpenFiles(OsFiles()), index.path)
    again.load()
    assert (len(again), again.last) == (2_000, (20_000, 2_000 * 4096))
    assert again.floor(10_005) == (10_000, 1_000 * 4096)


@pytest.mark.parametrize("entries", [0, 1, 5, 600])
def test_preallocated_zeros_are_not_entries(index: OffsetIndex, entries: int) -> None:
    """Apache Kafka leaves ten megabytes of them behind when it is killed."""
    fill(index, entries)
    index.flush()
    with open(index.path, "ab") as file:
        file.write(bytes(10 * 1024 * 1024 - entries * 8))
    index.load()
    assert len(index) == entries
    index.append(100_000, 99)
    index.flush()
    assert Path(index.path).stat().st_size == (entries + 1) * 8


def test_half_an_entry_at_the_end_is_dropped(index: OffsetIndex) -> None:
    fill(index, 3)
    index.flush()
    with open(index.path, "ab") as file:
        file.write(b"\x7f\x7f\x7f")
    index.load()
    assert index.last == (30, 12288)


def test_keep_cuts_entries_in_memory_and_in_the_file(index: OffsetIndex) -> None:
    fill(index, 3)
    index.flush()
    index.append(40, 5)
    index.keep(4)
    assert index.last == (40, 5)
    index.keep(3)
    assert index.last == (30, 12288)
    index.keep(1)
    assert index.last == (10, 4096)
    assert Path(index.path).stat().st_size == 8


def test_rank_counts_entries_below_a_bound(index: OffsetIndex) -> None:
    fill(index, 5)
    assert [index.rank(bound) for bound in (0, 10, 11, 50, 51)] == [0, 0, 1, 4, 5]
    assert index.rank(8193, by_value=True) == 2


@pytest.mark.parametrize("garbage", [bytes(16), b"\xff" * 16, b"\x00\x00\x00\x05\x00\x00\x00\x05"])
def test_trust_keeps_what_grows_up_to_the_bound(index: OffsetIndex, garbage: bytes) -> None:
    fill(index, 10)
    index.flush()
    with open(index.path, "ab") as file:
        file.write(garbage)
    index.trust(1_000)
    assert len(index) == 10
    index.trust(50)
    assert index.last == (40, 4 * 4096)
    assert Path(index.path).stat().st_size == 4 * 8


def test_trusting_a_missing_file_gives_an_empty_index(index: OffsetIndex) -> None:
    index.trust(100)
    assert len(index) == 0
    assert index.last is None
