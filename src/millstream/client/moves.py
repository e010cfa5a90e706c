"""Who holds partitions and who leads them: moving them, looking how far that is, and electing leaders."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from millstream.client.admin import Outcome
from millstream.client.cluster import Cluster, check, error_of
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from millstream.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from millstream.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)


class Moving(NamedTuple):
    """A partition on its way: all its replicas, and which of them are coming and going."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


class Election(IntEnum):
    """Who shall lead, by Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


async def move(cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None]) -> list[Outcome]:
    """Begin to move partitions to these brokers; None takes a move back.  An outcome for each partition."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.timeout_s * 1000),
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=key.partition, replicas=None if (to := targets[key]) is None else list(to)
                    )
                    for key in keys
                ],
            )
            for name, keys in _by_topic(targets).items()
        ],
    )
    answer = await cluster.ask_controller(
        request, AlterPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )
    check(answer.error_code, answer.error_message)
    cluster.forget({key.topic for key in targets})
    return [
        Outcome(f"{topic.name}-{row.partition_index}", error_of(row.error_code), row.error_message or "")
        for topic in answer.responses
        for row in topic.partitions
    ]


async def moves(cluster: Cluster, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Moving]:
    """Those of these partitions, or of all, that are being moved."""
    request = ListPartitionReassignmentsRequest(timeout_ms=int(cluster.timeout_s * 1000))
    if partitions is not None:
        request.topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=[key.partition for key in keys])
            for name, keys in _by_topic(partitions).items()
        ]
    answer = await cluster.ask_controller(
        request, ListPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )
    check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, row.partition_index): Moving(
            row.replicas, row.adding_replicas, row.removing_replicas
        )
        for topic in answer.topics
        for row in topic.partitions
    }


async def elect_leaders(
    cluster: Cluster, kind: Election, partitions: Iterable[TopicPartition] | None = None
) -> list[Outcome]:
    """Elect leaders of these partitions, or of all that need it; an outcome for each that was named or changed."""
    request = ElectLeadersRequest(
        election_type=int(kind), topic_partitions=None, timeout_ms=int(cluster.timeout_s * 1000)
    )
    if partitions is not None:
        request.topic_partitions = [
            TopicPartitions(topic=name, partitions=[key.partition for key in keys])
            for name, keys in _by_topic(partitions).items()
        ]
    answer = await cluster.ask_controller(request, ElectLeadersResponse, lambda answer: [answer.error_code])
    check(answer.error_code)
    outcomes = [
        Outcome(f"{topic.topic}-{row.partition_id}", error_of(row.error_code), row.error_message or "")
        for topic in answer.replica_election_results
        for row in topic.partition_result
    ]
    cluster.forget({topic.topic for topic in answer.replica_election_results})
    return outcomes


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for key in partitions:
        topics.setdefault(key.topic, []).append(key)
    return topics
