"""Logs of partitions that were moved elsewhere while this broker was away."""

from typing import TYPE_CHECKING

from millstream.broker.cluster_view import LEADER_DURING_DELETE
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from millstream.broker.broker import Broker


def set_aside_strays(broker: "Broker", told: UpdateMetadataRequest) -> None:
    """Keep such logs, but out of the way: ``told`` names every replica there is.

    What a topic lost that is no longer known, or that is being deleted, is not decided here.
    """
    served = {partition.topic_partition for partition in broker.replicas}
    for topic in told.topic_states:
        for state in topic.partition_states:
            key = TopicPartition(topic.topic_name, state.partition_index)
            if broker.id in state.replicas or state.leader == LEADER_DURING_DELETE or key in served:
                continue
            if broker.logs.get(key, topic.topic_id) is not None:
                broker.logs.set_aside(key)
