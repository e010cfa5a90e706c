"""A decision on a consumer group as it takes shape.

Every step is written to a copy of the group as well as to the records, so that the next step sees it.  The group itself
changes when the records are replayed, and is then what the copy was.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, NamedTuple

from millstream.coordination.decision import Decision, Timer
from millstream.coordination.groups.consumer import records
from millstream.coordination.groups.consumer.assignors import ASSIGNORS
from millstream.coordination.groups.consumer.assignors.share import Subscriber
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import ConsumerMember, MemberState
from millstream.coordination.groups.consumer.reconciliation import Direction, Reported, reconcile
from millstream.coordination.groups.consumer.topology import metadata_hash
from millstream.coordination.groups.group import ClusterTopics, TopicView
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.patterns.matcher import matching
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.ids import Uuid


class ConsumerSessionExpired(NamedTuple):
    """A member was silent for its whole session."""

    group_id: str
    member_id: str


class RevocationExpired(NamedTuple):
    """A member had until now to give back what it must; it counts only while it is still at this epoch."""

    group_id: str
    member_id: str
    epoch: int


class RejoinExpired(NamedTuple):
    """A classic member was told to join again, and has not."""

    group_id: str
    member_id: str


class ConsumerSyncExpired(NamedTuple):
    """A classic member joined, and has not asked for its assignment."""

    group_id: str
    member_id: str


#: The kinds of a member's timers.
SESSION: Final = "session"
REVOCATION: Final = "revocation"
REJOIN: Final = "rejoin"
SYNC: Final = "consumer-sync"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decisions on any group rest on."""

    settings: Callable[[], GroupSettings]
    topics: ClusterTopics
    new_id: Callable[[], str]
    report: Callable[[str], None]


