"""Clients of one classic group, driven by hand; it prints what they are told and what becomes of the group.

    join A [v=9] [id=...] [instance=...] [protocols=range:orders,sticky] [session=...] [rebalance=...] [type=...]
    sync A [v=5] [generation=...] [id=...] [instance=...] [assign=A:p0,B:p1] [type=...] [protocol=...]
    beat A [generation=...] [id=...] [instance=...]
    leave A B [v=5], or leave instance=...
    commit A [generation=...] [id=...] [instance=...] [txn=yes], or commit nobody
    set delay=... size=...
    wait <ms>, settle (every timer runs), restart, delete, takeover, show, topics <name>...

A client keeps the id and the generation it was told last; ``id=`` and ``generation=`` say otherwise for once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from millstream.coordination.groups.classic.group import ClassicGroup, State
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import GroupMetadataValue
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.join_group import JoinGroupResponse
from millstream.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.scenarios.script import Command
from tests.unit.coordination.groups.classic.machine import (
    GROUP,
    ClassicMachine,
    TakenOver,
    join_request,
    maker,
    subscription,
)
from tests.unit.coordination.stage import Stage

Edge = tuple[State, State]


@contextmanager
def transitions() -> Iterator[list[Edge]]:
    """Every state that a group enters meanwhile, and from where."""
    seen: list[Edge] = []
    enter = ClassicGroup.enter

    def noting(group: ClassicGroup, state: State, now_ms: int) -> None:
        before = group.state
        enter(group, state, now_ms)
        seen.append((before, state))

    with patch.object(ClassicGroup, "enter", noting):
        yield seen


class Client:
    """What a client remembers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None


