"""The classic protocol's part of the group machine: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from millstream.coordination.decision import Decision, Origin, Question, Timer, reply
from millstream.coordination.groups.classic.events import (
    AssignmentRefused,
    InitialDelayOver,
    JoinExpired,
    RebalanceWanted,
    SessionExpired,
    SyncExpired,
)
from millstream.coordination.groups.classic.group import ClassicGroup, ClassicMember, State
from millstream.coordination.groups.classic.join import Joins, NewcomerRefused
from millstream.coordination.groups.classic.rebalance import Rebalances, called_off_sync
from millstream.coordination.groups.classic.records import replay, stable_record
from millstream.coordination.groups.classic.turn import Turn
from millstream.coordination.groups.group import Group, Groups
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from millstream.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

#: From here on a SyncGroup names the protocol.
PROTOCOL_NAMED_FROM: Final = 5
#: From here on a LeaveGroup names several members, and the answer each of them.
BATCH_LEAVE_FROM: Final = 3


class ClassicGuests(Protocol):
    """Serves members that speak the classic protocol in a group of the new one."""

    def classic_join(self, group: Any, question: Question, now_ms: int) -> Decision: ...

    def classic_sync(self, group: Any, question: Question, now_ms: int) -> Decision: ...

    def classic_heartbeat(self, group: Any, question: Question, now_ms: int) -> Decision: ...

    def classic_leave(self, group: Any, question: Question, now_ms: int) -> Decision: ...


class ClassicPart:
    """Decides for classic groups, and replays their records."""

    def __init__(
        self,
        groups: Groups,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        report: Callable[[str], None],
        consumer: ClassicGuests,
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._report = report
        self._consumer = consumer
        self._rebalances = Rebalances(groups, settings)
        self._joins = Joins(groups, settings, new_id, self._rebalances)

    def loaded(self, now_ms: int) -> Decision:
        """Sessions begin anew, for nobody could be heard meanwhile; whoever was to meet does, or is too many now."""
        turn = Turn(now_ms)
        size_max = self._settings().group_max_size
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                turn.timers += [group.session_timer(member) for member in group.members.values()]
                is_too_large = len(group.members) > size_max
                if is_too_large:
                    self._report(f"group {group.group_id} has {len(group.members)} members, {size_max} are allowed")
                if is_too_large or group.has_yet_to_meet:
                    self._rebalances.call(group, turn)
        return turn.decision()

    # Questions.

    def join(self, question: Question, now_ms: int) -> Decision:
        """Become or stay a member."""
        refusal = self._joins.check(question)
        if refusal is not None:
            return reply(question, refusal)
        group = self._groups.get(question.request.group_id)
        if group is None or isinstance(group, ClassicGroup):
            return self._joins.join(group, question, now_ms)
        if group.state_name != State.EMPTY or question.request.member_id:
            return self._join_as_guest(group, question, now_ms)
        refusal = self._joins.check_newly(question)
        if refusal is not None:
            return reply(question, refusal)
        # Nobody is left to speak the other protocol: that group goes, and the question is asked again at once.
        again = Timer(("again", question.ticket), 0, question)
        return Decision(records=group.tombstones(), timers=(again,), is_pure=True)

    def sync(self, question: Question, now_ms: int) -> Decision:
        """The leader's assignment makes the group stable; the others wait for it."""
        request = question.request
        group = self._group(request.group_id)
        if not isinstance(group, ClassicGroup):
            return self._consumer.classic_sync(group, question, now_ms)
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        _check_protocol(group, request, question.version)
        return self._syncs[group.state](self, group, member, question, now_ms)

    def heartbeat(self, question: Question, now_ms: int) -> Decision:
        """A member is alive, and learns whether its group meets."""
        request = question.request
        group = self._groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return self._consumer.classic_heartbeat(self._group(request.group_id), question, now_ms)
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        code = ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else ErrorCode.NONE
        return Decision(
            timers=(group.session_timer(member),), answers=((question.ticket, HeartbeatResponse(error_code=code)),)
        )

    def leave(self, question: Question, now_ms: int) -> Decision:
        """Members go at once, and the others meet without them."""
        request = question.request
        if not request.group_id:
            raise ProtocolError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            return self._consumer.classic_leave(group, question, now_ms)
        turn = Turn(now_ms)
        is_batch = question.version >= BATCH_LEAVE_FROM
        leaving = request.members if is_batch else [MemberIdentity(member_id=request.member_id)]
        size_before = 0 if group is None else len(group.members)
        rows = [
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=_let_go(group, identity, turn),
            )
            for identity in leaving
        ]
        response = LeaveGroupResponse(members=rows) if is_batch else LeaveGroupResponse(error_code=rows[0].error_code)
        turn.answers.append((question.ticket, response))
        if group is not None and len(group.members) < size_before and group.state is not State.PREPARING:
            self._rebalances.call(group, turn)
        elif group is not None:
            self._rebalances.count(group, turn)
        return turn.decision()

    # SyncGroup by the group's state.

    def _sync_too_early(self, group: ClassicGroup, member: ClassicMember, question: Question, now_ms: int) -> Decision:
        raise ProtocolError(ErrorCode.REBALANCE_IN_PROGRESS)

    def _sync_completing(self, group: ClassicGroup, member: ClassicMember, question: Question, now_ms: int) -> Decision:
        turn = Turn(now_ms)
        _note_sync(group, member, turn)
        turn.await_sync(group, member.member_id, question.ticket)
        if member.member_id == group.leader_id:
            assignments = {row.member_id: row.assignment for row in question.request.assignments}
            turn.records.append(stable_record(group, now_ms, assignments))
            tickets, group.sync_tickets = group.sync_tickets, {}
            turn.if_refused = partial(AssignmentRefused, group.group_id, tuple(tickets.items()), tuple(turn.answers))
            for member_id, ticket in tickets.items():
                turn.answers.append((ticket, _assigned(group, assignments.get(member_id, b""))))
                turn.timers.append(group.session_timer(group.members[member_id]))
        return turn.decision()

    def _sync_stable(self, group: ClassicGroup, member: ClassicMember, question: Question, now_ms: int) -> Decision:
        turn = Turn(now_ms)
        _note_sync(group, member, turn)
        turn.answers.append((question.ticket, _assigned(group, member.assignment)))
        return turn.decision()

    _syncs: ClassVar = {
        State.PREPARING: _sync_too_early,
        State.COMPLETING: _sync_completing,
        State.STABLE: _sync_stable,
    }

    # Timers.

    def session_expired(self, event: SessionExpired, now_ms: int) -> Decision:
        return self._rebalances.session_expired(event, now_ms)

    def initial_delay_over(self, event: InitialDelayOver, now_ms: int) -> Decision:
        return self._rebalances.initial_delay_over(event, now_ms)

    def join_expired(self, event: JoinExpired, now_ms: int) -> Decision:
        return self._rebalances.join_expired(event, now_ms)

    def sync_expired(self, event: SyncExpired, now_ms: int) -> Decision:
        return self._rebalances.sync_expired(event, now_ms)

    def rebalance_wanted(self, event: RebalanceWanted, now_ms: int) -> Decision:
        return self._rebalances.rebalance_wanted(event, now_ms)

    # Records that the log does not take.

    def assignment_refused(self, event: AssignmentRefused, now_ms: int) -> Decision:
        return self._rebalances.assignment_refused(event, now_ms)

    def newcomer_refused(self, event: NewcomerRefused, now_ms: int) -> Decision:
        return self._joins.newcomer_refused(event, now_ms)

    # Records.

    def replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None, origin: Origin) -> None:
        replay(self._groups, key, value, origin.timestamp_ms, self._report)

    #: A question's request, or a timer's event -> who decides.
    EVENTS: ClassVar[dict[type, Callable[["ClassicPart", Any, int], Decision]]] = {
        JoinGroupRequest: join,
        SyncGroupRequest: sync,
        HeartbeatRequest: heartbeat,
        LeaveGroupRequest: leave,
        SessionExpired: session_expired,
        InitialDelayOver: initial_delay_over,
        JoinExpired: join_expired,
        SyncExpired: sync_expired,
        RebalanceWanted: rebalance_wanted,
        AssignmentRefused: assignment_refused,
        NewcomerRefused: newcomer_refused,
    }
    REPLAYS: ClassVar[dict[type, Callable[["ClassicPart", Any, Any, Origin], None]]] = {GroupMetadataKey: replay_group}

    def _join_as_guest(self, group: Group, question: Question, now_ms: int) -> Decision:
        try:
            return self._consumer.classic_join(group, question, now_ms)
        except ProtocolError as refusal:
            # An answer, as all refusals of a JoinGroup are: it may be asked for the second time, by a timer.
            member_id = question.request.member_id
            return reply(question, JoinGroupResponse(error_code=refusal.code, member_id=member_id))

    def _group(self, group_id: str) -> Group:
        if not group_id:
            raise ProtocolError(ErrorCode.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if group is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"there is no group {group_id!r}")
        return group


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest, version: int) -> None:
    named = (request.protocol_type, request.protocol_name)
    if version >= PROTOCOL_NAMED_FROM and named != (group.protocol_type, group.protocol_name):
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{named} was not elected")


def _note_sync(group: ClassicGroup, member: ClassicMember, turn: Turn) -> None:
    if group.pending_sync:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            turn.timers.append(called_off_sync(group))


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _let_go(group: ClassicGroup | None, identity: MemberIdentity, turn: Turn) -> ErrorCode:
    """Dismiss one who leaves: by its id, or a static member by its instance alone."""
    try:
        if group is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID)
        member_id = identity.member_id
        if not member_id and identity.group_instance_id is not None:
            member_id = group.instances.get(identity.group_instance_id, "")
        if member_id not in group.pending:
            group.check_member(member_id, identity.group_instance_id)
        turn.dismiss(group, member_id)
    except ProtocolError as refusal:
        return refusal.code
    return ErrorCode.NONE
