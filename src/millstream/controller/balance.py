"""Giving leadership back to the replicas that should have it.

Pure.
"""

from collections.abc import Iterable

from millstream.controller.context import Context
from millstream.controller.elections import preferred
from millstream.controller.interface import ControllerSettings
from millstream.controller.leaders import decide
from millstream.controller.requests import Decision
from millstream.model.ids import TopicPartition


def elect_preferred(context: Context, keys: Iterable[TopicPartition], settings: ControllerSettings) -> Decision:
    """Lead again by the first replica of the assignment where it is in sync; others stay as they are."""
    decision = Decision()
    for key in keys:
        partition = None if key.topic in context.doomed else context.partition(key)
        if partition is None or partition.state is None or partition.leader == partition.replicas[0]:
            continue
        live = context.live_replicas(key, partition)
        elected = preferred(partition.replicas, partition.state.isr, live)
        if elected is not None:
            decide(context, key, partition, settings, elected, live, decision)
    return decision
