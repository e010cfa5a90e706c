"""The nodes of registry consumers, below /consumers, as Kafka's own older consumers lay them out."""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from millstream.model.ids import INTERNAL_TOPICS
from millstream.registry.nodes import NodeType

#: How topics are chosen: by name, by what a pattern matches, by what it does not.
STATIC, INCLUDING, EXCLUDING = "static", "white_list", "black_list"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """A member of a group: its topics, or the one pattern that stands for them, and how many streams read each."""

    subscription: Mapping[str, int]
    pattern: str = STATIC
    timestamp_ms: int = 0

    def topics(self, there: Iterable[str]) -> Collection[str]:
        """Those it reads of the topics that are there; a pattern never means Kafka's own."""
        if self.pattern == STATIC:
            return {topic for topic in there if topic in self.subscription}
        filters = [topic_filter(text) for text in self.subscription]
        is_wanted = self.pattern == INCLUDING
        return {
            topic
            for topic in there
            if topic not in INTERNAL_TOPICS and any(each.fullmatch(topic) for each in filters) == is_wanted
        }

    def streams(self, topic: str) -> int:
        """How many of its streams read a topic."""
        return self.subscription.get(topic, 1) if self.pattern == STATIC else next(iter(self.subscription.values()), 1)


def topic_filter(text: str) -> re.Pattern[str]:
    """A pattern over topics' names; a comma means or, as in Kafka.  ValueError when it is none."""
    try:
        return re.compile(text.replace(" ", "").replace(",", "|"))
    except re.error as error:
        raise ValueError(f"{text!r} is not a pattern of topics: {error}") from None


def _encode_consumer(consumer: ConsumerRegistration) -> bytes:
    value = {
        "version": 1,
        "subscription": dict(consumer.subscription),
        "pattern": consumer.pattern,
        "timestamp": str(consumer.timestamp_ms),
    }
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _read_consumer(data: bytes) -> ConsumerRegistration:
    value = json.loads(data)
    return ConsumerRegistration(
        subscription={str(topic): int(streams) for topic, streams in value["subscription"].items()},
        pattern=value.get("pattern", STATIC),
        timestamp_ms=int(value.get("timestamp", 0)),
    )


def _encode_number(number: int) -> bytes:
    return str(number).encode()


CONSUMER_IDS = NodeType("/consumers/{}/ids", lambda _: b"", lambda _: None)
CONSUMER = NodeType("/consumers/{}/ids/{}", _encode_consumer, _read_consumer)
OWNERS = NodeType("/consumers/{}/owners/{}", lambda _: b"", lambda _: None)
OWNER = NodeType("/consumers/{}/owners/{}/{}", str.encode, bytes.decode)
OFFSETS = NodeType("/consumers/{}/offsets/{}", lambda _: b"", lambda _: None)
OFFSET = NodeType("/consumers/{}/offsets/{}/{}", _encode_number, int)
