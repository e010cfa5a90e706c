"""What a consumer is asked to read, as librdkafka takes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, KafkaException
from confluent_kafka import TopicPartition as WirePartition

from millstream.client.application import arguments
from millstream.client.application.errors import UnknownTopic, translated
from millstream.client.application.reach import asked
from millstream.client.application.start import Start, placed

if TYPE_CHECKING:
    from confluent_kafka import Consumer as Wire


def chosen_topics(given: Iterable[Any]) -> tuple[str | re.Pattern[str], ...]:
    """Names and patterns, also where they come in lists."""
    chosen: list[str | re.Pattern[str]] = []
    for topic in given:
        if isinstance(topic, list | tuple | set | frozenset):
            chosen += chosen_topics(topic)
        elif isinstance(topic, re.Pattern):
            chosen.append(topic)
        else:
            chosen.append(arguments.name("topic", topic))
    return tuple(chosen)


def subscribed_name(topic: str | re.Pattern[str]) -> str:
    """A name as it is; a pattern, which must match a whole name, as librdkafka knows patterns: by a leading ``^``."""
    if isinstance(topic, str):
        return topic
    return f"^({topic.pattern.removeprefix('^').removesuffix('$')})$"


def every_partition(
    wire: Wire, topics: Sequence[str | re.Pattern[str]], bootstrap: str, timeout_s: float
) -> list[WirePartition]:
    """All partitions of these topics as they are now; UnknownTopic for a name that there is not."""
    found = asked(bootstrap, timeout_s, lambda left_s: wire.list_topics(timeout=left_s).topics, "asking for the topics")
    chosen: dict[str, None] = {}
    for topic in topics:
        if isinstance(topic, str):
            if topic not in found:
                raise UnknownTopic(f"there is no topic {topic!r}; create it with Admin().create_topic(…)")
            chosen[topic] = None
        else:
            chosen |= dict.fromkeys(name for name in sorted(found) if topic.fullmatch(name))
    return [WirePartition(name, index) for name in chosen for index in sorted(found[name].partitions)]


def begun(
    wire: Wire, partitions: list[WirePartition], start: Start, *, in_group: bool, timeout_s: float
) -> list[WirePartition]:
    """The partitions with the offset where each is to begin: the group's, where it has one, else the start's."""
    if not in_group:
        return placed(wire, partitions, start, timeout_s)
    if isinstance(start, str):  # librdkafka knows what to do, by auto.offset.reset.
        return [WirePartition(p.topic, p.partition, OFFSET_INVALID) for p in partitions]
    try:
        committed = wire.committed(partitions, timeout_s) if partitions else []
    except KafkaException as exception:
        raise translated(exception, "asking for committed offsets") from exception
    return [p for p in committed if p.offset >= 0] + placed(
        wire, [p for p in committed if p.offset < 0], start, timeout_s
    )
