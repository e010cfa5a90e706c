"""What compaction must know of transactions: how each ended, and whether any of its data is still there.

Everything it touches lies below the last stable offset, so every transaction in it has ended, but the marker that
says how may lie further on. Before the first dirty offset only committed data is left: an earlier compaction took
the rest.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable

from millstream.model.records import ABORT

#: Producer id, offset and kind of a marker.
Marker = tuple[int, int, int]


class Transactions:
    """Fed with the batches of one pass in their order; the markers are looked for only when one is needed."""

    def __init__(self, find_markers: Callable[[], Iterable[Marker]], first_dirty_offset: int) -> None:
        self._find_markers = find_markers
        self._first_dirty_offset = first_dirty_offset
        self._markers: dict[int, tuple[list[int], list[int]]] | None = None
        self._seen: set[int] = set()

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether the transaction that a batch at ``offset`` belongs to was given up."""
        if offset < self._first_dirty_offset:
            return False
        if self._markers is None:
            self._markers = {}
            for producer, at, kind in self._find_markers():
                offsets, kinds = self._markers.setdefault(producer, ([], []))
                offsets.append(at)
                kinds.append(kind)
        offsets, kinds = self._markers.get(producer_id, ([], []))
        at = bisect_right(offsets, offset)
        return at < len(kinds) and kinds[at] == ABORT

    def see_data(self, producer_id: int) -> None:
        """A batch of the producer's current transaction is there, whatever becomes of it in this pass."""
        self._seen.add(producer_id)

    def end(self, producer_id: int) -> bool:
        """A marker is there: whether no data of its transaction is, so that it may go once its time is up."""
        had_data = producer_id in self._seen
        self._seen.discard(producer_id)
        return not had_data