class Story:
    """One group's history."""

    def __init__(self, edges: list[Edge]) -> None:
        self.settings = GroupSettings()
        self._stage = Stage(maker(lambda: self.settings))
        self._clients: dict[str, Client] = {}
        self._asked: dict[int, Client] = {}
        self._edges = edges
        self._edges_printed = 0

    async def perform(self, command: Command) -> list[str]:
        log_length = len(self._stage.log)
        verb: Callable[[Command], list[str]] = getattr(self, f"_{command.name}")
        printed = verb(command)
        printed += [f"  {self._told(ticket, answer)}" for ticket, answer in self._taken()]
        edges, self._edges_printed = self._edges[self._edges_printed :], len(self._edges)
        printed += [f"  {before} -> {after}" for before, after in edges]
        if len(self._stage.log) > log_length:
            printed += [f"  record: {_recorded(value)}" for _, value in self._stage.records]
        return printed

    # Requests.

    def _join(self, command: Command) -> list[str]:
        options = command.options
        client = self._client(command.arguments[0])
        protocols = {}
        for each in options.get("protocols", "range:orders").split(","):
            name, _, topic = each.partition(":")
            protocols[name] = b"?" if topic == "?" else subscription(topic or "orders")
        request = join_request(
            options.get("id", client.member_id),
            protocols=protocols if options.get("protocols") != "" else {},
            instance_id=options.get("instance"),
            session_timeout_ms=int(options.get("session", "10000")),
            rebalance_timeout_ms=int(options.get("rebalance", "60000")),
            protocol_type=options.get("type", "consumer"),
            group_id=options.get("group", GROUP),
        )
        return self._ask(client, request, int(options.get("v", "9")))

    def _sync(self, command: Command) -> list[str]:
        options = command.options
        client = self._client(command.arguments[0])
        shares = [share.partition(":") for share in options.get("assign", "").split(",") if share]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=int(options.get("generation", client.generation)),
            member_id=options.get("id", client.member_id),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocol_name=options.get("protocol", client.protocol),
            assignments=[
                SyncGroupRequestAssignment(member_id=self._client(name).member_id, assignment=share.encode())
                for name, _, share in shares
            ],
        )
        return self._ask(client, request, int(options.get("v", "5")))

    def _beat(self, command: Command) -> list[str]:
        options = command.options
        client = self._client(command.arguments[0])
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=int(options.get("generation", client.generation)),
            member_id=options.get("id", client.member_id),
            group_instance_id=options.get("instance"),
        )
        return self._ask(client, request, 4)

    def _leave(self, command: Command) -> list[str]:
        options = command.options
        version = int(options.get("v", "5"))
        instance_id = options.get("instance")
        members = [
            MemberIdentity(member_id=options.get("id", self._client(name).member_id), group_instance_id=instance_id)
            for name in command.arguments
        ] or [MemberIdentity(member_id=options.get("id", ""), group_instance_id=instance_id)]
        client = self._client(command.arguments[0] if command.arguments else "admin")
        request = LeaveGroupRequest(group_id=GROUP, member_id=members[0].member_id, members=members)
        return self._ask(client, request, version)

    def _commit(self, command: Command) -> list[str]:
        options = command.options
        is_nobody = command.arguments == ["nobody"]
        client = Client("nobody") if is_nobody else self._client(command.arguments[0])
        try:
            timers = self._group().check_commit(
                options.get("id", client.member_id),
                options.get("instance"),
                int(options.get("generation", client.generation)),
                (),
                is_transactional="txn" in options,
                version=9,
            )
        except ProtocolError as refusal:
            return [f"  {client.name} may not commit: {refusal.code.name}"]
        return [f"  {client.name} may commit{'' if not timers else ', and lives'}"]

    def _ask(self, client: Client, request: Any, version: int) -> list[str]:
        try:
            ticket = self._stage.begin(request, version, client.name, f"/{client.name}")
        except ProtocolError as refusal:
            return [f"  {client.name}: {refusal.code.name}"]
        self._asked[ticket] = client
        return [] if ticket in self._stage.answers else [f"  {client.name} waits"]

    # Everything else.

    def _set(self, command: Command) -> list[str]:
        delay_ms, size_max = command.options.get("delay"), command.options.get("size")
        if delay_ms is not None:
            self.settings = replace(self.settings, group_initial_rebalance_delay_ms=int(delay_ms))
        if size_max is not None:
            self.settings = replace(self.settings, group_max_size=int(size_max))
        return []

    def _wait(self, command: Command) -> list[str]:
        self._stage.advance(int(command.arguments[0]))
        return []

    def _settle(self, command: Command) -> list[str]:
        while self._stage.timers:
            self._stage.advance(max(self._stage.timers.values()))
        assert not self._asked.keys() - self._stage.answers.keys(), "somebody waits for ever"
        return []

    def _restart(self, command: Command) -> list[str]:
        self._stage.restart()
        self._asked.clear()
        return []

    def _takeover(self, command: Command) -> list[str]:
        self._stage.tell(TakenOver(GROUP))
        return []

    def _delete(self, command: Command) -> list[str]:
        try:
            self._group().check_delete()
        except ProtocolError as refusal:
            return [f"  {refusal.code.name}"]
        return self._takeover(command)

    def _show(self, command: Command) -> list[str]:
        if GROUP not in self._machine.groups:
            return ["  no such group"]
        group = self._group()
        printed = [
            f"  {group.state_name} generation={group.generation} type={group.protocol_type or '-'}"
            f" protocol={group.protocol_name or '-'} leader={group.leader_id or '-'}"
        ]
        for member in group.members.values():
            instance = "" if member.instance_id is None else f" instance={member.instance_id}"
            printed.append(f"  {member.member_id}{instance} has {member.assignment.decode() or '-'}")
        printed += [f"  {member_id} is expected" for member_id in sorted(group.pending)]
        return printed

    def _topics(self, command: Command) -> list[str]:
        group = self._group()
        return [f"  {topic}: {'read' if group.is_subscribed(topic) else 'free'}" for topic in command.arguments]

    @property
    def _machine(self) -> ClassicMachine:
        machine = self._stage.machine
        assert isinstance(machine, ClassicMachine)
        return machine

    def _group(self) -> ClassicGroup:
        return self._machine.group()

    def _client(self, name: str) -> Client:
        return self._clients.setdefault(name, Client(name))

    # What is printed.

    def _taken(self) -> list[tuple[int, Any]]:
        answers = sorted(self._stage.answers.items())
        self._stage.answers.clear()
        return answers

    def _told(self, ticket: int, answer: Any) -> str:
        client = self._asked.pop(ticket)
        code = ErrorCode(answer.error_code).name
        if isinstance(answer, JoinGroupResponse):
            return self._told_of_join(client, answer, code)
        if isinstance(answer, SyncGroupResponse):
            return (
                f"{client.name} synced: {answer.assignment.decode() or '-'}"
                if code == "NONE"
                else (f"{client.name} sync: {code}")
            )
        if isinstance(answer, LeaveGroupResponse):
            rows = [
                f"{row.member_id or row.group_instance_id} {ErrorCode(row.error_code).name}" for row in answer.members
            ]
            return f"{client.name} leave: {code}{''.join(f', {row}' for row in rows)}"
        return f"{client.name} beat: {code}"

    def _told_of_join(self, client: Client, answer: JoinGroupResponse, code: str) -> str:
        if code == "MEMBER_ID_REQUIRED":
            client.member_id = answer.member_id
        if code != "NONE":
            return f"{client.name} join: {code}{f' {answer.member_id}' if answer.member_id else ''}"
        client.member_id = answer.member_id
        client.generation = answer.generation_id
        client.protocol = answer.protocol_name
        members = ",".join(member.member_id for member in answer.members)
        return (
            f"{client.name} joined as {answer.member_id}: generation={answer.generation_id}"
            f" {answer.protocol_name} leader={answer.leader}{f' members={members}' if members else ''}"
            f"{' skip-assignment' if answer.skip_assignment else ''}"
        )


def _recorded(value: GroupMetadataValue | None) -> str:
    if value is None:
        return "gone"
    shares = ",".join(f"{member.member_id}:{member.assignment.decode()}" for member in value.members)
    return f"generation={value.generation} {value.protocol or '-'} leader={value.leader or '-'} {shares or '-'}"
