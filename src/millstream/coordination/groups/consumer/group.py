"""A consumer group: what its records say, and what it answers to offsets and administration."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from millstream.coordination.decision import Timer
from millstream.coordination.groups.consumer import records
from millstream.coordination.groups.consumer.member import LEAVING_EPOCH, ConsumerMember, MemberState, Plan
from millstream.coordination.groups.group import GroupType
from millstream.coordination.schemas.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import Uuid

#: The first OffsetCommit that carries a member's epoch.
COMMIT_VERSION_MIN: Final = 9


class ConsumerGroup:
    """The state of one group, changed only by ``take``.  Soft is what the last two attributes say."""

    __slots__ = (
        "_topics",
        "assignment_epoch",
        "epoch",
        "fresh_until_ms",
        "group_id",
        "instances",
        "members",
        "metadata_hash",
        "owners",
        "plans",
        "regexes",
        "rejoining",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id: str = group_id
        #: Moves whenever a new plan is wanted; the plan is up to date where its own epoch is the same.
        self.epoch = 1
        self.assignment_epoch = 1
        #: Of the topics as they were when the epoch last moved.
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        #: The member id behind each instance id.
        self.instances: dict[str, str] = {}
        #: Who should have what.
        self.plans: dict[str, Plan] = {}
        #: Who has a partition, until it is given back.
        self.owners: dict[tuple[Uuid, int], str] = {}
        #: The topics that each pattern stands for.
        self.regexes: dict[str, frozenset[str]] = {}
        self._topics: frozenset[str] | None = None
        #: Until when the topics need no other look, unless it is told that they changed.
        self.fresh_until_ms = 0
        #: Classic members that were told to join again and have not yet.
        self.rejoining: set[str] = set()

    def copy(self) -> "ConsumerGroup":
        """The same hard state, to try decisions on."""
        copy = ConsumerGroup(self.group_id)
        copy.epoch = self.epoch
        copy.assignment_epoch = self.assignment_epoch
        copy.metadata_hash = self.metadata_hash
        copy.members = self.members.copy()
        copy.instances = self.instances.copy()
        copy.plans = self.plans.copy()
        copy.owners = self.owners.copy()
        copy.regexes = self.regexes.copy()
        copy._topics = self._topics
        return copy

    # What the rest of the coordinator asks.

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def protocol_type(self) -> str:
        return "consumer"

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[tuple[Uuid, int]],
        *,
        is_transactional: bool,
        version: int,
    ) -> Sequence[Timer]:
        if epoch < 0 and not self.members:
            return ()  # An administrator, or a consumer that assigns its partitions itself.
        if is_transactional and epoch < 0 and not member_id and instance_id is None:
            return ()  # Older producers name no member.
        member = self.member(member_id)
        if not is_transactional and not member.is_classic and version < COMMIT_VERSION_MIN:
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "members of this protocol commit from version 9 on")
        if member.is_classic or epoch > member.epoch:
            _check_epoch(member, epoch)
        elif epoch < member.epoch:
            # It has not heard of its new epoch yet: what it had before under the one it names, it still has (KIP-1251).
            for topic_id, partition in partitions:
                since = member.assigned_since(topic_id, partition)
                if since is None or epoch < since:
                    _check_epoch(member, epoch)
        return ()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if not member_id and member_epoch < 0:
            return
        _check_epoch(self.member(member_id or ""), member_epoch)

    def check_delete(self) -> None:
        if self.members:
            raise ProtocolError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topics

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        return records.group_tombstones(self.group_id, self.members, self.regexes)

    # Members.

    @property
    def topics(self) -> frozenset[str]:
        """All that its members read, by name or by pattern."""
        if self._topics is None:
            self._topics = frozenset().union(
                *(member.topics for member in self.members.values()), *self.regexes.values()
            )
        return self._topics

    def member(self, member_id: str) -> ConsumerMember:
        """The member of that id, or UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member of {self.group_id}")
        return member

    def static_member(self, instance_id: str, member_id: str) -> ConsumerMember:
        """The member of that instance, if it is this one: another one fences it."""
        current_id = self.instances.get(instance_id)
        if current_id is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {instance_id} is unknown")
        if current_id != member_id:
            raise ProtocolError(ErrorCode.FENCED_INSTANCE_ID, f"{member_id} was fenced by {current_id}")
        return self.members[current_id]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What one member reads, by name or by pattern."""
        if not member.regex:
            return member.topics
        return member.topics | self.regexes.get(member.regex, frozenset())

    def subscribers(self, regex: str) -> int:
        """How many members subscribe by a pattern."""
        return sum(member.regex == regex for member in self.members.values())

    def preferred_assignor(self, supported: Sequence[str]) -> str:
        """What most of those members want that want any, else the first."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor in supported)
        return max(supported, key=lambda name: votes[name])

    # Replay.

    def take(self, key: Any, value: Any | None) -> None:
        """Take in a record: the only way the hard state changes."""
        TAKES[type(key)](self, key, value)

    def _take_epoch(self, _: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _take_nothing(self, *_: Any) -> None:
        """What Kafka wrote before 4.1 about topics; the hash has taken its place."""

    def _take_member(self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None) -> None:
        self._topics = None
        if value is None:
            gone = self.members.pop(key.member_id, None)
            if gone is not None:
                self._drop_owned(gone)
                if gone.instance_id and self.instances.get(gone.instance_id) == gone.member_id:
                    del self.instances[gone.instance_id]
            self.rejoining.discard(key.member_id)
            return
        member = self.members.get(key.member_id) or ConsumerMember(key.member_id)
        self.members[key.member_id] = replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        if value.instance_id is not None:
            self.instances[value.instance_id] = key.member_id

    def _take_current(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        old = self.members.get(key.member_id)
        if value is None:
            if old is None:
                return
            new = replace(old, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned={}, revoking={})
        else:
            new = replace(
                old or ConsumerMember(key.member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=records.owned_of(value.assigned_partitions, value.member_epoch),
                revoking=records.owned_of(value.partitions_pending_revocation, value.member_epoch),
            )
        if old is not None:
            self._drop_owned(old)
        self.owners.update((each, key.member_id) for each in _each_owned(new))
        self.members[key.member_id] = new

    def _take_plan(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.plans.pop(key.member_id, None)
        else:
            self.plans[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
            }

    def _take_plan_epoch(
        self,
        _: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = -1 if value is None else value.assignment_epoch

    def _take_regex(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        self._topics = None
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = frozenset(value.topics)

    def _drop_owned(self, member: ConsumerMember) -> None:
        for each in _each_owned(member):
            # A static member that came back has its partitions under its new id already.
            if self.owners.get(each) == member.member_id:
                del self.owners[each]


def _each_owned(member: ConsumerMember) -> Iterator[tuple[Uuid, int]]:
    for owned in (member.assigned, member.revoking):
        for topic_id, partitions in owned.items():
            for partition in partitions:
                yield topic_id, partition


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
        raise ProtocolError(code, f"{epoch} is not the member's epoch, which is {member.epoch}")


#: type of a record's key -> what it changes.
TAKES: Final[dict[type, Callable[[ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: ConsumerGroup._take_epoch,
    ConsumerGroupPartitionMetadataKey: ConsumerGroup._take_nothing,
    ConsumerGroupMemberMetadataKey: ConsumerGroup._take_member,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroup._take_plan_epoch,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroup._take_plan,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroup._take_current,
    ConsumerGroupRegularExpressionKey: ConsumerGroup._take_regex,
}
