"""JoinGroup: who may become a member of a classic group, and what its coming sets in motion."""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from millstream.coordination.decision import Decision, Question
from millstream.coordination.groups.classic.group import ClassicGroup, ClassicMember, State
from millstream.coordination.groups.classic.rebalance import Rebalances
from millstream.coordination.groups.classic.records import stable_record
from millstream.coordination.groups.classic.turn import Turn, current_generation
from millstream.coordination.groups.group import Groups
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

#: How long a member that joins for the first time may wait for the others: it has no session to lose yet.
NEWCOMER_TIMEOUT_MS: Final = 5 * 60_000
#: From here on a new member comes back with the id it is given, lest one that gave up linger in the group.
MEMBER_ID_REQUIRED_FROM: Final = 4
#: From here on a leader can be told that its group needs no new assignment.
SKIP_ASSIGNMENT_FROM: Final = 9


class NewcomerRefused(NamedTuple):
    """An event: a static member came back, and the group with it could not be written down."""

    group_id: str
    old: ClassicMember
    new: ClassicMember
    ticket: int
    code: ErrorCode


class Joins:
    """Takes in members.  Refusals are answers, not exceptions: they name the member."""

    def __init__(
        self,
        groups: Groups,
        settings: Callable[[], GroupSettings],
        new_id: Callable[[], str],
        rebalances: Rebalances,
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._new_id = new_id
        self._rebalances = rebalances

    def join(self, group: ClassicGroup | None, question: Question, now_ms: int) -> Decision:
        """Answer at once, or hold the question back until the group has met."""
        turn = Turn(now_ms)
        member_id = question.request.member_id
        try:
            if group is None:
                if member_id:
                    raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group")
                group = ClassicGroup(question.request.group_id)
                group.state_since_ms = now_ms
            if not self._has_room(group, member_id):
                self._turn_away(group, question, turn)
            elif member_id:
                self._join_as(group, question, turn)
            else:
                self._join_newly(group, question, turn)
        except ProtocolError as refusal:
            assert not turn.answers
            turn.refuse_join(question.ticket, refusal.code, member_id)
        return turn.decision()

    def check(self, question: Question) -> JoinGroupResponse | None:
        """The refusal of a question that no group would accept."""
        request = question.request
        settings = self._settings()
        if not request.group_id:
            return JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=request.member_id)
        lowest_ms, highest_ms = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
        if not lowest_ms <= request.session_timeout_ms <= highest_ms:
            return JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=request.member_id)
        return None

    def check_newly(self, question: Question) -> JoinGroupResponse | None:
        """The refusal of one who could not even found a group."""
        try:
            _check_protocols(ClassicGroup(question.request.group_id), question.request)
        except ProtocolError as refusal:
            return JoinGroupResponse(error_code=refusal.code, member_id=question.request.member_id)
        return None

    # Room.

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        size_max = self._settings().group_max_size
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING:
            return member_id in group.join_tickets or len(group.join_tickets) < size_max
        return member_id in group.members or len(group.members) < size_max

    def _turn_away(self, group: ClassicGroup, question: Question, turn: Turn) -> None:
        member_id = question.request.member_id
        turn.refuse_join(question.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED)
        if member_id in group.members or member_id in group.pending:
            turn.dismiss(group, member_id)
            self._rebalances.count(group, turn)

    # Those without an id.

    def _join_newly(self, group: ClassicGroup, question: Question, turn: Turn) -> None:
        request = question.request
        _check_protocols(group, request)
        instance_id = request.group_instance_id
        self._groups[group.group_id] = group
        member_id = f"{question.client_id if instance_id is None else instance_id}-{self._new_id()}"
        replaced_id = None if instance_id is None else group.instances.get(instance_id)
        if replaced_id is not None:
            self._replace(group, group.members[replaced_id], _member_of(question, member_id), question, turn)
        elif instance_id is None and question.version >= MEMBER_ID_REQUIRED_FROM:
            group.pending.add(member_id)
            turn.timers.append(group.expiry_timer(member_id, request.session_timeout_ms))
            turn.refuse_join(question.ticket, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, question, member_id, turn)

    def _add(self, group: ClassicGroup, question: Question, member_id: str, turn: Turn) -> None:
        if group.state is State.PREPARING and group.previous_state is State.EMPTY:
            group.has_newcomer_since_delay = True
        group.add(_member_of(question, member_id), question.request.protocol_type)
        group.newcomers.add(member_id)
        turn.await_join(group, member_id, question.ticket)
        turn.timers.append(group.expiry_timer(member_id, NEWCOMER_TIMEOUT_MS))
        self._rebalances.call_or_count(group, turn)

    def _replace(
        self, group: ClassicGroup, old: ClassicMember, new: ClassicMember, question: Question, turn: Turn
    ) -> None:
        """A static member came back without its id: whoever still uses the old one is fenced.

        A stable group does not even meet for it, as long as it would elect the same protocol.
        """
        turn.release(group, old.member_id, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
        turn.timers.append(group.expiry_timer(old.member_id, None))
        new.assignment = old.assignment
        leader_before = group.leader_id
        group.replace(old, new)
        turn.timers.append(group.session_timer(new))
        if group.state is State.STABLE and group.elect_protocol() == group.protocol_name:
            turn.records.append(stable_record(group, group.state_since_ms))
            turn.if_refused = partial(NewcomerRefused, group.group_id, old, new, question.ticket)
            if question.version >= SKIP_ASSIGNMENT_FROM:
                response = current_generation(group, new.member_id)
                response.skip_assignment = new.member_id == group.leader_id
            else:
                # An older leader would assign anew if it knew that it leads, and nobody waits for that.
                response = current_generation(group, new.member_id, leader_before)
            turn.answers.append((question.ticket, response))
            return
        turn.await_join(group, new.member_id, question.ticket)
        self._rebalances.call_or_count(group, turn)

    def newcomer_refused(self, event: NewcomerRefused, now_ms: int) -> Decision:
        """What it says of itself may be too large for the log: whoever was there before stays."""
        group = self._groups[event.group_id]
        assert isinstance(group, ClassicGroup)
        group.replace(event.new, event.old)
        turn = Turn(now_ms)
        turn.refuse_join(event.ticket, event.code)
        return turn.decision()

    # Those with one.

    def _join_as(self, group: ClassicGroup, question: Question, turn: Turn) -> None:
        request = question.request
        member_id = request.member_id
        _check_protocols(group, request)
        if member_id in group.pending and request.group_instance_id is None:
            self._add(group, question, member_id, turn)
            return
        member = group.check_member(member_id, request.group_instance_id)
        protocols = _protocols_of(request)
        is_same = member.has_protocols(protocols)
        must_meet = {
            State.PREPARING: True,
            State.COMPLETING: not is_same,  # Else it only missed the answer.
            State.STABLE: not is_same or group.leader_id in (None, member_id),
        }[group.state]
        if must_meet:
            group.change_protocols(member, protocols)
            member.session_timeout_ms = request.session_timeout_ms
            member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
            turn.await_join(group, member_id, question.ticket)
            self._rebalances.call_or_count(group, turn)
        else:
            turn.answers.append((question.ticket, current_generation(group, member_id)))


def _check_protocols(group: ClassicGroup, request: JoinGroupRequest) -> None:
    if not group.is_supporting(request.protocol_type, [protocol.name for protocol in request.protocols]):
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group is of type {group.protocol_type!r}")


def _protocols_of(request: JoinGroupRequest) -> dict[str, bytes]:
    return {protocol.name: protocol.metadata for protocol in request.protocols}


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _member_of(question: Question, member_id: str) -> ClassicMember:
    request = question.request
    return ClassicMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=question.client_id,
        client_host=question.client_host,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        session_timeout_ms=request.session_timeout_ms,
        protocols=_protocols_of(request),
    )
