"""Slowing moves down, by the settings that Kafka's tools use for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from millstream.client.admin import Change, Operation, Resource, alter_configs, describe_configs

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.model.ids import TopicPartition

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
SENDERS = "leader.replication.throttled.replicas"
FETCHERS = "follower.replication.throttled.replicas"


async def slow_down(cluster: Cluster, plan: Mapping[TopicPartition, Sequence[int]], rate: int) -> None:
    """Let what the plan copies flow no faster than ``rate`` bytes a second, out of and into each broker."""
    senders: dict[str, list[str]] = {}
    fetchers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for key, target in plan.items():
        current = (await cluster.partition(key)).replicas
        new = [broker for broker in target if broker not in current]
        if new:
            senders.setdefault(key.topic, []).extend(f"{key.partition}:{broker}" for broker in current)
            fetchers.setdefault(key.topic, []).extend(f"{key.partition}:{broker}" for broker in new)
            brokers.update(current, new)
    for topic, names in senders.items():
        changes = [
            Change(SENDERS, Operation.SET, ",".join(names)),
            Change(FETCHERS, Operation.SET, ",".join(fetchers[topic])),
        ]
        await alter_configs(cluster, Resource.TOPIC, topic, changes)
    rates = [Change(name, Operation.SET, str(rate)) for name in RATES]
    for broker in sorted(brokers & cluster.brokers.keys()):
        await alter_configs(cluster, Resource.BROKER, str(broker), rates)


async def speed_up(cluster: Cluster, topics: set[str]) -> None:
    """Take all of that back, for these topics and every broker, where it was set, and say so."""
    freed = [
        f"topic {topic}"
        for topic in sorted(topics)
        if await _unset(cluster, Resource.TOPIC, topic, (SENDERS, FETCHERS))
    ]
    freed += [
        f"broker {broker}"
        for broker in sorted(cluster.brokers)
        if await _unset(cluster, Resource.BROKER, str(broker), RATES)
    ]
    if freed:
        print(f"millstream: took the throttle off {', '.join(freed)}", file=sys.stderr)


async def _unset(cluster: Cluster, resource: Resource, name: str, settings: Sequence[str]) -> bool:
    """Whether there was anything to unset."""
    values = await describe_configs(cluster, resource, name)
    changes = [Change(each.name, Operation.DELETE) for each in values if each.name in settings and _is_set(each.source)]
    if changes:
        await alter_configs(cluster, resource, name, changes)
    return bool(changes)


def _is_set(source: str) -> bool:
    return source in ("topic", "dynamic broker")
