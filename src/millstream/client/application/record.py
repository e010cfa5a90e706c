"""A record as it was read: a thin cover over confluent-kafka's message, decoded when looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import Message

from millstream.client.application.errors import SerializationFailed
from millstream.client.application.serialization import Deserializer
from millstream.model.ids import TopicPartition

#: Names and values in their order; a name may come twice.
Headers = list[tuple[str, bytes | None]]

_UNREAD: Any = object()


class Record:
    """One record.  ``key`` and ``value`` are as its consumer's deserializers make them; raw, they are there always."""

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    @property
    def topic(self) -> str:
        return self._message.topic()  # type: ignore[return-value]  # A record that was read has all of these.

    @property
    def partition(self) -> int:
        return self._message.partition()  # type: ignore[return-value]

    @property
    def offset(self) -> int:
        return self._message.offset()  # type: ignore[return-value]

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970, by the producer's clock, or the broker's where the topic says so; -1 for none."""
        return self._message.timestamp()[1]

    @property
    def timestamp(self) -> datetime:
        """The same as an aware time in UTC."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def headers(self) -> Headers:
        return list(self._message.headers() or ())  # type: ignore[arg-type]

    @property
    def raw_key(self) -> bytes | None:
        return self._message.key()

    @property
    def raw_value(self) -> bytes | None:
        return self._message.value()

    @property
    def key(self) -> Any:
        return self._message.key()

    @property
    def value(self) -> Any:
        return self._message.value()

    def header(self, name: str) -> bytes | None:
        """The last value of this name, which is the one that counts, or None."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def __repr__(self) -> str:
        shown = f"{self.topic}-{self.partition}@{self.offset}"
        return f"Record({shown}, key={self.raw_key!r}, value={self.raw_value!r})"


class DecodedRecord(Record):
    """A record whose key or value has a deserializer: each is decoded when first looked at."""

    __slots__ = ("_by_key", "_by_value", "_key", "_value")

    def __init__(self, message: Message, by_key: Deserializer | None, by_value: Deserializer | None) -> None:
        self._message = message
        self._by_key = by_key
        self._by_value = by_value
        self._key = _UNREAD
        self._value = _UNREAD

    @property
    def key(self) -> Any:
        if self._key is _UNREAD:
            self._key = self._decoded("key", self._message.key(), self._by_key)
        return self._key

    @property
    def value(self) -> Any:
        if self._value is _UNREAD:
            self._value = self._decoded("value", self._message.value(), self._by_value)
        return self._value

    def _decoded(self, what: str, raw: bytes | None, by: Deserializer | None) -> Any:
        if raw is None or by is None:
            return raw
        try:
            return by(raw)
        except Exception as error:
            raise SerializationFailed(
                f"the {what} at {self.topic}-{self.partition}@{self.offset} cannot be decoded: {error}"
            ) from error


def record_maker(by_key: Deserializer | None, by_value: Deserializer | None) -> Callable[[Message], Record]:
    """What makes records of messages; the plain ones cost half as much."""
    if by_key is None and by_value is None:
        return Record
    return lambda message: DecodedRecord(message, by_key, by_value)
