"""Consumer groups as an administrator sees them: listed, described, their offsets read and written."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.client.admin import Outcome
from millstream.client.cluster import check, error_of
from millstream.client.coordinators import Coordinators, Kind, Node
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from millstream.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerRow
from millstream.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from millstream.protocol.messages.describe_groups import (
    DescribedGroup as ClassicRow,
)
from millstream.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from millstream.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from millstream.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

CLASSIC = "classic"
CONSUMER = "consumer"
#: The protocol type of classic groups whose members are consumers, not Connect's workers or others.
CONSUMERS = "consumer"
#: What DescribeGroups says of a group that is not there, before it had an error for that.
DEAD = "Dead"
#: From these versions on, topics are named by their ids alone.
OFFSETS_BY_ID_FROM = 10
MEMBER_TYPES = {0: CLASSIC, 1: CONSUMER}


@dataclass(slots=True)
class ListedGroup:
    """A group in a listing; ``protocol`` is ``classic`` or ``consumer``, or a kind that came after them."""

    name: str
    protocol: str
    protocol_type: str
    state: str
    coordinator: Node
    #: None where the group's kind has another way of telling.
    members: int | None = None


@dataclass(slots=True)
class Member:
    """A member and the partitions it has; ``target`` are those it will have, where a plan says so."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: list[str] = field(default_factory=list)
    regex: str | None = None
    partitions: list[TopicPartition] = field(default_factory=list)
    target: list[TopicPartition] | None = None
    epoch: int | None = None
    protocol: str = CLASSIC


@dataclass(slots=True)
class Group:
    """A group and its members."""

    name: str
    protocol: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: Node
    members: list[Member]
    #: The generation of the membership; classic groups do not tell theirs.
    epoch: int | None = None


