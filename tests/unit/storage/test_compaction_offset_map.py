"""The map of keys to their last offsets against a dictionary."""

from random import Random

import numpy as np
import pytest

from millstream.model.batch import HEADER_BYTES
from millstream.model.columns import decode_columns
from millstream.model.records import Record, encode_batch
from millstream.storage.offset_map import ENTRY_BYTES, LOAD_MAX, OffsetMap, Words, key_identities


def identities(keys: list[bytes | None]) -> Words:
    payload = bytes(encode_batch([Record(0, 0, key) for key in keys])[HEADER_BYTES:])
    return key_identities(payload, decode_columns(payload))


def offsets(count: int, first: int = 0) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.arange(first, first + count, dtype=np.int64)


def test_different_keys_have_different_identities() -> None:
    keys: list[bytes | None] = [b"\0" * length for length in range(40)]
    keys += [b"\0" * length + b"\x80" for length in range(40)]
    keys += [bytes([length]) + b"\0" * 14 for length in range(16)][1:]
    rows = {bytes(row) for row in identities(keys)}
    assert len(rows) == len(keys)


def test_equal_keys_have_equal_identities_wherever_they_lie() -> None:
    keys: list[bytes | None] = [b"pad", b"short", b"x" * 100, b"", b"x" * 100, b"", b"short"]
    rows = [bytes(row) for row in identities(keys)]
    assert (rows[1], rows[2], rows[3]) == (rows[6], rows[4], rows[5])


def test_the_map_says_what_a_dictionary_says() -> None:
    rng, found = Random(1), OffsetMap(3_000, seed=9)
    book: dict[bytes | None, int] = {}
    at = 0
    while found.room >= 500:
        keys: list[bytes | None] = [b"%0*d" % (rng.choice((4, 20)), rng.randrange(2_000)) for _ in range(500)]
        found.put(identities(keys), offsets(500, at))
        book.update({key: at + row for row, key in enumerate(keys)})
        at += 500
        assert found.size == len(book)
    asked: list[bytes | None] = [*book, b"never", b"written"]
    assert found.get(identities(asked)).tolist() == [*book.values(), -1, -1]


@pytest.mark.parametrize("seed", range(20))
def test_a_map_filled_to_the_brim_finds_everything(seed: int) -> None:
    keys: list[bytes | None] = [b"%d" % at for at in range(50)]
    found = OffsetMap(50, seed)
    found.put(identities(keys), offsets(50))
    assert found.room == 0
    assert found.get(identities(keys)).tolist() == list(range(50))
    assert found.get(identities([b"other"])).tolist() == [-1]


def test_the_map_takes_no_more_than_its_memory_and_no_more_than_it_needs() -> None:
    assert OffsetMap.of_bytes(24_000, keys_max=1 << 40, seed=1).capacity == int(24_000 / ENTRY_BYTES * LOAD_MAX)
    assert OffsetMap.of_bytes(24_000, keys_max=10, seed=1).capacity == 10
