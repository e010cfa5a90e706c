"""How far moves are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from millstream.client.moves import moves

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.model.ids import TopicPartition

LOOK_AGAIN_S = 0.5

DONE = "done"
MOVING = "moving"
ELSEWHERE = "elsewhere"


async def states(cluster: Cluster, plan: Mapping[TopicPartition, Sequence[int]]) -> list[dict[str, object]]:
    """A row for each partition: whether it is where it should be, on its way, or elsewhere and not moving."""
    moving = await moves(cluster, plan)
    await cluster.refresh({key.topic for key in plan})
    rows: list[dict[str, object]] = []
    for key, target in plan.items():
        partition = await cluster.partition(key)
        is_there = partition.replicas == list(target)
        rows.append(
            {
                "topic": key.topic,
                "partition": key.partition,
                "state": MOVING if key in moving else DONE if is_there else ELSEWHERE,
                "target": list(target),
                "replicas": partition.replicas,
                "in_sync": partition.in_sync,
                "missing": [broker for broker in target if broker not in partition.in_sync],
            }
        )
    return rows


async def until_moved(cluster: Cluster, plan: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Return when none of these partitions is on its way any more."""
    while True:
        if not plan or not await moves(cluster, plan):
            return
        await asyncio.sleep(LOOK_AGAIN_S)