class Committed(NamedTuple):
    """How far a group has read a partition, and the note its consumer left with that."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


async def list_groups(coordinators: Coordinators) -> list[ListedGroup]:
    """Every group of the cluster by name, with its number of members."""
    answers = await coordinators.ask_every_broker(
        ListGroupsRequest(), ListGroupsResponse, lambda answer: answer.error_code
    )
    listings = [
        [
            ListedGroup(
                name=row.group_id,
                protocol=row.group_type.lower() or CLASSIC,
                protocol_type=row.protocol_type,
                state=row.group_state,
                coordinator=node,
            )
            for row in answer.groups
        ]
        for node, answer in answers.items()
    ]
    await asyncio.gather(*(_count_members(coordinators, listing) for listing in listings if listing))
    return sorted((group for listing in listings for group in listing), key=lambda group: group.name)


async def _count_members(coordinators: Coordinators, listing: Sequence[ListedGroup]) -> None:
    """Ask the broker that listed them; a group that moved away meanwhile is left uncounted."""
    cluster = coordinators.cluster
    connection = await cluster.broker_at(listing[0].coordinator.address)
    by_name = {group.name: group for group in listing}
    rows: list[ClassicRow | ConsumerRow] = []
    if classic := [group.name for group in listing if group.protocol == CLASSIC]:
        answer = await connection.call(
            DescribeGroupsRequest(groups=classic), DescribeGroupsResponse, timeout_s=cluster.timeout_s
        )
        rows += answer.groups
    if consumer := [group.name for group in listing if group.protocol == CONSUMER]:
        described = await connection.call(
            ConsumerGroupDescribeRequest(group_ids=consumer),
            ConsumerGroupDescribeResponse,
            timeout_s=cluster.timeout_s,
        )
        rows += described.groups
    for row in rows:
        if not row.error_code:
            group = by_name[row.group_id]
            group.members = len(row.members)
            group.state = group.state or row.group_state  # Old brokers list no states.


async def describe_group(coordinators: Coordinators, name: str) -> Group:
    """The group with its members, whichever protocol it speaks; GROUP_ID_NOT_FOUND when there is none."""
    node = await coordinators.find(Kind.GROUP, name)
    consumer = await _consumer_row(coordinators, name, node)
    if consumer is not None:
        return _group_of_consumers(consumer, node)
    answer = await coordinators.ask(
        Kind.GROUP,
        name,
        DescribeGroupsRequest(groups=[name]),
        DescribeGroupsResponse,
        lambda answer: [row.error_code for row in answer.groups],
    )
    [row] = answer.groups
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not row.error_code and row.group_state == DEAD):
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name!r}")
    check(row.error_code, row.error_message or f"group {name!r}")
    return _classic_group(row, await coordinators.find(Kind.GROUP, name))


async def _consumer_row(coordinators: Coordinators, name: str, node: Node) -> ConsumerRow | None:
    """What a broker that knows the consumer protocol says of the group; None when it is a classic one, or none."""
    connection = await coordinators.cluster.broker_at(node.address)
    if ConsumerGroupDescribeRequest.API_KEY not in connection.versions:
        return None
    answer = await coordinators.ask(
        Kind.GROUP,
        name,
        ConsumerGroupDescribeRequest(group_ids=[name]),
        ConsumerGroupDescribeResponse,
        lambda answer: [row.error_code for row in answer.groups],
    )
    [row] = answer.groups
    if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    check(row.error_code, row.error_message or f"group {name!r}")
    return row


def _group_of_consumers(row: ConsumerRow, node: Node) -> Group:
    members = [
        Member(
            id=each.member_id,
            instance_id=each.instance_id,
            client_id=each.client_id,
            host=each.client_host,
            topics=list(each.subscribed_topic_names),
            regex=each.subscribed_topic_regex,
            partitions=_partitions_of(each.assignment),
            target=_partitions_of(each.target_assignment),
            epoch=each.member_epoch,
            protocol=MEMBER_TYPES.get(each.member_type, CONSUMER),
        )
        for each in row.members
    ]
    return Group(row.group_id, CONSUMER, CONSUMERS, row.group_state, row.assignor_name, node, members, row.group_epoch)


def _partitions_of(assignment: Assignment) -> list[TopicPartition]:
    return sorted(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _classic_group(row: ClassicRow, node: Node) -> Group:
    members = [_classic_member(each, row.protocol_type) for each in row.members]
    return Group(row.group_id, CLASSIC, row.protocol_type, row.group_state, row.protocol_data, node, members)


def _classic_member(row: DescribedGroupMember, protocol_type: str) -> Member:
    """What members tell each other is read where they are consumers; others have formats of their own."""
    from millstream.coordination.schemas.consumer_protocol import decode_assignment, decode_subscription

    member = Member(row.member_id, row.group_instance_id, row.client_id, row.client_host)
    if protocol_type != CONSUMERS:
        return member
    try:
        if row.member_metadata:
            member.topics = sorted(decode_subscription(bytes(row.member_metadata)).topics)
        if row.member_assignment:
            assigned = decode_assignment(bytes(row.member_assignment)).assigned_partitions
            member.partitions = sorted(
                TopicPartition(each.topic, part) for each in assigned for part in each.partitions
            )
    except CorruptFrame:
        pass  # A client's own dialect; the rest is worth showing.
    return member


async def committed_offsets(coordinators: Coordinators, name: str) -> dict[TopicPartition, Committed]:
    """Every offset the group has committed, by partition; none for a group that is not there."""
    answer = await coordinators.ask(
        Kind.GROUP,
        name,
        OffsetFetchRequest(
            group_id=name, topics=None, groups=[OffsetFetchRequestGroup(group_id=name, member_id=None, topics=None)]
        ),
        OffsetFetchResponse,
        lambda answer: [answer.error_code, *(row.error_code for row in answer.groups)],
        version_max=OFFSETS_BY_ID_FROM - 1,
    )
    group = answer.groups[0] if answer.groups else answer
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    check(group.error_code, f"group {name!r}")
    committed = {}
    for topic in group.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            check(row.error_code, f"group {name!r}, partition {tp}")
            if row.committed_offset >= 0:
                committed[tp] = Committed(row.committed_offset, row.metadata or "", row.committed_leader_epoch)
    return dict(sorted(committed.items()))


async def commit_offsets(
    coordinators: Coordinators,
    name: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member_id: str = "",
    generation: int = -1,
) -> None:
    """Commit as a member, or for a group that has none (UNKNOWN_MEMBER_ID when it has); the first refusal is raised."""
    answer = await coordinators.ask(
        Kind.GROUP,
        name,
        OffsetCommitRequest(
            group_id=name,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number, committed_offset=offsets[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        ),
        OffsetCommitResponse,
        lambda answer: [row.error_code for topic in answer.topics for row in topic.partitions],
        version_max=OFFSETS_BY_ID_FROM - 1,
    )
    for topic in answer.topics:
        for row in topic.partitions:
            check(row.error_code, f"group {name!r}, partition {topic.name}-{row.partition_index}")


async def delete_groups(coordinators: Coordinators, names: Iterable[str]) -> list[Outcome]:
    """Forget groups without members, and their offsets; an outcome for each."""

    async def delete(name: str) -> Outcome:
        answer = await coordinators.ask(
            Kind.GROUP,
            name,
            DeleteGroupsRequest(groups_names=[name]),
            DeleteGroupsResponse,
            lambda answer: [row.error_code for row in answer.results],
            again_if_lost=False,
        )
        return Outcome(name, error_of(answer.results[0].error_code))

    return await asyncio.gather(*map(delete, dict.fromkeys(names)))


async def delete_offsets(
    coordinators: Coordinators, name: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Forget the group's offsets of some partitions; how it went for each."""
    answer = await coordinators.ask(
        Kind.GROUP,
        name,
        OffsetDeleteRequest(
            group_id=name,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        ),
        OffsetDeleteResponse,
        lambda answer: [answer.error_code],
    )
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name!r}")
    check(answer.error_code, f"group {name!r}")
    return {
        TopicPartition(topic.name, row.partition_index): error_of(row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions' numbers under their topics' names."""
    grouped: dict[str, list[int]] = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return grouped
