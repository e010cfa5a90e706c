"""Offsets that nobody needs any more: those that have outlived their retention, and those of deleted topics.

There may be very many, so they are looked over and deleted a share at a time, with turns for others between.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from millstream.coordination.decision import NOTHING, Decision, Timer
from millstream.coordination.groups.group import ClusterTopics, Group, Groups
from millstream.coordination.groups.offsets.store import Kept, OffsetStore
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import NO_TIMESTAMP, OffsetCommitKey
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ProtocolError
from millstream.model.ids import ZERO_UUID

#: How many offsets are looked over in one turn, and how many deleted.
LOOKED_AT_ONCE: Final = 2_000
DELETED_AT_ONCE: Final = 500
PAUSE_MS: Final = 1


class ExpireOffsets(NamedTuple):
    """An event: it is time for the next share of a round, or for a round."""


class ForgetTopics(NamedTuple):
    """An event: what is left to delete of topics that are gone."""

    topics: frozenset[str]


class OffsetExpiry:
    """Decides which offsets go; they go when the tombstones are replayed."""

    def __init__(
        self, store: OffsetStore, groups: Groups, settings: Callable[[], GroupSettings], topics: ClusterTopics
    ) -> None:
        self._store = store
        self._groups = groups
        self._settings = settings
        self._topics = topics
        #: The groups still to be looked at in this round.
        self._left: list[str] = []

    def next_round(self) -> Timer:
        return Timer("expire-offsets", self._settings().offsets_retention_check_interval_ms, ExpireOffsets())

    def expire(self, now_ms: int) -> Decision:
        """Delete what has expired in the next few groups, and groups that thereby have nothing left."""
        if not self._left:
            self._left = list(self._groups)
        records: list[CoordinatorRecord] = []
        looked_at = 0
        while self._left and looked_at < LOOKED_AT_ONCE and len(records) < DELETED_AT_ONCE:
            group_id = self._left[-1]
            group = self._groups.get(group_id)
            looked_at += 1 if group is None else self._expire_group(group, now_ms, records)
            if len(records) < DELETED_AT_ONCE:
                self._left.pop()  # Else there may be more of it.
        timer = Timer("expire-offsets", PAUSE_MS, ExpireOffsets()) if self._left else self.next_round()
        return Decision(records=records, timers=(timer,), is_pure=True, is_divisible=True)

    def forget(self, names: frozenset[str]) -> Decision:
        """Delete the offsets of those topics that are no longer there."""
        views = {name: self._topics.by_name(name) for name in names}
        gone = {name: None if view is None else view.topic_id for name, view in views.items()}
        keys = (
            OffsetCommitKey(group_id, *place) for group_id in self._groups for place in self._of_topics(group_id, gone)
        )
        records = [CoordinatorRecord(key, None) for key in islice(keys, DELETED_AT_ONCE)]
        if not records:
            return NOTHING
        again = [Timer(("forget", names), PAUSE_MS, ForgetTopics(names))] if len(records) == DELETED_AT_ONCE else []
        return Decision(records=records, timers=again, is_pure=True, is_divisible=True)

    def _of_topics(self, group_id: str, ids: dict[str, bytes | None]) -> Iterator[tuple[str, int]]:
        """Offsets of these topics that were not committed to the one which has the name now (None: none has)."""
        if not self._store.has_pending(group_id):
            held = self._store.of_group(group_id)
            if not any(name in held for name in ids):
                return
        for topic, partition in self._store.places(group_id):
            if topic not in ids:
                continue
            kept = self._store.get(group_id, topic, partition)
            current_id, own_id = ids[topic], ZERO_UUID if kept is None else kept[5]
            if current_id is None or own_id not in (ZERO_UUID, current_id):
                yield topic, partition

    def _expire_group(self, group: Group, now_ms: int, records: list[CoordinatorRecord]) -> int:
        """Add the tombstones of one group; how many offsets were looked at."""
        looked_at, group_id = 1, group.group_id
        is_empty = not self._store.has_pending(group_id)
        retention_ms = self._settings().offsets_retention_ms
        for topic, by_partition in self._store.of_group(group_id).items():
            looked_at += len(by_partition)
            if group.is_subscribed(topic):
                is_empty = False
                continue
            for partition, kept in by_partition.items():
                if len(records) >= DELETED_AT_ONCE:
                    return looked_at
                if _is_expired(group, kept, now_ms, retention_ms) and not self._store.is_pending(
                    group_id, topic, partition
                ):
                    records.append(CoordinatorRecord(OffsetCommitKey(group_id, topic, partition), None))
                else:
                    is_empty = False
        if is_empty and _is_without_members(group):
            records += group.tombstones()
        return looked_at


def _is_expired(group: Group, kept: Kept, now_ms: int, retention_ms: int) -> bool:
    committed_ms, expire_ms = kept[3], kept[4]
    unused_since_ms = group.offsets_expire_from(committed_ms)
    if unused_since_ms is None:
        return False
    if expire_ms != NO_TIMESTAMP:
        return now_ms >= expire_ms
    return now_ms - unused_since_ms >= retention_ms


def _is_without_members(group: Group) -> bool:
    try:
        group.check_delete()
    except ProtocolError:
        return False
    return True
