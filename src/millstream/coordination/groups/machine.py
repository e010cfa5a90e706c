"""The machine of one partition of the offsets topic: its groups and their offsets.

Glue alone: each part says in two tables which requests and events it decides, and which records it replays.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

from millstream.coordination.decision import NOTHING, Decision, Origin, Question
from millstream.coordination.groups.admin import AdminPart
from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.classic.part import ClassicPart
from millstream.coordination.groups.consumer.part import ConsumerPart
from millstream.coordination.groups.group import ClusterTopics, Groups
from millstream.coordination.groups.offsets.part import OffsetsPart
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import ConsumerGroupMetadataKey, GroupMetadataKey
from millstream.coordination.schemas.record import CoordinatorRecord

Decide = Callable[[Any, int], Decision]
Replay = Callable[[Any, Any, Origin], None]


class GroupMachine:
    """Groups of both protocols and what they have committed; see ``decision.Machine``."""

    def __init__(
        self,
        settings: Callable[[], GroupSettings],
        topics: ClusterTopics,
        new_id: Callable[[], str],
        report: Callable[[str], None],
    ) -> None:
        self.groups: Groups = {}
        self._report = report
        consumer = ConsumerPart(self.groups, settings, topics, new_id, report)
        self.offsets = OffsetsPart(self.groups, settings, topics, ClassicGroup)
        self._parts: list[Any] = [
            consumer,
            ClassicPart(self.groups, settings, new_id, report, consumer),
            self.offsets,
            AdminPart(self.groups, self.offsets, settings, topics),
        ]
        self._deciders: dict[type, list[Decide]] = {}
        self._replays: dict[type, Replay] = {}
        for part in self._parts:
            for event, decide in part.EVENTS.items():
                self._deciders.setdefault(event, []).append(decide.__get__(part))
            for key, replay in part.REPLAYS.items():
                assert key not in self._replays, f"two parts replay {key.__name__}"
                self._replays[key] = replay.__get__(part)

    def decide(self, event: Any, now_ms: int) -> Decision:
        """What the part makes of it whose business it is; an event may be that of several."""
        kind = type(event.request) if type(event) is Question else type(event)
        deciders = self._deciders[kind]
        if len(deciders) == 1:
            return deciders[0](event, now_ms)
        return _joined([decide(event, now_ms) for decide in deciders])

    def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
        """Give a record to the part that keeps what it tells; one that is nobody's is reported and skipped."""
        key, value = record
        replay = self._replays.get(type(key))
        if replay is None:
            self._report(f"the record at offset {origin.offset} is skipped: {type(key).__name__} is nobody's")
            return
        replay(key, value, origin)
        if value is None and (group_id := _group_ended(key)) is not None:
            self.offsets.take_over(group_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Transactions hold offsets alone."""
        self.offsets.replay_marker(producer_id, is_commit=is_commit)

    def stands(self, order: Any) -> bool:
        """Groups order nothing."""
        return False

    def loaded(self, now_ms: int) -> Decision:
        """Each part takes up where the log ends."""
        return _joined([part.loaded(now_ms) for part in self._parts if hasattr(part, "loaded")])


def _group_ended(key: Any) -> str | None:
    """The group that a tombstone of this key ends."""
    if type(key) is GroupMetadataKey:
        return key.group
    return key.group_id if type(key) is ConsumerGroupMetadataKey else None


def _joined(decisions: list[Decision]) -> Decision:
    """Several parts' decisions on one event as one."""
    decisions = [decision for decision in decisions if decision is not NOTHING]
    return Decision(
        records=list(chain.from_iterable(decision.records for decision in decisions)),
        timers=list(chain.from_iterable(decision.timers for decision in decisions)),
        answers=list(chain.from_iterable(decision.answers for decision in decisions)),
        orders=list(chain.from_iterable(decision.orders for decision in decisions)),
        is_pure=all(decision.is_pure for decision in decisions),
        is_divisible=all(decision.is_divisible for decision in decisions),
    )
