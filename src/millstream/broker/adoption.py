"""Taking over log directories that another Kafka broker wrote: a registry that is new learns their topics."""

from collections import defaultdict
from collections.abc import Iterable

from millstream.model.ids import ZERO_UUID
from millstream.registry.nodes import (
    CLUSTER_ID,
    OVERRIDES,
    PARTITION,
    PARTITION_STATE,
    PARTITIONS,
    PRODUCER_IDS,
    TOPIC,
    TOPICS,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)
from millstream.registry.tree import Create, Op, Registry
from millstream.storage.log import Log

#: KRaft keeps its metadata in a log of this name; it is no topic.
KRAFT_METADATA = "__cluster_metadata"
#: Topics of Kafka's own whose settings are not found in their folders.
COMPACTED = frozenset({"__consumer_offsets", "__transaction_state"})


async def is_new(registry: Registry) -> bool:
    """Whether no broker ever started on this registry."""
    return await registry.exists(CLUSTER_ID.path()) is None


async def adopt(registry: Registry, broker_id: int, logs: Iterable[Log]) -> list[str]:
    """Enter the topics of these logs, led by this broker, each with the epoch its log was last written under."""
    by_topic: dict[str, list[Log]] = defaultdict(list)
    producer_id_max = -1
    for log in logs:
        producer_id_max = max([producer_id_max, *(producer.producer_id for producer in log.producers)])
        if log.topic_partition.topic != KRAFT_METADATA:
            by_topic[log.topic_partition.topic].append(log)
    for topic, found in by_topic.items():
        await registry.multi(_entries(topic, found, broker_id))
    if producer_id_max >= 0:  # An id given anew would have its first batches taken for repeats, and dropped.
        block = ProducerIdBlock(broker_id, 0, producer_id_max)
        await registry.set(PRODUCER_IDS.path(), PRODUCER_IDS.encode(block))
    return sorted(by_topic)


def _entries(topic: str, logs: list[Log], broker_id: int) -> list[Op]:
    indexes = sorted(log.topic_partition.partition for log in logs)
    topic_id = next((log.topic_id for log in logs if log.topic_id != ZERO_UUID), ZERO_UUID)
    assignment = TopicAssignment(topic_id, dict.fromkeys(range(indexes[-1] + 1), (broker_id,)))
    ops: list[Op] = [Create(TOPIC.path(topic), TOPIC.encode(assignment)), Create(PARTITIONS.path(topic))]
    if topic in COMPACTED:
        ops.append(Create(OVERRIDES.path(TOPICS, topic), OVERRIDES.encode({"cleanup.policy": "compact"})))
    for log in logs:
        index = log.topic_partition.partition
        state = PartitionState(broker_id, max(log.epochs.latest, 0), (broker_id,), controller_epoch=0)
        ops.append(Create(PARTITION.path(topic, index)))
        ops.append(Create(PARTITION_STATE.path(topic, index), PARTITION_STATE.encode(state)))
    return ops
