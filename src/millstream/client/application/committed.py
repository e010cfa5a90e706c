"""What a group has committed, asked as one of its own would ask.

confluent-kafka's admin client has a call for it; but where that is told that the group is with another broker now,
librdkafka ends the whole process (its issue 5040).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as WirePartition

from millstream.client.application.reach import asked
from millstream.client.application.settings import made
from millstream.model.ids import TopicPartition


def committed(settings: Mapping[str, Any], group: str, timeout_s: float, doing: str) -> dict[TopicPartition, int]:
    """The offsets of a group, whoever its members are; what a transaction may yet commit is not waited for."""
    bootstrap = str(settings["bootstrap.servers"])
    own = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_uncommitted"}
    reader = made(Consumer, {**settings, **own})
    try:
        topics = asked(bootstrap, timeout_s, lambda left_s: reader.list_topics(timeout=left_s).topics, doing)
        every = [WirePartition(name, index) for name, topic in topics.items() for index in topic.partitions]
        if not every:
            return {}
        found = asked(bootstrap, timeout_s, lambda left_s: reader.committed(every, timeout=left_s), doing)
    finally:
        reader.close()
    return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}
