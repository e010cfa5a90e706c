"""A transaction: everything sent in it, and the offsets of what was read for it, become visible at once or never."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaException

from millstream.client.application import reach
from millstream.client.application.errors import (
    BadUse,
    Fenced,
    MillstreamError,
    TransactionAborted,
    Unreachable,
    translated,
)
from millstream.client.application.settings import LOGGER

if TYPE_CHECKING:
    from millstream.client.application.consumer import Consumer
    from millstream.client.application.producer import Producer

#: librdkafka goes on where a timed-out step left off; short steps let Ctrl-C through.
STEP_S = 0.5
#: How long a step may be tried while brokers do not answer.
PATIENCE_S = 120.0
INTERRUPT_S = 1.0
#: How long the group may be asked where a consumer goes on.
REWIND_S = 30.0


class Transaction:
    """Made by ``producer.transaction()``.  A context manager; ``begin``, ``commit``, ``abort`` do it by hand."""

    def __init__(self, producer: Producer, consumer: Consumer | None = None, *, patience_s: float = PATIENCE_S) -> None:
        self._producer = producer
        self._consumer = consumer
        self._wire = producer._wire
        self._patience_s = patience_s

    def begin(self) -> None:
        """Open it; the first of a producer also fences whoever had its transactional id, and aborts what they left."""
        producer = self._producer
        if producer._transaction is not None:
            raise BadUse("the producer is in a transaction already; one follows the other")
        producer.take_over(self._patience_s)
        self._step("beginning a transaction", self._wire.begin_transaction)
        producer._transaction = self

    def take_over(self) -> None:
        """Before a producer's first transaction: become the one with its transactional id."""
        self._step("taking the transactional id", lambda: self._wire.init_transactions(STEP_S), is_first=True)

    def commit(self) -> None:
        """Commit, or raise TransactionAborted once it is aborted instead; Fenced when this producer can do no more.

        After Fenced or Unreachable it may be committed or not. The next transaction with the same consumer, of another
        producer, is then aborted, and takes the consumer to what its group has committed.
        """
        self._check_open()
        try:
            if self._consumer is not None:
                self._send_offsets(self._consumer)
            self._step("committing a transaction", lambda: self._wire.commit_transaction(STEP_S))
        except (Fenced, Unreachable):
            self._producer._transaction = None
            raise
        except MillstreamError as error:
            self.abort()
            raise TransactionAborted(
                f"the transaction was aborted, do its work again: {error}", code=error.code, retriable=True
            ) from error
        self._producer._transaction = None
        if self._consumer is not None:
            self._consumer.mark_committed()

    def abort(self) -> None:
        """Let nothing of it be seen, and take the consumer back to where the transaction began, even if this fails."""
        self._check_open()
        self._producer._transaction = None
        try:
            self._step("aborting a transaction", lambda: self._wire.abort_transaction(STEP_S))
        finally:
            self._producer.forget_failures()
            if self._consumer is not None:
                self._consumer.rewind(timeout_s=min(self._patience_s, REWIND_S))

    def commit_offsets(self, consumer: Consumer) -> None:
        """Have this consumer's offsets committed with the transaction, as ``transaction(consumer)`` does."""
        if self._consumer not in (None, consumer):
            raise BadUse("a transaction carries the offsets of one consumer")
        self._consumer = consumer

    def _send_offsets(self, consumer: Consumer) -> None:
        progress = consumer.progress()
        if progress.offsets:
            self._step(
                "sending offsets to a transaction",
                lambda: self._bounded(
                    lambda: self._wire.send_offsets_to_transaction(progress.offsets, progress.membership, STEP_S)
                ),
            )

    def _bounded(self, step: Callable[[], object]) -> None:
        """Take a step that librdkafka may never come back from, whatever time-out it is given (its issue 5456).

        Unreachable when it does not: the producer is of no use any more, and a new one under its id takes over.
        """
        outcome: list[BaseException | None] = []

        def taken() -> None:
            try:
                step()
                outcome.append(None)
            except BaseException as error:
                outcome.append(error)

        # A daemon: if it is never heard of again, the process can still end.
        thread = threading.Thread(target=taken, name="millstream-offsets", daemon=True)
        thread.start()
        thread.join(self._patience_s)
        if not outcome:
            raise Unreachable(f"no broker took the offsets within {self._patience_s:g} s; make a new producer")
        if outcome[0] is not None:
            raise outcome[0]

    def _check_open(self) -> None:
        if self._producer._transaction is not self:
            raise BadUse("this transaction is not open")

    def _step(self, doing: str, step: Callable[[], object], *, is_first: bool = False) -> None:
        """Take a step, again and again while Kafka says that trying again may help.

        Brokers that were there are waited for; not so if, at the first step of all, nobody is.
        """
        bootstrap = self._producer.bootstrap
        began_s = time.monotonic()
        deadline_s = began_s + self._patience_s
        while True:
            try:
                step()
                return
            except KafkaException as exception:
                error = translated(exception, doing)
                if not error.retriable or time.monotonic() > deadline_s:
                    raise error from exception
                if is_first and time.monotonic() - began_s > reach.FIRST_S and reach.is_refused(bootstrap):
                    raise reach.unreachable(bootstrap, doing) from exception

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._producer._transaction is not self:
            return  # Committed or aborted by hand.
        if kind is None:
            self.commit()
            return
        if not issubclass(kind, Exception):  # Ctrl-C waits for no broker.
            self._patience_s = INTERRUPT_S
        try:
            self.abort()
        except MillstreamError as failure:  # The body's own error is the one to be told of.
            LOGGER.warning("a transaction could not be aborted, and ends by its time-out: %s", failure)
