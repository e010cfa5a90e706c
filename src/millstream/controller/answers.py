"""What brokers' answers to orders say of their replicas."""

from collections.abc import Mapping

from millstream.controller.context import Context
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

#: A broker that answers a role with one of these does not serve the replica.
UNSERVED = frozenset((ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR))


def unserved(context: Context, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> set[TopicPartition]:
    """The replicas of the request that the broker could not give their role, one by one or all together."""
    errors = {
        (topic.topic_id, error.partition_index): error.error_code
        for topic in response.topics
        for error in topic.partition_errors
    }
    return {
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if errors.get((topic.topic_id, state.partition_index), response.error_code) in UNSERVED
        and context.names_by_id.get(topic.topic_id) == topic.topic_name  # Not a namesake that came since.
    }


def deletions(request: StopReplicaRequest, response: StopReplicaResponse) -> Mapping[TopicPartition, int]:
    """The replicas that the request asked to delete, and what came of each."""
    errors = {TopicPartition(e.topic_name, e.partition_index): e.error_code for e in response.partition_errors}
    asked = (
        TopicPartition(topic.topic_name, partition.partition_index)
        for topic in request.topic_states
        for partition in topic.partition_states
        if partition.delete_partition
    )
    return {key: errors.get(key, response.error_code) for key in asked}
