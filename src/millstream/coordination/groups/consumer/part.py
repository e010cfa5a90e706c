"""The consumer protocol's part of the group machine: which question and which record goes where."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, ClassVar

from millstream.coordination.decision import NOTHING, Decision, Origin, Question, Timer
from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.classic.turn import refusals_to_all
from millstream.coordination.groups.consumer import heartbeat, records
from millstream.coordination.groups.consumer.draft import (
    ConsumerSessionExpired,
    ConsumerSyncExpired,
    Draft,
    RejoinExpired,
    RevocationExpired,
    Surroundings,
    revocation_timer,
    session_timer,
)
from millstream.coordination.groups.consumer.group import TAKES, ConsumerGroup
from millstream.coordination.groups.consumer.guests import Guests
from millstream.coordination.groups.consumer.member import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from millstream.coordination.groups.consumer.migration import downgrade, may_downgrade, opened
from millstream.coordination.groups.group import ClusterTopics, Group, Groups, TopicsChanged
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import ConsumerGroupMetadataKey
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerPart:
    """Decides on consumer groups, and keeps them in ``groups`` as their records are replayed."""

    def __init__(
        self,
        groups: Groups,
        settings: Callable[[], GroupSettings],
        topics: ClusterTopics,
        new_id: Callable[[], str],
        report: Callable[[str], None],
    ) -> None:
        self._groups = groups
        self._surroundings = Surroundings(settings, topics, new_id, report)
        self._guests = Guests(self._surroundings, self._fenced)

    def loaded(self, now_ms: int) -> Decision:
        """Sessions begin anew, for nobody could be heard meanwhile."""
        settings = self._surroundings.settings()
        timers: list[Timer] = []
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    timers.append(session_timer(group.group_id, member, settings))
                    if member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
                        timers.append(revocation_timer(group.group_id, member, is_due=True))
        return Decision(timers=timers)

    # ConsumerGroupHeartbeat.

    def heartbeat(self, question: Question, now_ms: int) -> Decision:
        """A member joins, goes on or leaves."""
        request: ConsumerGroupHeartbeatRequest = question.request
        group = self._groups.get(request.group_id)
        settings = self._surroundings.settings()
        if type(group) is ConsumerGroup:
            member = group.members.get(request.member_id)
            if member is not None and heartbeat.has_nothing_new(group, member, question, now_ms):
                return _unchanged(group, member, question, settings)
        heartbeat.check_request(request, question.version, settings)
        if request.member_epoch in (LEAVING_EPOCH, AWAY_EPOCH):
            return self._leave(_consumer_group(group, request.group_id), question, now_ms)
        if request.member_epoch == JOINING_EPOCH:
            draft = opened(request.group_id, group, self._surroundings, now_ms)
        else:
            draft = Draft(_consumer_group(group, request.group_id), self._surroundings, now_ms)
        member_id = request.member_id or self._surroundings.new_id()
        response = heartbeat.beat(draft, question, member_id)
        draft.timers.append(session_timer(request.group_id, draft.group.members[member_id], settings))
        if isinstance(group, ClassicGroup):  # Only now that nothing can be refused any more.
            draft.answers += refusals_to_all(group, ErrorCode.REBALANCE_IN_PROGRESS)
        return draft.decision((question.ticket, response))

    def _leave(self, group: ConsumerGroup, question: Question, now_ms: int) -> Decision:
        request: ConsumerGroupHeartbeatRequest = question.request
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        answer = (question.ticket, response)
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = group.static_member(request.instance_id, request.member_id)
            if request.member_epoch == AWAY_EPOCH:
                draft = Draft(group, self._surroundings, now_ms)
                draft.write(records.current_assignment(group.group_id, _away(member)))
                return draft.decision(answer)
        return self._fenced(group, (member,), now_ms).decision(answer)

    def _fenced(self, group: ConsumerGroup, members: Collection[ConsumerMember], now_ms: int) -> Draft:
        """The group without these members; it goes on as a classic one if only classic members are left."""
        draft = Draft(group, self._surroundings, now_ms)
        if may_downgrade(draft, members):
            downgrade(draft, members, self._surroundings.topics, is_called=True)
        else:
            draft.remove(members)
        return draft

    # Timers and the cluster.

    def expired(self, event: ConsumerSessionExpired | ConsumerSyncExpired | RejoinExpired, now_ms: int) -> Decision:
        """A member that did not do in time what it had to is dropped."""
        group = self._groups.get(event.group_id)
        if not isinstance(group, ConsumerGroup) or event.member_id not in group.members:
            return NOTHING
        self._surroundings.report(f"group {event.group_id}: {event.member_id} is dropped ({type(event).__name__})")
        return self._fenced(group, (group.members[event.member_id],), now_ms).decision()

    def revocation_expired(self, event: RevocationExpired, now_ms: int) -> Decision:
        """A member that did not give back what it must is dropped, if it is where it was when it was told."""
        group = self._groups.get(event.group_id)
        member = group.members.get(event.member_id) if isinstance(group, ConsumerGroup) else None
        if not isinstance(group, ConsumerGroup) or member is None or member.epoch != event.epoch:
            return NOTHING
        self._surroundings.report(f"group {event.group_id}: {event.member_id} keeps what it must give back")
        return self._fenced(group, (member,), now_ms).decision()

    def topics_changed(self, event: TopicsChanged, now_ms: int) -> Decision:
        """Groups that read any of these topics, or may by a pattern, want a new plan if there is a difference."""
        found = []
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup) and (group.regexes or not event.topics.isdisjoint(group.topics)):
                draft = Draft(group, self._surroundings, now_ms)
                draft.refresh()
                found += draft.records
        return Decision(records=found, is_pure=True, is_divisible=True) if found else NOTHING

    # Classic members.

    def classic_join(self, group: Group, question: Question, now_ms: int) -> Decision:
        """JoinGroup from a classic member."""
        assert isinstance(group, ConsumerGroup)
        return self._guests.join(group, question, now_ms)

    def classic_sync(self, group: Group, question: Question, now_ms: int) -> Decision:
        """SyncGroup from a classic member."""
        assert isinstance(group, ConsumerGroup)
        return self._guests.sync(group, question)

    def classic_heartbeat(self, group: Group, question: Question, now_ms: int) -> Decision:
        """Heartbeat from a classic member."""
        assert isinstance(group, ConsumerGroup)
        return self._guests.heartbeat(group, question)

    def classic_leave(self, group: Group, question: Question, now_ms: int) -> Decision:
        """LeaveGroup from a classic member."""
        assert isinstance(group, ConsumerGroup)
        return self._guests.leave(group, question, now_ms)

    # Replay.

    def replay(self, key: Any, value: Any | None, _: Origin) -> None:
        """Take in a record of a consumer group; a group of another protocol gives way to it."""
        group = self._groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id)
        group.take(key, value)
        if value is None and type(key) is ConsumerGroupMetadataKey:
            del self._groups[key.group_id]

    #: type of a question's request, or of an event -> who decides.
    EVENTS: ClassVar[dict[type, Callable[["ConsumerPart", Any, int], Decision]]] = {
        ConsumerGroupHeartbeatRequest: heartbeat,
        ConsumerSessionExpired: expired,
        ConsumerSyncExpired: expired,
        RejoinExpired: expired,
        RevocationExpired: revocation_expired,
        TopicsChanged: topics_changed,
    }
    #: type of a record's key -> who takes it in.
    REPLAYS: ClassVar[dict[type, Callable[["ConsumerPart", Any, Any, Origin], None]]] = dict.fromkeys(TAKES, replay)


def _consumer_group(group: Group | None, group_id: str) -> ConsumerGroup:
    if not isinstance(group, ConsumerGroup):
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"{group_id} is not a consumer group")
    return group


def _away(member: ConsumerMember) -> ConsumerMember:
    """A static member that leaves for a while: it keeps what it has, as if it had always had it."""
    assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
    return replace(member, epoch=AWAY_EPOCH, assigned=assigned, revoking={})


def _unchanged(group: ConsumerGroup, member: ConsumerMember, question: Question, settings: GroupSettings) -> Decision:
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
    )
    timer = session_timer(group.group_id, member, settings)
    return Decision(timers=(timer,), answers=((question.ticket, response),), is_pure=True)
