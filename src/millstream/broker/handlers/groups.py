"""Consumer groups and their offsets (APIs 8, 9, 11 to 16, 42, 47, 68, 69).

Each request goes to the shard that keeps its group; one that names several groups is taken apart, and what is said of
each is put together again.  A refusal has its place in every answer: for the whole, for the group, or in every row.
"""

from collections.abc import Callable
from typing import Any

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.coordination.groups.settings import group_settings
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from millstream.protocol.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from millstream.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from millstream.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from millstream.protocol.messages.leave_group import LeaveGroupRequest
from millstream.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from millstream.protocol.messages.sync_group import SyncGroupRequest

#: What anyone may do with a group while nothing is restricted: bit n stands for Kafka's operation n.
GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
#: OffsetFetch has an error for the whole group, and then several groups, from these versions on.
FETCH_ERROR_FROM = 2
FETCH_GROUPS_FROM = 8
#: What is refused of a group without a name, by every broker: nobody is to look for its coordinator.
NAMELESS = {
    JoinGroupRequest: ErrorCode.INVALID_GROUP_ID,
    SyncGroupRequest: ErrorCode.INVALID_GROUP_ID,
    HeartbeatRequest: ErrorCode.INVALID_GROUP_ID,
    LeaveGroupRequest: ErrorCode.INVALID_GROUP_ID,
    ConsumerGroupHeartbeatRequest: ErrorCode.INVALID_REQUEST,
}


async def ask(broker: Broker, group_id: str, request: Any, call: Call) -> Any:
    """What the group's coordinator answers; its refusal is a ``ProtocolError``."""
    if not group_id and (code := NAMELESS.get(type(request))) is not None:
        raise ProtocolError(code, "the group has no name")
    shard = broker.groups.shard_for(group_id)
    return await shard.ask(request, call.version, call.header.client_id or "", f"/{call.connection.host}")


async def of_one_group(broker: Broker, request: Any, call: Call) -> Any:
    """Requests of one group whose answer has an error of its own: SyncGroup, Heartbeat, LeaveGroup, OffsetDelete."""
    return await ask(broker, request.group_id, request, call)


async def join(broker: Broker, request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    """JoinGroup; a member that is refused is still called by its name."""
    try:
        answer: JoinGroupResponse = await ask(broker, request.group_id, request, call)
    except ProtocolError as refusal:
        return JoinGroupResponse(error_code=refusal.code, member_id=request.member_id)
    return answer


async def consumer_heartbeat(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, call: Call
) -> ConsumerGroupHeartbeatResponse:
    """ConsumerGroupHeartbeat, where the protocol is allowed."""
    if not _has_consumer_protocol(broker):
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols leaves consumer out")
    answer: ConsumerGroupHeartbeatResponse = await ask(broker, request.group_id, request, call)
    return answer


# Offsets.


async def commit(broker: Broker, request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    """OffsetCommit: a refusal is told in every row."""
    try:
        answer: OffsetCommitResponse = await ask(broker, request.group_id, request, call)
    except ProtocolError as refusal:
        code = refusal.code
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    return answer


async def fetch(broker: Broker, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    """OffsetFetch: one group, or several, each of which may be refused alone."""
    if call.version < FETCH_GROUPS_FROM:
        return await _fetch_one(broker, request, call)
    answer = OffsetFetchResponse()
    for group in request.groups:
        single = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
        try:
            answer.groups += (await ask(broker, group.group_id, single, call)).groups
        except ProtocolError as refusal:
            answer.groups.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=refusal.code))
    return answer


async def _fetch_one(broker: Broker, request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    try:
        answer: OffsetFetchResponse = await ask(broker, request.group_id, request, call)
    except ProtocolError as refusal:
        if call.version >= FETCH_ERROR_FROM:
            return OffsetFetchResponse(error_code=refusal.code)
        code = refusal.code
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=index, committed_offset=-1, metadata="", error_code=code
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics or []
            ]
        )
    return answer


# Administration.


async def list_groups(broker: Broker, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """ListGroups: all that are kept here; what another broker has taken over meanwhile is that one's to tell."""
    answer = ListGroupsResponse()
    for shard in broker.groups.shards():
        try:
            answer.groups += (await shard.ask(request, call.version, call.header.client_id or "", "")).groups
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.NOT_COORDINATOR:
                return ListGroupsResponse(error_code=refusal.code)
    return answer


async def describe(broker: Broker, request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    """DescribeGroups: each group, or why not."""
    rows = await _of_each(
        broker,
        request.groups,
        call,
        lambda group_id: DescribeGroupsRequest(groups=[group_id]),
        lambda answer: answer.groups,
        lambda group_id, refusal: DescribedGroup(
            group_id=group_id, error_code=refusal.code, error_message=refusal.detail or None
        ),
    )
    if request.include_authorized_operations:
        _allow_all(rows)
    return DescribeGroupsResponse(groups=rows)


async def describe_consumer(
    broker: Broker, request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe: each group, or why not; never an empty answer, which ends librdkafka."""

    def refused(group_id: str, refusal: ProtocolError) -> DescribedConsumerGroup:
        return DescribedConsumerGroup(group_id=group_id, error_code=refusal.code, error_message=refusal.detail or None)

    if not _has_consumer_protocol(broker):
        refusal = ProtocolError(ErrorCode.UNSUPPORTED_VERSION)
        return ConsumerGroupDescribeResponse(groups=[refused(group_id, refusal) for group_id in request.group_ids])
    rows = await _of_each(
        broker,
        request.group_ids,
        call,
        lambda group_id: ConsumerGroupDescribeRequest(group_ids=[group_id]),
        lambda answer: answer.groups,
        refused,
    )
    if request.include_authorized_operations:
        _allow_all(rows)
    return ConsumerGroupDescribeResponse(groups=rows)


async def delete(broker: Broker, request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    """DeleteGroups: each group, or why not."""
    rows = await _of_each(
        broker,
        list(dict.fromkeys(request.groups_names)),
        call,
        lambda group_id: DeleteGroupsRequest(groups_names=[group_id]),
        lambda answer: answer.results,
        lambda group_id, refusal: DeletableGroupResult(group_id=group_id, error_code=refusal.code),
    )
    return DeleteGroupsResponse(results=rows)


async def _of_each(
    broker: Broker,
    group_ids: list[str],
    call: Call,
    single: Callable[[str], Any],
    rows_of: Callable[[Any], list[Any]],
    refused: Callable[[str, ProtocolError], Any],
) -> list[Any]:
    """Ask each group's own coordinator, and put the rows together."""
    rows: list[Any] = []
    for group_id in group_ids:
        try:
            rows += rows_of(await ask(broker, group_id, single(group_id), call))
        except ProtocolError as refusal:
            rows.append(refused(group_id, refusal))
    return rows


def _allow_all(rows: list[Any]) -> None:
    for row in rows:
        if not row.error_code:
            row.authorized_operations = GROUP_OPERATIONS


def _has_consumer_protocol(broker: Broker) -> bool:
    return group_settings(broker.settings.config).has_consumer_protocol
