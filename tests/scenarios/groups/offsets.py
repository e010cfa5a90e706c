"""One shard's offsets, driven by hand; it prints what clients are told.

    commit <group> orders-0=5 … [v=9] [member=… epoch=…] [metadata=…] [retention=…]
    pend <group> orders-0=5 … producer=7 [member=… epoch=…]
    end 7 commit|abort
    fetch <group> [orders-0 …] [stable=yes] [member=… epoch=…]
    delete <group> orders-0 …, drop <topic>
    join <group> reads=<topic>: a member of the classic protocol, which settles alone; leave <group>
    groups, delete-group <group>, describe <group>, wait <ms>, restart

Offsets are kept for 60 seconds, and looked over every 10; metadata may have 8 characters.
"""

from typing import Any

from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.delete_groups import DeleteGroupsRequest
from millstream.protocol.messages.describe_groups import DescribeGroupsRequest
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from millstream.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millstream.protocol.messages.list_groups import ListGroupsRequest
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.scenarios.script import Command
from tests.unit.coordination.groups.classic.machine import subscription
from tests.unit.coordination.groups.offsets import BY_NAME, commit, delete, fetch, group_stage, txn_commit
from tests.unit.coordination.stage import Topics

SETTINGS = GroupSettings(
    group_initial_rebalance_delay_ms=0,
    offset_metadata_max_bytes=8,
    offsets_retention_ms=60_000,
    offsets_retention_check_interval_ms=10_000,
)
OWN = {"v", "member", "epoch", "metadata", "retention", "producer", "stable", "reads"}


class Story:
    """A shard in a cluster of orders (2 partitions) and audit (1)."""

    def __init__(self) -> None:
        self._topics = Topics(orders=2, audit=1)
        self._stage = group_stage(self._topics, SETTINGS)
        self._members: dict[str, tuple[str, int]] = {}

    async def perform(self, command: Command) -> list[str]:
        try:
            printed: list[str] = getattr(self, "_" + command.name.replace("-", "_"))(command)
        except ProtocolError as refusal:
            printed = [refusal.code.name]
        return [f"  {line}" for line in printed]

    # Offsets.

    def _commit(self, command: Command) -> list[str]:
        member, epoch = self._who(command)
        request = commit(
            command.arguments[0],
            _offsets(command),
            command.options.get("metadata", ""),
            member_id=member,
            generation_id_or_member_epoch=epoch,
            retention_time_ms=int(command.options.get("retention", -1)),
        )
        return _refused(self._stage.ask(request, int(command.options.get("v", BY_NAME))))

    def _pend(self, command: Command) -> list[str]:
        member, epoch = self._who(command)
        producer_id = int(command.options["producer"])
        request = txn_commit(
            command.arguments[0], _offsets(command), producer_id, member_id=member, generation_id=epoch
        )
        return _refused(self._stage.ask(request))

    def _end(self, command: Command) -> list[str]:
        producer_id, outcome = command.arguments
        self._stage.end_transaction(int(producer_id), is_commit=outcome == "commit")
        return []

    def _fetch(self, command: Command) -> list[str]:
        group, *places = command.arguments
        member = {}
        if "member" in command.options:
            member = {"member_id": command.options["member"], "member_epoch": int(command.options["epoch"])}
        asked = fetch(group, *map(_place, places), is_stable="stable" in command.options, **member)
        (answer,) = self._stage.ask(asked, BY_NAME).groups
        lines = []
        for topic in answer.topics:
            for row in topic.partitions:
                shown = ErrorCode(row.error_code).name if row.error_code else str(row.committed_offset)
                text = f" {row.metadata!r}" if row.metadata else ""
                lines.append(f"{topic.name}-{row.partition_index} {shown}{text}")
        return lines

    def _delete(self, command: Command) -> list[str]:
        group, *places = command.arguments
        return _refused(self._stage.ask(delete(group, *map(_place, places))))

    def _drop(self, command: Command) -> list[str]:
        (topic,) = command.arguments
        self._topics.delete(topic)
        self._stage.topics_changed(topic)
        return []

    # Groups.

    def _join(self, command: Command) -> list[str]:
        (group,) = command.arguments
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(command.options["reads"]))
        asked = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=1_000_000,
            rebalance_timeout_ms=1_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        ticket = self._stage.begin(asked, 3)
        self._stage.advance(0)
        joined = self._stage.answers.pop(ticket)
        share = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        self._members[group] = (joined.member_id, joined.generation_id)
        self._stage.ask(
            SyncGroupRequest(
                group_id=group, member_id=joined.member_id, generation_id=joined.generation_id, assignments=[share]
            ),
            4,
        )
        return [f"{group} has a member in generation {joined.generation_id}"]

    def _leave(self, command: Command) -> list[str]:
        (group,) = command.arguments
        member, _ = self._members.pop(group)
        self._stage.ask(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member)]))
        return []

    def _groups(self, command: Command) -> list[str]:
        listed = self._stage.ask(ListGroupsRequest()).groups
        return [f"{group.group_id} {group.group_state} {group.protocol_type or '-'}" for group in listed]

    def _delete_group(self, command: Command) -> list[str]:
        (row,) = self._stage.ask(DeleteGroupsRequest(groups_names=command.arguments)).results
        return [ErrorCode(row.error_code).name]

    def _describe(self, command: Command) -> list[str]:
        (group,) = self._stage.ask(DescribeGroupsRequest(groups=command.arguments)).groups
        if group.error_code:
            return [f"{ErrorCode(group.error_code).name} {group.group_state}"]
        return [f"{group.group_state} {group.protocol_data or '-'} members={len(group.members)}"]

    # Time.

    def _wait(self, command: Command) -> list[str]:
        self._stage.advance(int(command.arguments[0]))
        return []

    def _restart(self, command: Command) -> list[str]:
        self._stage.restart()
        return []

    def _who(self, command: Command) -> tuple[str, int]:
        """The member that asks: ``member=me`` is the one that joined, in its generation unless told."""
        named = command.options.get("member", "")
        member, epoch = self._members[command.arguments[0]] if named == "me" else (named, -1)
        return member, int(command.options.get("epoch", epoch))


def _place(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def _offsets(command: Command) -> dict[tuple[str, int], int]:
    return {_place(name): int(value) for name, value in command.options.items() if name not in OWN}


def _refused(answer: Any) -> list[str]:
    """The rows that were refused; nothing where all were taken."""
    return [
        f"{topic.name}-{row.partition_index} {ErrorCode(row.error_code).name}"
        for topic in answer.topics
        for row in topic.partitions
        if row.error_code
    ]
