"""Whatever members of classic groups do, in whatever order: what holds of every history."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millstream.coordination.groups.classic.group import ClassicGroup, State
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.join_group import JoinGroupResponse
from millstream.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.coordination.groups.classic.machine import (
    GROUP,
    ClassicMachine,
    hard_state,
    join_request,
    maker,
    subscription,
)
from tests.unit.coordination.stage import Stage

CLIENTS = ["ann", "bob", "cat", "dan", "eve"]
#: Static ones; two clients may claim the same instance.
INSTANCES = {"cat": "i1", "dan": "i2", "eve": "i2"}
PROTOCOLS = [["range"], ["range", "sticky"], ["sticky", "range"], ["cooperative", "range"]]
SIZE_MAX = 4


class Client:
    """What a client knows: the id, generation and protocol it was told last, and whom it would assign to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instance_id = INSTANCES.get(name)
        self.member_id = ""
        self.generation = -1
        self.protocol = ""
        self.led: list[str] = []


class ClassicGroups(RuleBasedStateMachine):
    """Clients that join, sync, beat, leave, crash and come back, over a coordinator that may be loaded anew."""

    def __init__(self) -> None:
        super().__init__()
        limits = GroupSettings(group_max_size=SIZE_MAX)
        self.stage = Stage(maker(lambda: limits))
        self.clients = {name: Client(name) for name in CLIENTS}
        #: The questions that wait, and what becomes of each client when they are answered.
        self.waiting: dict[int, Client] = {}
        self.asked: dict[int, tuple[Client, Any, int]] = {}
        #: What each generation's members were given: generation -> member -> share.
        self.given: dict[int, dict[str, bytes]] = {}

    @property
    def group(self) -> ClassicGroup | None:
        machine = self.stage.machine
        assert isinstance(machine, ClassicMachine)
        return machine.group() if GROUP in machine.groups else None

    # What clients do.

    @rule(
        name=st.sampled_from(CLIENTS),
        protocols=st.sampled_from(PROTOCOLS),
        topic=st.sampled_from(["orders", "bills"]),
        version=st.sampled_from([0, 3, 4, 9]),
    )
    def join(self, name: str, protocols: list[str], topic: str, version: int) -> None:
        client = self.clients[name]
        instance_id = client.instance_id if version >= 5 else None
        metadata = {protocol: subscription(topic) for protocol in protocols}
        request = join_request(client.member_id, protocols=metadata, instance_id=instance_id)
        self.ask(client, request, version)

    @rule()
    @precondition(lambda self: self.waiting)
    def ask_again(self) -> None:
        """A client lost its connection, and asks again what it has not been answered."""
        ticket = max(self.waiting)
        client, request, version = self.asked[ticket]
        if client.member_id == request.member_id:
            self.ask(client, request, version)

    @rule(name=st.sampled_from(CLIENTS), behind=st.sampled_from([0, 0, 1]))
    def sync(self, name: str, behind: int = 0) -> None:
        client = self.clients[name]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation - behind,
            member_id=client.member_id,
            protocol_type="consumer",
            protocol_name=client.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=f"{client.generation - behind}:{each}".encode())
                for each in client.led
            ],
        )
        self.ask(client, request, 5)

    @rule(behind=st.sampled_from([0, 0, 1]))
    @precondition(lambda self: self.group is not None and self.group.state is State.COMPLETING)
    def assign(self, behind: int) -> None:
        """The leader hands in its assignment, or one that it meant for the generation before."""
        assert self.group is not None
        for client in list(self.clients.values()):
            if client.member_id == self.group.leader_id:
                self.sync(client.name, behind)

    @rule(name=st.sampled_from(CLIENTS))
    def beat(self, name: str) -> None:
        client = self.clients[name]
        request = HeartbeatRequest(group_id=GROUP, generation_id=client.generation, member_id=client.member_id)
        self.ask(client, request, 4)

    @rule(names=st.sets(st.sampled_from(CLIENTS), min_size=1, max_size=3))
    def leave(self, names: set[str]) -> None:
        leaving = [self.clients[name] for name in sorted(names)]
        members = [MemberIdentity(member_id=client.member_id) for client in leaving]
        self.ask(Client("admin"), LeaveGroupRequest(group_id=GROUP, members=members), 5)

    @rule(name=st.sampled_from(CLIENTS))
    def crash(self, name: str) -> None:
        """The client forgets everything; whatever it waited for comes to nobody."""
        self.clients[name] = Client(name)

    @rule(by_ms=st.sampled_from([0, 1_000, 3_000, 9_000, 30_000, 61_000]))
    def wait(self, by_ms: int) -> None:
        self.stage.advance(by_ms)
        self.hear()

    @rule()
    def load_anew(self) -> None:
        """The leadership moves; the driver refuses all who wait."""
        self.stage.restart()
        self.waiting.clear()

    @rule(steps=st.integers(1, 6))
    def everyone_follows(self, steps: int) -> None:
        """The clients do as clients should: they come when called, and the leader assigns."""
        for _ in range(steps):
            for client in list(self.clients.values()):
                self.follow(client)
            self.stage.advance(1_000)
            self.hear()

    def follow(self, client: Client) -> None:
        group = self.group
        if client in self.waiting.values():
            return
        if group is None or client.member_id not in group.members or group.state is State.PREPARING:
            self.join(client.name, ["range"], "orders", 9)
        elif client.generation == group.generation:
            self.sync(client.name)

    # What they hear.

    def ask(self, client: Client, request: Any, version: int) -> None:
        try:
            ticket = self.stage.begin(request, version, client.name)
        except ProtocolError as refusal:
            self.note_refusal(client, refusal.code)
        else:
            self.waiting[ticket] = client
            self.asked[ticket] = (client, request, version)
        self.hear()

    def hear(self) -> None:
        answers, self.stage.answers = self.stage.answers, {}
        for ticket, answer in answers.items():
            client = self.waiting.pop(ticket)
            if isinstance(answer, JoinGroupResponse):
                self.note_join(client, answer)

    def note_join(self, client: Client, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error_code:
            self.note_refusal(client, ErrorCode(answer.error_code))
        else:
            client.member_id, client.generation = answer.member_id, answer.generation_id
            client.protocol = answer.protocol_name or ""
            client.led = [member.member_id for member in answer.members]
            assert bool(client.led) <= (answer.leader == answer.member_id)
            for member in answer.members:
                assert member.metadata, "everyone speaks the protocol that was elected"

    def note_refusal(self, client: Client, code: ErrorCode) -> None:
        assert code is not ErrorCode.UNKNOWN_SERVER_ERROR
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            client.member_id, client.generation, client.led = "", -1, []

    # What must hold.

    @invariant()
    def a_share_goes_to_the_member_and_generation_it_was_meant_for(self) -> None:
        group = self.group
        if group is None or group.state is not State.STABLE:
            return
        shares = {member.member_id: member.assignment for member in group.members.values()}
        before = self.given.setdefault(group.generation, shares)
        if before.keys() == shares.keys():
            assert before == shares, "a generation is assigned once"
        for member_id, share in shares.items():
            if share:
                generation, _, meant_for = share.decode().partition(":")
                assert int(generation) == group.generation
                assert meant_for == member_id or group.members[member_id].instance_id is not None
        self.given[group.generation] = shares

    @invariant()
    def soft_state_is_of_those_who_are_there(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members.keys()
        assert group.join_tickets.keys() <= members
        assert group.sync_tickets.keys() <= members
        assert group.pending_sync <= members
        assert group.newcomers <= members
        assert not group.pending & members
        assert {m.instance_id: i for i, m in group.members.items() if m.instance_id is not None} == group.instances
        assert (group.leader_id in members) if members else group.leader_id is None
        assert bool(members) or group.state in (State.EMPTY, State.PREPARING)
        assert not group.join_tickets or group.state is State.PREPARING
        assert not group.sync_tickets or group.state is State.COMPLETING
        for name, count in group.supporters.items():
            assert count == sum(name in member.protocols for member in group.members.values()) > 0
        assert len(set(group.join_tickets.values()) | set(group.sync_tickets.values())) == len(self.waiting)

    @invariant()
    def the_log_brings_back_what_is_settled(self) -> None:
        group = self.group
        if group is None or group.state not in (State.STABLE, State.EMPTY) or not group.generation:
            return
        fresh = self.stage.loaded_anew()
        assert isinstance(fresh, ClassicMachine)
        assert hard_state(fresh.group()) == hard_state(group)
        assert fresh.group().subscribed_topics == group.subscribed_topics

    def teardown(self) -> None:
        """Nobody says anything any more: in the end every question is answered and every member dropped."""
        for _ in range(20):
            if not self.stage.timers:
                break
            self.stage.advance(max(self.stage.timers.values()))
            self.hear()
        assert not self.stage.timers, self.stage.timers
        assert not self.waiting, "somebody waits for ever"
        assert self.group is None or self.group.state is State.EMPTY


ClassicGroups.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestClassicGroups = ClassicGroups.TestCase
