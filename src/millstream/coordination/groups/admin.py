"""Groups seen from outside: ListGroups (16), DescribeGroups (15), ConsumerGroupDescribe (69), DeleteGroups (42)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from millstream.coordination.decision import Decision, Question, reply
from millstream.coordination.groups.classic.group import ClassicGroup, ClassicMember, State
from millstream.coordination.groups.consumer.description import described
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.group import ClusterTopics, Group, Groups
from millstream.coordination.groups.offsets.part import OffsetsPart
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from millstream.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from millstream.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from millstream.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from millstream.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

#: DescribeGroups has an error for a group that is not there from here on; before, it is shown as dead.
NOT_FOUND_FROM = 6


class AdminPart:
    """Lists, describes and deletes groups of either protocol."""

    def __init__(
        self,
        groups: Groups,
        offsets: OffsetsPart,
        settings: Callable[[], GroupSettings],
        topics: ClusterTopics,
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._settings = settings
        self._topics = topics

    def list_groups(self, question: Question, now_ms: int) -> Decision:
        """ListGroups: those that the filters let through; names in a filter may be in any case."""
        request: ListGroupsRequest = question.request
        states = {name.strip().lower() for name in request.states_filter}
        types = {name.strip().lower() for name in request.types_filter}
        found = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type.value,
            )
            for group in self._groups.values()
            if (not states or group.state_name.lower() in states) and (not types or group.type.lower() in types)
        ]
        return reply(question, ListGroupsResponse(groups=found))

    def describe(self, question: Question, now_ms: int) -> Decision:
        """DescribeGroups: classic groups; to this API no others exist."""
        request: DescribeGroupsRequest = question.request
        rows = [self._describe_classic(group_id, question.version) for group_id in request.groups]
        return reply(question, DescribeGroupsResponse(groups=rows))

    def describe_consumer(self, question: Question, now_ms: int) -> Decision:
        """ConsumerGroupDescribe: groups of the consumer protocol; to this API no others exist."""
        request: ConsumerGroupDescribeRequest = question.request
        rows = [self._describe_consumer(group_id) for group_id in request.group_ids]
        return reply(question, ConsumerGroupDescribeResponse(groups=rows))

    def delete(self, question: Question, now_ms: int) -> Decision:
        """DeleteGroups: groups without members, with their offsets; each is refused on its own."""
        request: DeleteGroupsRequest = question.request
        records: list[CoordinatorRecord] = []
        rows = []
        for group_id in dict.fromkeys(request.groups_names):
            row = DeletableGroupResult(group_id=group_id)
            rows.append(row)
            try:
                group = self._groups.get(group_id)
                if group is None:
                    raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND)
                group.check_delete()
            except ProtocolError as refusal:
                row.error_code = refusal.code
            else:
                records += self._offsets.tombstones(group_id)
                records += group.tombstones()
        # Divisible, for there may be very many offsets; a group goes when all of its own are gone.
        return replace(reply(question, DeleteGroupsResponse(results=rows), records), is_divisible=True)

    def _describe_classic(self, group_id: str, version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            is_stable = group.state is State.STABLE
            return DescribedGroup(
                group_id=group_id,
                group_state=group.state_name,
                protocol_type=group.protocol_type,
                protocol_data=group.protocol_name or "" if is_stable else "",
                members=[_describe_member(group, member, is_stable) for member in group.members.values()],
            )
        row = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        if version >= NOT_FOUND_FROM:
            row.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            row.error_message = _why_not(group_id, group, "classic")
        return row

    def _describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return described(group, self._settings().group_consumer_assignors, self._topics)
        return DescribedConsumerGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=_why_not(group_id, group, "consumer"),
        )

    EVENTS: ClassVar[dict[type, Callable[["AdminPart", Any, int], Decision]]] = {
        ListGroupsRequest: list_groups,
        DescribeGroupsRequest: describe,
        ConsumerGroupDescribeRequest: describe_consumer,
        DeleteGroupsRequest: delete,
    }
    REPLAYS: ClassVar[dict[type, Any]] = {}


def _describe_member(group: ClassicGroup, member: ClassicMember, is_stable: bool) -> DescribedGroupMember:
    """A member; what it reads and was given is shown once the group has settled."""
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )


def _why_not(group_id: str, group: Group | None, wanted: str) -> str:
    if group is None:
        return f"Group {group_id} not found."
    return f"Group {group_id} is not a {wanted} group."
