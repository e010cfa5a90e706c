"""AlterPartitionReassignments (45), ListPartitionReassignments (46) and ElectLeaders (43): who holds and leads what."""

from collections.abc import Iterable

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.refusals import REFUSALS, refusal
from millstream.controller.balance import Kind
from millstream.controller.interface import PartitionOutcome
from millstream.controller.reassignment import Move
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from millstream.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from millstream.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

#: Before this version an election has no error for the whole, and there is one kind of it.
KINDS_FROM_VERSION = 1


async def alter(
    broker: Broker, request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    """Begin to move partitions, or leave them where they were; answered when that is written, not when it is done."""
    moves = [
        Move(TopicPartition(topic.name, row.partition_index), row.replicas)
        for topic in request.topics
        for row in topic.partitions
    ]
    may_change_factor = request.allow_replication_factor_change
    answer = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_change_factor)
    try:
        outcomes = await broker.controller.reassign(moves, may_change_factor=may_change_factor)
    except REFUSALS as error:
        answer.error_code, answer.error_message = refusal(error)
        return answer
    topics: dict[str, ReassignableTopicResponse] = {}
    for outcome in outcomes:
        name, index = outcome.partition
        topic = topics.setdefault(name, ReassignableTopicResponse(name=name))
        topic.partitions.append(
            ReassignablePartitionResponse(
                partition_index=index, error_code=outcome.error_code, error_message=outcome.error_message
            )
        )
    answer.responses = list(topics.values())
    return answer


async def list_all(
    broker: Broker, request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    """The partitions that are being moved, of those asked for; the others have no row."""
    wanted = None
    if request.topics is not None:
        wanted = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    try:
        found = await broker.controller.reassignments(wanted)
    except REFUSALS as error:
        code, message = refusal(error)
        return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
    topics: dict[str, OngoingTopicReassignment] = {}
    for (name, index), moving in sorted(found.items()):
        topic = topics.setdefault(name, OngoingTopicReassignment(name=name))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(moving.replicas),
                adding_replicas=list(moving.adding),
                removing_replicas=list(moving.removing),
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))


async def elect(broker: Broker, request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    """Elect leaders of the partitions named, or of all that need it."""
    wanted = None
    if request.topic_partitions is not None:
        wanted = [TopicPartition(each.topic, index) for each in request.topic_partitions for index in each.partitions]
    try:
        kind = Kind(request.election_type)
    except ValueError:
        message = f"there is no election of type {request.election_type}"
        outcomes = [PartitionOutcome(key, ErrorCode.INVALID_REQUEST, message) for key in wanted or ()]
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=_results(outcomes))
    try:
        return ElectLeadersResponse(
            replica_election_results=_results(await broker.controller.elect_leaders(kind, wanted))
        )
    except REFUSALS as error:
        code, message_or_none = refusal(error)
        outcomes = [PartitionOutcome(key, code, message_or_none) for key in wanted or ()]
        is_told = call.version >= KINDS_FROM_VERSION
        return ElectLeadersResponse(error_code=code if is_told else 0, replica_election_results=_results(outcomes))


def _results(outcomes: Iterable[PartitionOutcome]) -> list[ReplicaElectionResult]:
    topics: dict[str, ReplicaElectionResult] = {}
    for outcome in outcomes:
        name, index = outcome.partition
        topic = topics.setdefault(name, ReplicaElectionResult(topic=name))
        topic.partition_result.append(
            PartitionResult(partition_id=index, error_code=outcome.error_code, error_message=outcome.error_message)
        )
    return list(topics.values())
