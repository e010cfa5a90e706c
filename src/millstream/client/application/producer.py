"""Sending records: at once or waited for, in transactions or not, to the partition of one's choice."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka import Producer as Wire

from millstream.client.application import arguments
from millstream.client.application.delivery import PRODUCER_PREFERENCES, PRODUCER_PROMISES, Delivery
from millstream.client.application.errors import (
    BadSetting,
    BadUse,
    DeliveryFailed,
    MillstreamError,
    UnknownTopic,
    translated,
)
from millstream.client.application.partitioners import KEY_HASH, Partitioner
from millstream.client.application.partitioners import partitioner as partitioner_of
from millstream.client.application.reach import is_refused
from millstream.client.application.sent import Outbox, Sent
from millstream.client.application.serialization import Serializer, serialized, serializer, to_bytes
from millstream.client.application.settings import heard, made, merged
from millstream.client.application.transaction import Transaction

if TYPE_CHECKING:
    from millstream.client.application.consumer import Consumer

#: By name, or in pairs where a name comes twice.
HeadersToSend: TypeAlias = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

#: Deliveries are served once in so many records; each time costs a fraction of a microsecond.
SERVE_EVERY_RECORDS = 50
#: How long a topic's number of partitions is taken for granted.
COUNT_TTL_S = 30.0
METADATA_TIMEOUT_S = 15.0
CLOSE_TIMEOUT_S = 30.0
#: After Ctrl-C, what can go out at once does, and nothing is waited for.
INTERRUPT_TIMEOUT_S = 1.0


class Producer:
    """Sends records.  Use it as a context manager: leaving waits for what is on its way, and raises what failed.

    ``delivery`` is the promise (see Delivery); EXACTLY_ONCE sends in transactions only. ``transactional_id`` chooses
    EXACTLY_ONCE; without one a random one is used. Give a name of its own to each producer that runs at a time, and the
    same again after a restart: whatever its predecessor left open is then aborted at once, and not after
    ``transaction.timeout.ms``. ``config`` takes any setting of librdkafka. Safe to use from several threads.
    """

    def __init__(
        self,
        bootstrap: str | None = None,
        *,
        delivery: Delivery | str | None = None,
        key_serializer: str | Serializer = "bytes",
        value_serializer: str | Serializer = "bytes",
        partitioner: str | Partitioner = KEY_HASH,
        transactional_id: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if transactional_id is not None:
            arguments.name("transactional_id", transactional_id)
        chosen = Delivery.EXACTLY_ONCE if transactional_id else Delivery.AT_LEAST_ONCE
        self.delivery = Delivery.of(delivery) if delivery is not None else chosen
        if transactional_id and self.delivery is not Delivery.EXACTLY_ONCE:
            raise BadSetting(f"a transactional_id is for exactly_once, and delivery is {self.delivery.value!r}")
        self.is_transactional = self.delivery is Delivery.EXACTLY_ONCE
        self._key_serializer = serializer(key_serializer)
        self._value_serializer = serializer(value_serializer)
        self._partitioner = partitioner_of(partitioner)
        promises = dict(PRODUCER_PROMISES[self.delivery])
        if self.is_transactional:
            own = (config or {}).get("transactional.id")
            promises["transactional.id"] = transactional_id or own or f"millstream-{uuid.uuid4().hex}"
        preferences = {"partitioner": "murmur2_random", **PRODUCER_PREFERENCES[self.delivery]}
        settings = merged(bootstrap, preferences, promises, config)
        self.bootstrap = str(settings["bootstrap.servers"])
        self._wire = made(Wire, settings)
        self._outbox = Outbox(self._wire)
        self._counts: dict[str, tuple[int, float]] = {}
        #: Names that were looked at.
        self._topics: set[str] = set()
        self._unserved = 0
        self._is_closed = False
        self._is_initialized = False
        self._transaction: Transaction | None = None

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: HeadersToSend | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> Sent:
        """Send one record and return at once; waits only while the queue is full.

        The handle tells how it went: ``.result()``, or ``await`` it. Not looking at it is fine: ``flush`` and leaving
        the producer raise what failed. ``timestamp`` is an aware time or milliseconds since 1970; without one, now.
        """
        return self.send_serialized(
            topic,
            value if value is None else self.value_bytes(value, topic),
            key if key is None else self.key_bytes(key, topic),
            headers=arguments.headers(headers) if headers else None,
            partition=partition,
            timestamp_ms=0 if timestamp is None else arguments.milliseconds(timestamp),
        )

    def send_serialized(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        *,
        headers: list[Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int = 0,
    ) -> Sent:
        """Send what is bytes already; timestamp 0 is now."""
        if self._is_closed:
            raise BadUse("the producer is closed")
        if self.is_transactional and self._transaction is None:
            raise BadUse("an exactly_once producer sends in a transaction: `with producer.transaction(): …`")
        if topic.__class__ is not str or topic not in self._topics:
            self._topics.add(arguments.name("topic", topic))
        if partition is not None:
            arguments.count("partition", partition, 0)
        else:
            partition = -1 if self._partitioner is None else self._place(topic, key, self._partitioner)
        sent = Sent(self._outbox)
        produce = self._wire.produce
        while True:
            try:
                produce(topic, value, key, partition, sent.settle, None, timestamp_ms, headers)
                break
            except BufferError:  # Full: wait until deliveries have made room.
                heard(self._wire.poll, 0.1)
            except KafkaException as exception:
                raise translated(exception, f"sending to {topic!r}") from exception
        self._unserved += 1
        if self._unserved >= SERVE_EVERY_RECORDS:
            self._unserved = 0
            heard(self._wire.poll, 0)
        return sent

    def key_bytes(self, key: Any, topic: str) -> bytes | None:
        """A key as this producer would send it."""
        if key.__class__ is bytes and self._key_serializer is to_bytes:
            return bytes(key)
        return serialized("key", key, self._key_serializer, topic)

    def value_bytes(self, value: Any, topic: str) -> bytes | None:
        """A value as this producer would send it."""
        if value.__class__ is bytes and self._value_serializer is to_bytes:
            return bytes(value)
        return serialized("value", value, self._value_serializer, topic)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything sent has arrived; DeliveryFailed for what did not and nobody has looked at."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while (left := heard(self._wire.flush, 0.1)) > 0:
            if deadline_s is not None and time.monotonic() >= deadline_s:
                why = f"no broker answers at {self.bootstrap}" if is_refused(self.bootstrap) else "still being tried"
                raise DeliveryFailed(f"{left} of the records sent had not arrived after {timeout_s:g} s; {why}")
        failed = list(self._outbox.failed)
        if failed:
            error = failed[0].exception()
            self.forget_failures()
            raise DeliveryFailed(f"{len(failed)} of the records sent did not arrive, the first: {error}") from error

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """``with producer.transaction(): …`` commits all that is sent in it, or on an exception none of it.

        With a consumer, what it has handed out since the last transaction is committed for its group in the same
        transaction; an abort takes the consumer back, so that it hands the same records out again.
        """
        if not self.is_transactional:
            raise BadUse("transactions need Producer(delivery='exactly_once') or a transactional_id")
        return Transaction(self, consumer)

    def take_over(self, timeout_s: float) -> None:
        """Fence whoever had this transactional id, and abort what they left open; the first transaction does it too."""
        if not self._is_initialized:
            Transaction(self, patience_s=timeout_s).take_over()
            self._is_initialized = True

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        arguments.name("topic", topic)
        known = self._counts.get(topic)
        now_s = time.monotonic()
        if known is None or known[1] < now_s:
            known = self._counts[topic] = (self._counted(topic, now_s + METADATA_TIMEOUT_S), now_s + COUNT_TTL_S)
        return known[0]

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Flush and let go.  An open transaction is aborted."""
        if self._is_closed:
            return
        try:
            if self._transaction is not None:
                self._transaction.abort()
            elif not self.is_transactional:  # Of transactions that have ended, nothing is on its way.
                self.flush(timeout_s)
        finally:
            self.discard()

    def discard(self) -> None:
        """Let go at once, whatever is on its way."""
        self._is_closed = True
        self._outbox.close()
        self._wire.purge()
        with suppress(KafkaException):  # One that was fenced says so here again.
            self._wire.poll(0)

    def forget_failures(self) -> None:
        """An aborted transaction's records failed as they should."""
        self._outbox.failed.clear()

    def __len__(self) -> int:
        """Records on their way."""
        return len(self._wire)

    def __bool__(self) -> bool:
        return True  # Also with nothing on its way.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        try:  # The body's own error is the one to be told of.
            self.close(CLOSE_TIMEOUT_S if issubclass(kind, Exception) else INTERRUPT_TIMEOUT_S)
        except MillstreamError:
            self.discard()

    def _place(self, topic: str, key: bytes | None, choose: Partitioner) -> int:
        count = self.partitions(topic)
        chosen = choose(key, count)
        if not 0 <= chosen < count:
            raise BadSetting(f"the partitioner chose {chosen}, and {topic!r} has partitions 0 to {count - 1}")
        return chosen

    def _counted(self, topic: str, deadline_s: float) -> int:
        """Asks until the topic is there: a broker that creates it on demand says at first that it is not."""
        while True:
            try:
                found = self._wire.list_topics(topic, timeout=METADATA_TIMEOUT_S).topics[topic]
            except KafkaException as exception:
                raise translated(exception, f"asking for the partitions of {topic!r}") from exception
            if found.error is None and found.partitions:
                return len(found.partitions)
            if time.monotonic() > deadline_s:
                raise UnknownTopic(
                    f"there is no topic {topic!r}: {found.error}; create it with Admin().create_topic(…)"
                )
            time.sleep(0.05)
