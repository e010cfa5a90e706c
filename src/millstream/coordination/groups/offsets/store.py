"""The offsets of a shard's groups: those that hold, and those of transactions that have not ended yet.

There may be a million of them, so each is a plain tuple of plain values, which the garbage collector soon leaves
alone, and is found through dicts by group, topic and partition.
"""

from collections.abc import Iterator

from millstream.model.ids import Uuid

#: Offset, leader epoch (-1: none), metadata, when it was committed, when it expires (-1: as the broker keeps it), and
#: its topic's id (zero: not told).
Kept = tuple[int, int, str, int, int, Uuid]
Place = tuple[str, int]

_NOTHING: dict[str, dict[int, Kept]] = {}


class OffsetStore:
    """Changed by replay alone, which comes in the log's order: whatever is put later was written later."""

    __slots__ = ("_committed", "_groups_of", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, dict[int, Kept]]] = {}
        #: By group and partition, what each producer's open transaction would make of it, oldest first.  None: a commit
        #: after it has overtaken it, but the transaction is still open.
        self._pending: dict[str, dict[Place, dict[int, Kept | None]]] = {}
        #: The groups that a producer's open transaction touches.
        self._groups_of: dict[int, set[str]] = {}

    # Reading.

    def of_group(self, group_id: str) -> dict[str, dict[int, Kept]]:
        """What holds, by topic and partition; not to be changed."""
        return self._committed.get(group_id, _NOTHING)

    def get(self, group_id: str, topic: str, partition: int) -> Kept | None:
        """What holds for a partition, if anything does."""
        by_topic = self._committed.get(group_id)
        by_partition = None if by_topic is None else by_topic.get(topic)
        return None if by_partition is None else by_partition.get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may yet change it."""
        pending = self._pending.get(group_id)
        return pending is not None and (topic, partition) in pending

    def has_pending(self, group_id: str) -> bool:
        """Whether an open transaction touches the group at all."""
        return group_id in self._pending

    def has_any(self, group_id: str) -> bool:
        """Whether anything is known of the group, pending or not."""
        return group_id in self._committed or group_id in self._pending

    def places(self, group_id: str) -> Iterator[Place]:
        """Every partition of which there is anything to delete, pending ones included, each once."""
        committed = self.of_group(group_id)
        for topic, by_partition in committed.items():
            for partition in by_partition:
                yield topic, partition
        for topic, partition in self._pending.get(group_id, ()):
            if partition not in committed.get(topic, ()):
                yield topic, partition

    # Replay.

    def put(self, group_id: str, topic: str, partition: int, kept: Kept) -> None:
        """It holds from now on; what is pending for the partition was written before, and will not overwrite it."""
        try:
            self._committed[group_id][topic][partition] = kept
        except KeyError:
            self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = kept
        if self._pending:
            pending = self._pending.get(group_id, {}).get((topic, partition), {})
            for producer_id in pending:
                pending[producer_id] = None

    def put_pending(self, group_id: str, topic: str, partition: int, kept: Kept, producer_id: int) -> None:
        """It will hold if the producer's transaction commits."""
        pending = self._pending.setdefault(group_id, {}).setdefault((topic, partition), {})
        pending.pop(producer_id, None)  # It goes to the end: it is the newest now.
        pending[producer_id] = kept
        self._groups_of.setdefault(producer_id, set()).add(group_id)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """The producer's transaction has ended: what it left pending holds now, or is gone."""
        for group_id in self._groups_of.pop(producer_id, ()):
            by_place = self._pending.get(group_id, {})
            for place in [place for place, pending in by_place.items() if producer_id in pending]:
                self._end_at(group_id, place, producer_id, is_commit)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forget what holds for a partition, and what is pending."""
        by_topic = self._committed.get(group_id)
        by_partition = None if by_topic is None else by_topic.get(topic)
        if by_topic is not None and by_partition is not None:
            by_partition.pop(partition, None)
            if not by_partition:
                del by_topic[topic]
                if not by_topic:
                    del self._committed[group_id]
        self._forget_pending(group_id, (topic, partition))

    def _end_at(self, group_id: str, place: Place, producer_id: int, is_commit: bool) -> None:
        pending = self._pending[group_id][place]
        kept = pending[producer_id]
        if is_commit and kept is not None:
            topic, partition = place
            self._committed.setdefault(group_id, {}).setdefault(topic, {})[partition] = kept
            for older in pending:
                if older == producer_id:
                    break
                pending[older] = None
        del pending[producer_id]
        if not pending:
            self._forget_pending(group_id, place)

    def _forget_pending(self, group_id: str, place: Place) -> None:
        by_place = self._pending.get(group_id)
        if by_place is not None and by_place.pop(place, None) is not None and not by_place:
            del self._pending[group_id]
