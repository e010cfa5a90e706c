"""Which partition each row goes to: the one its key hashes to, as Kafka's own producers do, a column at a time."""

import numpy as np
import numpy.typing as npt

from millstream.client.partitioner import murmur2

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
#: Keys are hashed four bytes at a time, all rows at once; the few that are longer than this, one by one.
_COLUMN_BYTES_MAX = 256


def murmur2_of(data: Bytes, starts: Ints, lengths: Ints) -> npt.NDArray[np.uint32]:
    """The hash of each key, which lies in ``data`` from its start on."""
    hashed = _SEED ^ lengths.astype(np.uint32)
    is_long = lengths > _COLUMN_BYTES_MAX
    whole = np.where(is_long, 0, lengths & ~3)
    for at in range(0, int(whole.max(initial=0)), 4):
        rows = np.flatnonzero(whole > at)
        part = _little_endian(data, starts[rows] + at, 4) * _MULTIPLIER
        part = (part ^ part >> np.uint32(24)) * _MULTIPLIER
        hashed[rows] = hashed[rows] * _MULTIPLIER ^ part
    left = np.where(is_long, 0, lengths & 3)
    for count in (1, 2, 3):
        rows = np.flatnonzero(left == count)
        hashed[rows] = (hashed[rows] ^ _little_endian(data, starts[rows] + whole[rows], count)) * _MULTIPLIER
    hashed = (hashed ^ hashed >> np.uint32(13)) * _MULTIPLIER
    hashed ^= hashed >> np.uint32(15)
    for row in np.flatnonzero(is_long):
        hashed[row] = murmur2(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return hashed


def partitions_of(data: Bytes, starts: Ints, lengths: Ints, count: int) -> Ints:
    """The partition, among ``count``, of each key."""
    return (murmur2_of(data, starts, lengths) & np.uint32(0x7FFFFFFF)).astype(np.int64) % count


def _little_endian(data: Bytes, at: Ints, count: int) -> npt.NDArray[np.uint32]:
    """The number in the ``count`` bytes at each place."""
    number = data[at].astype(np.uint32)
    for shift in range(1, count):
        number |= data[at + shift].astype(np.uint32) << np.uint32(8 * shift)
    return number
