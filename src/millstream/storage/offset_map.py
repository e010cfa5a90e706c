"""Which offset is the last for each key: what compaction knows of the records it has seen.

A key is known by sixteen bytes. One of up to fifteen bytes is its own identity, padded, with its length at the end,
so short keys never collide. A longer one is known by 120 bits of its BLAKE2b digest, with a last byte that no
length has: two keys out of 2**50 collide with a chance of about 2**-20, so collisions are not a concern.
"""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from millstream.model.columns import Columns

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

#: Sixteen bytes of identity and eight of offset.
ENTRY_BYTES = 24
IDENTITY_BYTES = 16
SHORT_KEY_BYTES_MAX = IDENTITY_BYTES - 1
#: The fuller the table, the longer the search for a free place.
LOAD_MAX = 0.75
_LONG_KEY_MARK = 0x80
_NOTHING = np.int64(-1)


def key_identities(payload: bytes, columns: Columns) -> Words:
    """The identity of each record's key, as rows of two words; a null key gets the empty key's."""
    data = np.frombuffer(payload, np.uint8)
    count = len(columns)
    lengths = np.maximum(columns.key_len, 0)
    identities = np.zeros((count, IDENTITY_BYTES), np.uint8)
    is_short = lengths <= SHORT_KEY_BYTES_MAX
    longest = int(lengths[is_short].max(initial=0))
    if longest:
        places = np.arange(longest)
        within = places < np.where(is_short, lengths, 0)[:, None]
        gathered = data.take(columns.key_start[:, None] + places, mode="clip")
        identities[:, :longest] = np.where(within, gathered, 0)
    identities[:, SHORT_KEY_BYTES_MAX] = np.where(is_short, lengths, _LONG_KEY_MARK)
    rows = np.flatnonzero(~is_short)
    if len(rows):
        starts = columns.key_start[rows]
        digests = b"".join(
            [
                blake2b(payload[start:end], digest_size=SHORT_KEY_BYTES_MAX).digest()
                for start, end in zip(starts.tolist(), (starts + lengths[rows]).tolist(), strict=True)
            ]
        )
        identities[rows, :SHORT_KEY_BYTES_MAX] = np.frombuffer(digests, np.uint8).reshape(-1, SHORT_KEY_BYTES_MAX)
    return identities.view(np.uint64)


class OffsetMap:
    """A table of fixed size with open addressing, filled and asked by arrays of keys.

    ``seed`` scatters the keys, so that nobody can choose ones that all fall into the same place.
    """

    def __init__(self, capacity: int, seed: int) -> None:
        self.capacity = max(1, capacity)
        self.size = 0
        places = int(self.capacity / LOAD_MAX) + 1
        self._places = np.uint64(places)
        # Zeros, not a value of our own: the system hands out pages only as they are written.
        self._heads = np.zeros(places, np.uint64)
        self._tails = np.zeros(places, np.uint64)
        self._next_offsets = np.zeros(places, np.int64)  # The offset plus one; 0 where nothing lies.
        rng = np.random.default_rng(seed)
        self._scatter = rng.integers(0, 1 << 64, 2, np.uint64) | np.uint64(1)

    @classmethod
    def of_bytes(cls, bytes_max: int, keys_max: int, seed: int) -> "OffsetMap":
        """As large as the memory allows, but not larger than ``keys_max`` keys can fill."""
        return cls(min(int(bytes_max / ENTRY_BYTES * LOAD_MAX), keys_max), seed)

    @property
    def room(self) -> int:
        """How many more keys are sure to fit."""
        return self.capacity - self.size

    def put(self, identities: Words, offsets: Ints) -> None:
        """Note each key's offset, which only grow: of equal keys the last wins, here and over earlier calls."""
        assert len(identities) <= self.room, "the caller asks for room first"
        places = self._first_places(identities)
        heads, tails, noted = identities[:, 0], identities[:, 1], offsets + 1
        while len(places):
            is_free = self._next_offsets[places] == 0
            free = places[is_free]
            # Several keys may claim one free place: whoever is written last has it, the others see that and go on.
            self._heads[free] = heads[is_free]
            self._tails[free] = tails[is_free]
            mine = (self._heads[places] == heads) & (self._tails[places] == tails)
            self._next_offsets[places[mine]] = noted[mine]
            is_new = mine & is_free
            self.size += int(np.count_nonzero(self._next_offsets[places[is_new]] == noted[is_new]))
            others = ~mine
            heads, tails, noted = heads[others], tails[others], noted[others]
            places = (places[others] + np.uint64(1)) % self._places

    def get(self, identities: Words) -> Ints:
        """The offset noted for each key, -1 where there is none."""
        found = np.full(len(identities), _NOTHING)
        rows = np.arange(len(identities))
        places = self._first_places(identities)
        heads, tails = identities[:, 0], identities[:, 1]
        while len(rows):
            noted = self._next_offsets[places]
            mine = (self._heads[places] == heads) & (self._tails[places] == tails)
            found[rows[mine]] = noted[mine] - 1  # A free place holds 0, and so says -1 as well.
            others = ~mine & (noted != 0)
            rows, heads, tails = rows[others], heads[others], tails[others]
            places = (places[others] + np.uint64(1)) % self._places
        return found

    def _first_places(self, identities: Words) -> Words:
        mixed = identities[:, 0] * self._scatter[0]
        mixed ^= mixed >> np.uint64(29)
        mixed += identities[:, 1] * self._scatter[1]
        mixed ^= mixed >> np.uint64(32)
        mixed *= self._scatter[0]
        mixed ^= mixed >> np.uint64(29)
        places: Words = mixed % self._places
        return places
