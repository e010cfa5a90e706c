"""Consumers of one group by the protocol of KIP-848, driven by hand; it prints what they are told and what is written.

    join A orders,bills [instance=...] [regex=...] [assignor=...] [rebalance=...] [id=...] [v=1] [rack=...]
    beat A [owns=orders:0+1|-] [epoch=...] [topics=...] [regex=...] [assignor=...] [instance=...] [id=...]
    leave A [instance=...], away A instance=... (leaves for a while)
    classic-join A orders [owns=orders:0] [instance=...] [session=...], classic-sync A, classic-beat A, classic-leave A
    classic-meet A:0+1 B:2+3 (a stable classic group with these partitions of orders)
    topic orders 4, drop orders (told to the group)
    commit A [epoch=...], set policy=... size=..., wait <ms>, restart, show

A client keeps the id and epoch it was told; ``owns=`` says what it has, and is left out where it says nothing new.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.consumer import draft
from millstream.coordination.groups.consumer.embedded import encode_assignment
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import ConsumerMember, MemberState, Owned
from millstream.coordination.groups.consumer.reconciliation import reconcile
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import decode_record
from millstream.coordination.schemas.consumer_protocol import NamedPartitions, Subscription, decode_assignment
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.codec import encode
from millstream.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.scenarios.script import Command
from tests.unit.coordination.groups.consumer.clients import GROUP, Partition, heartbeat, listed, named, stage_of
from tests.unit.coordination.stage import Topics, topic_id_of

Edge = tuple[MemberState, MemberState]

_PLAIN_JOIN = Command("classic-join - orders")


@contextmanager
def transitions() -> Iterator[list[Edge]]:
    """Every state that a member enters meanwhile, and from where."""
    seen: list[Edge] = []

    def noting(member: ConsumerMember, *others: Any) -> ConsumerMember:
        after = reconcile(member, *others)
        if after.state is not member.state:
            seen.append((member.state, after.state))
        return after

    with patch.object(draft, reconcile.__name__, noting):
        yield seen


class Client:
    """What a client remembers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.member_id = name
        self.epoch = 0
        self.instance_id: str | None = None


