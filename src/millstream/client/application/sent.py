"""A record on its way: a handle to wait on, from a thread or from asyncio."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message

from millstream.client.application.errors import DeliveryFailed, MillstreamError, Unreachable, known
from millstream.client.application.settings import LOGGER, heard
from millstream.model.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Producer as Wire

#: A wait is cut into pieces, so that Ctrl-C is heard and what another thread has served is noticed.
SLICE_S = 0.02


class Delivered(NamedTuple):
    """Where a record now lies; the offset is -1 when the broker was not asked (``acks`` 0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Sent:
    """The delivery of one record: wait by ``result()`` or ``await``.  A failure that nobody looked at, flush raises."""

    __slots__ = ("_callbacks", "_error", "_message", "_outbox")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._message: Message | None = None
        self._error: KafkaError | None = None
        self._callbacks: list[Callable[[Sent], object]] | None = None

    def done(self) -> bool:
        """Whether it is known how it went."""
        return self._message is not None

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Where the record lies, once it does; DeliveryFailed when it could not be delivered."""
        self._outbox.serve_until(self.done, timeout_s)
        if self._message is None:
            raise Unreachable(f"the record was not delivered within {timeout_s} s; it is still being tried")
        if (error := self.exception()) is not None:
            raise error
        found = self._message
        return Delivered(found.topic(), found.partition(), found.offset(), found.timestamp()[1])  # type: ignore[arg-type]

    def exception(self) -> MillstreamError | None:
        """Why it failed, or None when it did not, or not yet."""
        if self._error is None or self._message is None:
            return None
        self._outbox.failed.pop(self, None)
        reason = known(self._error, f"sending to {self._message.topic()!r}")
        return DeliveryFailed(str(reason), code=reason.code, retriable=reason.retriable)

    def add_done_callback(self, callback: Callable[[Sent], object]) -> None:
        """Call this once it is known how it went, at once if it is known already; from any thread."""
        with self._outbox.lock:
            self._callbacks = [*(self._callbacks or ()), callback]
            self._outbox.someone_waits()
        if self.done():  # Perhaps since before: then settle() did not see the callback.
            self._call_back()

    def settle(self, error: KafkaError | None, message: Message) -> None:
        """confluent-kafka's word on it."""
        self._error = error
        self._message = message  # From here on it is done.
        if error is not None:
            self._outbox.failed[self] = None
        if self._callbacks is not None:
            self._call_back()

    def _call_back(self) -> None:
        with self._outbox.lock:
            callbacks = self._callbacks or ()
            self._callbacks = None
            self._outbox.waiting -= len(callbacks)
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                LOGGER.exception("a callback of a delivery failed")

    def __await__(self) -> Generator[Any, None, Delivered]:
        if not self.done():
            import asyncio

            loop = asyncio.get_running_loop()
            told: asyncio.Future[None] = loop.create_future()
            self.add_done_callback(lambda _: loop.call_soon_threadsafe(_tell, told))
            yield from told
        return self.result(0)


def _tell(told: Any) -> None:
    if not told.done():  # Whoever waited may have been cancelled.
        told.set_result(None)


class Outbox:
    """What is on its way through one producer, and who serves its deliveries.

    confluent-kafka calls back only while someone polls.  Senders and waiters do that themselves, which is cheap; only
    for callbacks and ``await`` a thread does, and only while there are any: it would fight a busy sender for the GIL.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.lock = threading.Lock()
        #: Failures nobody has looked at, in their order.
        self.failed: dict[Sent, None] = {}
        self.waiting = 0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def serve_until(self, done: Callable[[], bool], timeout_s: float | None) -> bool:
        """Poll until this holds; False when the time is over first."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not done():
            left_s = SLICE_S if deadline_s is None else min(SLICE_S, deadline_s - time.monotonic())
            if left_s <= 0:
                heard(self.wire.poll, 0)
                return done()
            heard(self.wire.poll, left_s)
        return True

    def someone_waits(self) -> None:
        """Have the thread poll; called under the lock."""
        self.waiting += 1
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="millstream-producer", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread."""
        with self.lock:
            self._is_closed = True
            self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            with self.lock:
                if self._is_closed:
                    return
                if self.waiting == 0:
                    self._wake.clear()
                    continue
            with suppress(KafkaException):  # One that was fenced says so in every call; senders are told.
                self.wire.poll(0.05)
