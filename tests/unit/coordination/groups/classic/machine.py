"""The classic part alone as a machine, and short ways to ask it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from millstream.coordination.decision import Decision, Origin, Question
from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.classic.part import ClassicPart
from millstream.coordination.groups.classic.turn import refusals_to_all
from millstream.coordination.groups.group import Groups
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.unit.coordination.stage import counted_ids

GROUP = "orders-readers"


class TakenOver(NamedTuple):
    """Another protocol takes a group over, as the consumer part has it."""

    group_id: str


class Elsewhere:
    """Stands where the consumer part does, and notes what it is handed."""

    def __init__(self) -> None:
        self.handed: list[str] = []

    def classic_join(self, group: Any, question: Question, now_ms: int) -> Decision:
        return self._note("join", question)

    def classic_sync(self, group: Any, question: Question, now_ms: int) -> Decision:
        return self._note("sync", question)

    def classic_heartbeat(self, group: Any, question: Question, now_ms: int) -> Decision:
        return self._note("heartbeat", question)

    def classic_leave(self, group: Any, question: Question, now_ms: int) -> Decision:
        return self._note("leave", question)

    def _note(self, what: str, question: Question) -> Decision:
        self.handed.append(what)
        return Decision(answers=((question.ticket, what),))


class ClassicMachine:
    """``decision.Machine`` over the classic part."""

    def __init__(self, settings: Callable[[], GroupSettings], new_id: Callable[[], str]) -> None:
        self.groups: Groups = {}
        self.reports: list[str] = []
        self.elsewhere = Elsewhere()
        self.part = ClassicPart(self.groups, settings, new_id, self.reports.append, self.elsewhere)

    def decide(self, event: Any, now_ms: int) -> Decision:
        if isinstance(event, TakenOver):
            group = self.groups[event.group_id]
            assert isinstance(group, ClassicGroup)
            answers = refusals_to_all(group, ErrorCode.REBALANCE_IN_PROGRESS)
            return Decision(records=group.tombstones(), answers=answers)
        kind = type(event.request) if isinstance(event, Question) else type(event)
        return self.part.EVENTS[kind](self.part, event, now_ms)

    def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
        self.part.REPLAYS[type(record.key)](self.part, record.key, record.value, origin)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        raise AssertionError("no transaction touches a classic group")

    def loaded(self, now_ms: int) -> Decision:
        return self.part.loaded(now_ms)

    def stands(self, order: Any) -> bool:
        raise AssertionError("classic groups order nothing")

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group


def maker(settings: Callable[[], GroupSettings] = GroupSettings) -> Callable[[], ClassicMachine]:
    """Makes machines that share their ids, as restarts of one broker do."""
    new_id = counted_ids()
    return lambda: ClassicMachine(settings, new_id)


def subscription(*topics: str) -> bytes:
    """A consumer's metadata, version 0."""
    names = b"".join(len(name).to_bytes(2, "big") + name for name in map(str.encode, topics))
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def join_request(
    member_id: str = "",
    *,
    protocols: dict[str, bytes] | None = None,
    instance_id: str | None = None,
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
    protocol_type: str = "consumer",
    group_id: str = GROUP,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in ({"range": subscription("orders")} if protocols is None else protocols).items()
        ],
    )


def hard_state(group: ClassicGroup) -> tuple[Any, ...]:
    """All that the log must bring back."""
    members = {
        member.member_id: (
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(group.protocol_name),
            member.assignment,
        )
        for member in group.members.values()
    }
    facts = (group.state, group.state_since_ms, group.generation, group.protocol_type, group.protocol_name)
    return (*facts, group.leader_id, members)