class Story:
    """One group's history."""

    def __init__(self, edges: list[Edge]) -> None:
        self.settings = GroupSettings(group_initial_rebalance_delay_ms=0)
        self._topics = Topics()
        self._stage = stage_of(self._topics, lambda: self.settings)
        self._clients: dict[str, Client] = {}
        self._edges = edges
        self._edges_printed = 0

    async def perform(self, command: Command) -> list[str]:
        log_length = len(self._stage.log)
        before = self._member_ids
        verb: Callable[[Command], list[str]] = getattr(self, "_" + command.name.replace("-", "_"))
        try:
            printed = verb(command)
        except ProtocolError as refusal:
            printed = [f"  {command.arguments[0]}: {refusal.code.name}"]
        printed += [f"  {member_id} is gone" for member_id in before if member_id not in self._member_ids]
        edges, self._edges_printed = self._edges[self._edges_printed :], len(self._edges)
        printed += [f"  {edge[0].name} -> {edge[1].name}" for edge in edges]
        for key, value, *_ in self._stage.log[log_length:]:
            assert isinstance(key, bytes)
            assert not isinstance(value, bool)
            printed.append(f"  record: {_recorded(*decode_record(key, value))}")
        return printed

    # The new protocol.

    def _join(self, command: Command) -> list[str]:
        options = command.options
        client = self._client(command)
        client.member_id = options.get("id", client.member_id)
        client.instance_id = options.get("instance")
        names = command.arguments[1].split(",") if len(command.arguments) > 1 else None
        request = heartbeat(
            client.member_id,
            0,
            instance_id=client.instance_id,
            rack_id=options.get("rack"),
            rebalance_timeout_ms=int(options.get("rebalance", "30000")),
            subscribed_topic_names=names,
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
            topic_partitions=[],
        )
        return self._told(client, self._ask(client, request, int(options.get("v", "1"))))

    def _beat(self, command: Command) -> list[str]:
        options = command.options
        client = self._client(command)
        request = heartbeat(
            options.get("id", client.member_id),
            int(options.get("epoch", client.epoch)),
            instance_id=options.get("instance", client.instance_id),
            subscribed_topic_names=options["topics"].split(",") if "topics" in options else None,
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
            topic_partitions=listed(_partitions(options["owns"])) if "owns" in options else None,
        )
        return self._told(client, self._ask(client, request, 1))

    def _leave(self, command: Command) -> list[str]:
        return self._go(command, -1)

    def _away(self, command: Command) -> list[str]:
        return self._go(command, -2)

    def _go(self, command: Command, epoch: int) -> list[str]:
        client = self._client(command)
        instance_id = command.options.get("instance", client.instance_id)
        answer = self._ask(client, heartbeat(client.member_id, epoch, instance_id=instance_id), 1)
        return [f"  {client.name}: {answer.member_epoch}"]

    def _told(self, client: Client, answer: ConsumerGroupHeartbeatResponse) -> list[str]:
        assert answer.member_id is not None
        client.member_id, client.epoch = answer.member_id, answer.member_epoch
        given = "" if answer.assignment is None else f" has {_shown(named(answer.assignment.topic_partitions))}"
        return [f"  {client.name}: epoch={answer.member_epoch}{given}"]

    # The classic protocol.

    def _classic_join(self, command: Command) -> list[str]:
        client = self._client(command, is_classic=True)
        client.instance_id = command.options.get("instance")
        request = self._classic_request(client, command)
        answer: JoinGroupResponse = self._ask(client, request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = self._ask(client, request, 9)
        if answer.error_code:
            return [f"  {client.name}: {ErrorCode(answer.error_code).name}"]
        client.member_id, client.epoch = answer.member_id, answer.generation_id
        return [f"  {client.name} joined as {client.member_id}: generation={client.epoch} {answer.protocol_name}"]

    def _classic_sync(self, command: Command) -> list[str]:
        client = self._client(command)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.epoch,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        )
        answer: SyncGroupResponse = self._ask(client, request, 5)
        if answer.error_code:
            return [f"  {client.name}: {ErrorCode(answer.error_code).name}"]
        found = decode_assignment(answer.assignment).assigned_partitions
        return [f"  {client.name} has {_shown((each.topic, number) for each in found for number in each.partitions)}"]

    def _classic_beat(self, command: Command) -> list[str]:
        client = self._client(command)
        generation = int(command.options.get("generation", client.epoch))
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=client.member_id, group_instance_id=client.instance_id
        )
        return [f"  {client.name}: {ErrorCode(self._ask(client, request, 4).error_code).name}"]

    def _classic_leave(self, command: Command) -> list[str]:
        client = self._client(command)
        leaving = [MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)]
        answer = self._ask(client, LeaveGroupRequest(group_id=GROUP, member_id="", members=leaving), 5)
        return [f"  {client.name}: {ErrorCode(answer.members[0].error_code).name}"]

    def _classic_meet(self, command: Command) -> list[str]:
        """Join all, let the meeting close, and have the first assign."""
        shares = dict(each.split(":") for each in command.arguments)
        clients = [self._clients.setdefault(name, Client(name)) for name in shares]
        for client in clients:
            client.member_id = ""
            ticket = self._stage.begin(self._classic_request(client, _PLAIN_JOIN), 9, client.name)
            self._stage.advance(0)  # An empty consumer group goes first.
            client.member_id = self._stage.answers.pop(ticket).member_id
        tickets = {
            self._stage.begin(self._classic_request(client, _PLAIN_JOIN), 9, client.name): client for client in clients
        }
        self._stage.advance(0)
        for ticket, client in tickets.items():
            client.epoch = self._stage.answers.pop(ticket).generation_id
        rows = [
            SyncGroupRequestAssignment(
                member_id=client.member_id,
                assignment=encode_assignment(
                    {topic_id_of("orders"): list(map(int, share.split("+")))}, 3, self._topics
                ),
            )
            for client, share in zip(clients, shares.values(), strict=True)
        ]
        leader = clients[0]
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=leader.epoch,
            member_id=leader.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=rows,
        )
        self._ask(leader, sync, 5)
        return [f"  {client.name} is {client.member_id} in generation {client.epoch}" for client in clients]

    def _classic_request(self, client: Client, command: Command) -> JoinGroupRequest:
        owned = [
            NamedPartitions(topic=topic, partitions=[number])
            for topic, number in _partitions(command.options.get("owns", "-"))
        ]
        subscription = Subscription(
            topics=command.arguments[1].split(","),
            user_data=None,
            owned_partitions=owned,
            generation_id=client.epoch,
            rack_id=None,
        )
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(command.options.get("session", "10000")),
            rebalance_timeout_ms=30_000,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x03" + encode(subscription, 3))],
        )

    # Everything else.

    def _topic(self, command: Command) -> list[str]:
        name, width = command.arguments
        self._topics.make(name, int(width))
        self._stage.topics_changed(name)
        return []

    def _drop(self, command: Command) -> list[str]:
        self._topics.delete(command.arguments[0])
        self._stage.topics_changed(command.arguments[0])
        return []

    def _commit(self, command: Command) -> list[str]:
        client = self._client(command)
        epoch = int(command.options.get("epoch", client.epoch))
        partitions = [(topic_id_of("orders"), int(each)) for each in command.options.get("orders", "0").split("+")]
        self._groups[GROUP].check_commit(client.member_id, None, epoch, partitions, is_transactional=False, version=9)
        return [f"  {client.name} may commit"]

    def _set(self, command: Command) -> list[str]:
        options = command.options
        if "policy" in options:
            self.settings = replace(self.settings, group_consumer_migration_policy=options["policy"])
        if "size" in options:
            self.settings = replace(self.settings, group_consumer_max_size=int(options["size"]))
        return []

    def _wait(self, command: Command) -> list[str]:
        self._stage.advance(int(command.arguments[0]))
        return []

    def _restart(self, command: Command) -> list[str]:
        self._stage.restart()
        return []

    def _show(self, command: Command) -> list[str]:
        group = self._groups.get(GROUP)
        if group is None:
            return ["  no such group"]
        if isinstance(group, ClassicGroup):
            return [
                f"  Classic {group.state_name} generation={group.generation}",
                *(f"  {member_id}" for member_id in group.members),
            ]
        assert isinstance(group, ConsumerGroup)
        printed = [f"  {group.state_name} epoch={group.epoch} plan={group.assignment_epoch}"]
        for member in group.members.values():
            revoking = f" gives back {_shown(_owned(member.revoking))}" if member.revoking else ""
            kind = " classic" if member.is_classic else ""
            instance = f" instance={member.instance_id}" if member.instance_id else ""
            printed.append(
                f"  {member.member_id}{kind}{instance} epoch={member.epoch} {member.state.name}"
                f" has {_shown(_owned(member.assigned))}{revoking}"
            )
        printed += [f"  {pattern} is {','.join(sorted(names)) or '-'}" for pattern, names in group.regexes.items()]
        return printed

    @property
    def _groups(self) -> dict[str, Any]:
        machine = self._stage.machine
        assert isinstance(machine, GroupMachine)
        return machine.groups

    @property
    def _member_ids(self) -> list[str]:
        group = self._groups.get(GROUP)
        return [] if group is None else list(group.members)

    def _client(self, command: Command, *, is_classic: bool = False) -> Client:
        name = command.arguments[0]
        if name not in self._clients:
            self._clients[name] = Client(name)
            if is_classic:
                self._clients[name].member_id = ""
        return self._clients[name]

    def _ask(self, client: Client, request: Any, version: int) -> Any:
        return self._stage.ask(request, version, client.name, f"/{client.name}")