class Draft:
    """What is to be written about one group, and the group as it will be then."""

    def __init__(
        self,
        group: ConsumerGroup,
        surroundings: Surroundings,
        now_ms: int,
        before: Sequence[CoordinatorRecord] = (),
    ) -> None:
        self.group = group.copy()
        self.now_ms = now_ms
        self.records = list(before)
        self.timers: list[Timer] = []
        #: Answers to others than who asked.
        self.answers: list[tuple[int, Any]] = []
        self._origin = group
        self._topics = surroundings.topics
        self.settings = surroundings.settings()
        self.report = surroundings.report

    def decision(self, *answers: tuple[int, Any]) -> Decision:
        """All of it, with these answers: a draft is a copy, so that nothing has changed but on paper."""
        return Decision(records=self.records, timers=self.timers, answers=(*self.answers, *answers), is_pure=True)

    def write(self, record: CoordinatorRecord) -> None:
        self.records.append(record)
        self.group.take(*record)

    # Who is in the group, and what it reads.

    def enrol(self, new: ConsumerMember) -> bool:
        """Take in a member, or what it says anew; whether it reads other topics than before."""
        group = self.group
        old = group.members.get(new.member_id) or ConsumerMember(new.member_id)
        if new != old:
            self.write(records.member_metadata(group.group_id, new))
        if new.regex != old.regex:
            self._change_regex(old.regex, new.regex)
        has_new_topics = new.topics != old.topics or new.regex != old.regex
        if has_new_topics or self.now_ms >= self._origin.fresh_until_ms:
            self.refresh(is_new=has_new_topics)
        return has_new_topics

    def refresh(self, *, is_new: bool = False) -> None:
        """Look at the topics again; a group that has other ones than before, or ``is_new``, wants a new plan."""
        group = self.group
        for pattern, known in list(group.regexes.items()):
            found = matching(pattern, self._topics.names(), inf)  # It was accepted.
            if found != known:
                self.write(records.regular_expression(group.group_id, pattern, found, self.now_ms))
        number = metadata_hash(group.topics, self._topics)
        if is_new or number != group.metadata_hash:
            self.write(records.group_epoch(group.group_id, group.epoch + 1, number))
        else:
            # Only now that nothing is to be written: a write may fail, and must then be tried again.
            self._origin.fresh_until_ms = self.now_ms + self.settings.group_consumer_regex_refresh_interval_ms

    def replace_static(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member came back under another id, with all that it had."""
        group_id = self.group.group_id
        plan = self.group.plans.get(old.member_id, {})
        new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        for tombstone in records.member_tombstones(group_id, old.member_id):
            self.write(tombstone)
        self.write(records.member_metadata(group_id, new))
        self.write(records.target_assignment(group_id, member_id, plan))
        self.write(records.current_assignment(group_id, new))
        self.timers += self.timers_off(old.member_id)
        return new

    def remove(self, members: Iterable[ConsumerMember]) -> None:
        """Let members go; what is left wants a new plan."""
        group = self.group
        for member in members:
            for tombstone in records.member_tombstones(group.group_id, member.member_id):
                self.write(tombstone)
            self.timers += self.timers_off(member.member_id)
        for pattern in list(group.regexes):
            if not group.subscribers(pattern):
                self.write(records.regular_expression_tombstone(group.group_id, pattern))
        self.write(records.group_epoch(group.group_id, group.epoch + 1, metadata_hash(group.topics, self._topics)))

    def _change_regex(self, old: str | None, new: str | None) -> None:
        group = self.group
        if old and not group.subscribers(old):
            self.write(records.regular_expression_tombstone(group.group_id, old))
        if new and new not in group.regexes:
            found = matching(new, self._topics.names())
            self.write(records.regular_expression(group.group_id, new, found, self.now_ms))

    # Plan and progress.

    def plan(self) -> None:
        """Have the assignor plan anew where the group has moved on since the last plan."""
        group = self.group
        if group.assignment_epoch >= group.epoch:
            return
        views: dict[str, TopicView | None] = {name: self._topics.by_name(name) for name in group.topics}
        ids = {name: view.topic_id for name, view in views.items() if view is not None}
        known: dict[frozenset[str], frozenset[Uuid]] = {}  # Most members read the same topics.
        subscribers = {}
        for member_id, member in group.members.items():
            names = group.topics_of(member)
            if names not in known:
                known[names] = frozenset(ids[name] for name in names if name in ids)
            subscribers[member_id] = Subscriber(member.instance_id, known[names], group.plans.get(member_id, {}))
        read = frozenset().union(*known.values())
        counts = {view.topic_id: view.partition_count for view in views.values() if view and view.topic_id in read}
        supported = [name for name in self.settings.group_consumer_assignors if name in ASSIGNORS]
        shares = ASSIGNORS[group.preferred_assignor(supported)](subscribers, counts)
        for member_id in group.members:
            share = shares.get(member_id, {})
            if share != group.plans.get(member_id):
                self.write(records.target_assignment(group.group_id, member_id, share))
        self.write(records.assignment_epoch(group.group_id, group.epoch, self.now_ms))

    def reconcile(self, member_id: str, reported: Reported, *, has_new_topics: bool) -> ConsumerMember:
        """Lead a member one step on; the member as it is then."""
        group = self.group
        member = group.members[member_id]
        if not has_new_topics and member.is_reconciled(group.assignment_epoch):
            return member
        views = map(self._topics.by_name, group.topics_of(member))
        direction = Direction(
            epoch=group.assignment_epoch,
            plan=group.plans.get(member_id, {}),
            topic_ids=frozenset(view.topic_id for view in views if view is not None),
            has_new_topics=has_new_topics,
        )
        after = reconcile(member, direction, group.owners, reported)
        if after != member:
            self.write(records.current_assignment(group.group_id, after))
            if not after.is_classic:
                is_due = after.state is MemberState.UNREVOKED_PARTITIONS
                self.timers.append(revocation_timer(group.group_id, after, is_due=is_due))
        return after

    def timers_off(self, member_id: str) -> list[Timer]:
        """Call off all timers of a member."""
        return [Timer((kind, self.group.group_id, member_id), None) for kind in (SESSION, REVOCATION, REJOIN, SYNC)]


def session_timer(group_id: str, member: ConsumerMember, settings: GroupSettings) -> Timer:
    """The timer that drops the member unless it is set again in time."""
    after_ms = member.classic.session_timeout_ms if member.classic else settings.group_consumer_session_timeout_ms
    member_id = member.member_id
    return Timer((SESSION, group_id, member_id), after_ms, ConsumerSessionExpired(group_id, member_id))


def revocation_timer(group_id: str, member: ConsumerMember, *, is_due: bool) -> Timer:
    """The timer that drops a member which does not give back what it must."""
    key = (REVOCATION, group_id, member.member_id)
    if not is_due:
        return Timer(key, None)
    return Timer(key, member.rebalance_timeout_ms, RevocationExpired(group_id, member.member_id, member.epoch))
