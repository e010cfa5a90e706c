"""What one event comes to, gathered while it is worked out."""

from collections.abc import Callable
from typing import Any

from millstream.coordination.decision import Decision, Timer
from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from millstream.protocol.messages.sync_group import SyncGroupResponse


class Turn:
    """Records, timers and answers in the making."""

    __slots__ = ("answers", "if_refused", "now_ms", "records", "timers")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[CoordinatorRecord] = []
        self.timers: list[Timer] = []
        self.answers: list[tuple[int, Any]] = []
        self.if_refused: Callable[[ErrorCode], Any] | None = None

    def decision(self) -> Decision:
        return Decision(records=self.records, timers=self.timers, answers=self.answers, if_refused=self.if_refused)

    def refuse_join(self, ticket: int, code: ErrorCode, member_id: str = "") -> None:
        self.answers.append((ticket, JoinGroupResponse(error_code=code, member_id=member_id)))

    def refuse_sync(self, ticket: int, code: ErrorCode) -> None:
        self.answers.append((ticket, SyncGroupResponse(error_code=code)))

    def await_join(self, group: ClassicGroup, member_id: str, ticket: int) -> None:
        """Hold a JoinGroup back; one of the same member that was held back before is superseded."""
        before = group.join_tickets.get(member_id)
        if before is not None:
            self.refuse_join(before, ErrorCode.REBALANCE_IN_PROGRESS, member_id)
        group.join_tickets[member_id] = ticket

    def await_sync(self, group: ClassicGroup, member_id: str, ticket: int) -> None:
        """Hold a SyncGroup back; likewise."""
        before = group.sync_tickets.get(member_id)
        if before is not None:
            self.refuse_sync(before, ErrorCode.REBALANCE_IN_PROGRESS)
        group.sync_tickets[member_id] = ticket

    def release(self, group: ClassicGroup, member_id: str, code: ErrorCode, told_id: str = "") -> None:
        """Refuse whatever the member waits for."""
        ticket = group.join_tickets.pop(member_id, None)
        if ticket is not None:
            self.refuse_join(ticket, code, told_id)
        ticket = group.sync_tickets.pop(member_id, None)
        if ticket is not None:
            self.refuse_sync(ticket, code)

    def dismiss(self, group: ClassicGroup, member_id: str) -> None:
        """Take a member, or an id that was handed out, from the group; what it waits for, it waits for no more."""
        self.release(group, member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        group.remove(member_id)
        self.timers.append(group.expiry_timer(member_id, None))


def current_generation(group: ClassicGroup, member_id: str, leader_id: str | None = None) -> JoinGroupResponse:
    """The answer to a member that has joined; the leader is told of everyone."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_id or group.leader_id or "",
        member_id=member_id,
        members=roster(group) if leader_id is None and member_id == group.leader_id else [],
    )


def roster(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """Everyone, as a leader needs to know them."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(group.protocol_name),
        )
        for member in group.members.values()
    ]


def refusals_to_all(group: ClassicGroup, code: ErrorCode) -> list[tuple[int, Any]]:
    """Answers to all who wait, for whoever gives the group up; it is left as it is until its tombstone is replayed."""
    answers: list[tuple[int, Any]] = [
        (ticket, JoinGroupResponse(error_code=code, member_id=member_id))
        for member_id, ticket in group.join_tickets.items()
    ]
    return answers + [(ticket, SyncGroupResponse(error_code=code)) for ticket in group.sync_tickets.values()]