def _partitions(text: str) -> list[Partition]:
    """``orders:0+1,bills:2``, or - for none."""
    found = []
    for topic in text.split(",") if text != "-" else []:
        name, _, numbers = topic.partition(":")
        found += [(name, int(number)) for number in numbers.split("+")]
    return found


def _shown(partitions: Iterable[Partition]) -> str:
    by_topic: dict[str, list[str]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(str(partition))
    return ",".join(f"{topic}:{'+'.join(numbers)}" for topic, numbers in by_topic.items()) or "-"


def _owned(owned: Owned) -> list[Partition]:
    return [(topic_id.rstrip(b"-").decode(), each) for topic_id, partitions in owned.items() for each in partitions]


def _recorded(key: Any, value: Any) -> str:
    """A record's kind, whose it is, and the numbers that matter."""
    name = type(key).__name__.removesuffix("Key")
    whose = "".join(f" {each}" for each in key[1:])
    if value is None:
        return f"{name}{whose} gone"
    fields = {
        "ConsumerGroupMetadata": lambda: f" epoch={value.epoch}",
        "ConsumerGroupTargetAssignmentMetadata": lambda: f" epoch={value.assignment_epoch}",
        "ConsumerGroupTargetAssignmentMember": lambda: f" {_shown(named(value.topic_partitions))}",
        "ConsumerGroupRegularExpression": lambda: f" {','.join(value.topics) or '-'}",
        "ConsumerGroupCurrentMemberAssignment": lambda: (
            f" epoch={value.member_epoch} {MemberState(value.state).name}"
            f" {_shown(named(value.assigned_partitions))} / {_shown(named(value.partitions_pending_revocation))}"
        ),
        "GroupMetadata": lambda: f" generation={value.generation} members={len(value.members)}",
    }
    return f"{name}{whose}{fields.get(name, str)()}"
