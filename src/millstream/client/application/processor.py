"""The loop of ``process``: take, transform, send, commit; and begin again where something failed."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from millstream.client.application import arguments
from millstream.client.application.consumer import Consumer
from millstream.client.application.delivery import Delivery
from millstream.client.application.errors import (
    BadSetting,
    DeliveryFailed,
    Fenced,
    MillstreamError,
    PartitionsLost,
    TransactionAborted,
    UnknownTopic,
    Unreachable,
)
from millstream.client.application.outputs import Transform, send_output
from millstream.client.application.partitioners import Partitioner
from millstream.client.application.producer import Producer
from millstream.client.application.reach import Quiet
from millstream.client.application.record import Record
from millstream.client.application.serialization import Deserializer, Serializer
from millstream.client.application.settings import LOGGER
from millstream.client.application.start import Start
from millstream.client.application.transaction import Transaction

#: A process that was killed holds its partitions and its transaction for this long at most.
SESSION_MS = 10_000
#: A step of a transaction is tried so long before the producer is made anew.
STEP_PATIENCE_S = 15.0
BACKOFF_S = (0.05, 2.0)
CLOSE_TIMEOUT_S = 10.0
#: After brokers were away, a member's place may be lost to nobody for so long.
AWAY_S = 60.0


@dataclass(slots=True)
class Processed:
    """What ``process`` has done."""

    records_in: int = 0
    records_out: int = 0
    commits: int = 0
    aborts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything ``process`` was asked for; its docstring explains each."""

    sources: tuple[str, ...]
    sink: str
    fn: Transform
    on_error: Callable[[Record, Exception], Any] | None
    group: str
    instance: str | None
    delivery: Delivery
    bootstrap: str | None
    start: Start
    key_deserializer: str | Deserializer
    value_deserializer: str | Deserializer
    key_serializer: str | Serializer
    value_serializer: str | Serializer
    partitioner: str | Partitioner
    commit_records: int
    commit_ms: int
    stop: threading.Event
    idle_s: float | None
    patience_s: float
    consumer_config: Mapping[str, Any]
    producer_config: Mapping[str, Any]


class _ConsumerFenced(Exception):
    """The member of the group was fenced, which to begin again with the same one cannot mend."""

    def __init__(self, error: Fenced) -> None:
        super().__init__(str(error))
        self.error = error


class Processor:
    """One run of ``process``."""

    def __init__(self, plan: Plan) -> None:
        arguments.called("fn", plan.fn)
        if plan.on_error is not None:
            arguments.called("on_error", plan.on_error)
        arguments.name("group", plan.group)
        arguments.name("sink", plan.sink)
        if plan.instance is not None:
            arguments.name("instance", plan.instance)
        arguments.count("commit_records", plan.commit_records, 1)
        arguments.seconds("commit_ms", plan.commit_ms)
        arguments.seconds("idle_s", plan.idle_s)
        arguments.seconds("patience_s", plan.patience_s)
        if not plan.sources:
            raise BadSetting("source=[] names no topic")
        self._plan = plan
        self._done = Processed()
        #: Kept over the run: a producer made anew fences the one before it.
        self._transactional_id = f"{plan.group}-{plan.instance or uuid.uuid4().hex}"
        self._is_exact = plan.delivery is Delivery.EXACTLY_ONCE
        #: When brokers were last found to be away.
        self._away_s = -AWAY_S
        self._consumer = self._new_consumer()
        self._producer = self._new_producer()
        self._has_rewound = True
        self._backoff_s = BACKOFF_S[0]
        self._good_s = time.monotonic()

    def run(self) -> Processed:
        """Work until it is time to stop."""
        plan = self._plan
        quiet = self._quiet()
        try:
            while not plan.stop.is_set():
                if self._round():
                    quiet = self._quiet()
                elif quiet.is_over():
                    break
        except KeyboardInterrupt:
            LOGGER.info("interrupted: the open transaction is aborted")
        finally:
            self._close()
        return self._done

    def _quiet(self) -> Quiet:
        return self._consumer.quiet(self._plan.idle_s, self._plan.patience_s)

    def _round(self) -> bool:
        """One transaction, or what stands for it; whether there was anything to do."""
        try:
            if not self._has_rewound:
                self._begin_again()
            if not (records := self._take()):
                return False
            (self._transact if self._is_exact else self._send)(records)
        except _ConsumerFenced as fenced:
            self._join_again(fenced.error)
        except (TransactionAborted, DeliveryFailed) as error:
            self._fail(error)
        except MillstreamError as error:
            if not self._is_passing(error):
                raise
            self._has_rewound = False
            self._fail(error)
        else:
            self._good_s = time.monotonic()
            self._backoff_s = BACKOFF_S[0]
        return True

    def _take(self) -> list[Record]:
        try:
            return self._consumer.take(self._plan.commit_records, self._plan.commit_ms / 1000)
        except Fenced as error:
            raise _ConsumerFenced(error) from error

    def _is_passing(self, error: MillstreamError) -> bool:
        """Whether to begin again may help."""
        if error.code == "FENCED_INSTANCE_ID":
            return False  # Another process has our name; to fight it would never end.
        if isinstance(error, UnknownTopic):
            return self._done.commits > 0  # A broker that is only just up may not know it yet.
        return error.retriable or isinstance(error, Fenced | Unreachable)

    def _transact(self, records: list[Record]) -> None:
        transaction = Transaction(self._producer, self._consumer, patience_s=STEP_PATIENCE_S)
        transaction.begin()
        try:
            taken, out = self._transform(records)
        except MillstreamError as error:
            transaction.abort()
            if error.retriable or error.code == "_STATE":  # What was sent before has failed already.
                raise TransactionAborted(str(error), code=error.code, retriable=True) from error
            raise
        except BaseException:
            transaction.abort()
            raise
        transaction.commit()
        self._count(taken, out)

    def _send(self, records: list[Record]) -> None:
        """Without a transaction: what was sent has arrived before its inputs are committed."""
        taken, out = self._transform(records)
        try:
            self._producer.flush()
        except DeliveryFailed as error:
            if self._plan.delivery is Delivery.AT_LEAST_ONCE:
                self._consumer.rewind()
                raise
            LOGGER.warning("lost, as at_most_once may: %s", error)
        if self._plan.delivery is Delivery.AT_LEAST_ONCE:
            try:
                self._consumer.commit()
            except PartitionsLost as lost:
                LOGGER.warning("%s", lost)
        self._count(taken, out)

    def _transform(self, records: list[Record]) -> tuple[int, int]:
        """Records taken and sent; those that the time of a transaction does not suffice for are given back."""
        plan, producer = self._plan, self._producer
        due_s = time.monotonic() + plan.commit_ms / 1000
        out = 0
        for number, record in enumerate(records, 1):
            try:
                output = plan.fn(record)
            except Exception as error:
                if plan.on_error is None:
                    error.add_note(f"in process(…), for {record!r}")
                    raise
                output = plan.on_error(record, error)
            if output is not None:
                out += send_output(producer, plan.sink, record, output)
            if time.monotonic() >= due_s and number < len(records):
                self._consumer.give_back(len(records) - number)
                return number, out
        return len(records), out

    def _count(self, taken: int, out: int) -> None:
        self._done.records_in += taken
        self._done.records_out += out
        self._done.commits += 1

    def _fail(self, error: MillstreamError) -> None:
        """Wait a little before the next try; raise what went wrong once patience is at its end."""
        self._done.aborts += 1
        LOGGER.warning("process: %s", error)
        if time.monotonic() - self._good_s > self._plan.patience_s:
            raise error
        self._plan.stop.wait(self._backoff_s)
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_S[1])

    def _begin_again(self) -> None:
        """A new producer under the same id ends what the old one left; then the group says where to go on.

        In that order: only then is it settled whether the last transaction was committed.
        """
        if self._is_exact:
            self._producer.discard()
            self._producer = self._new_producer()
            self._producer.take_over(STEP_PATIENCE_S)
        self._consumer.rewind(to_committed=True)
        self._has_rewound = True

    def _join_again(self, error: Fenced) -> None:
        """Make a new consumer where the old one has fenced itself; else another process has our name.

        When its session has lapsed, librdkafka heartbeats without its member id, and is told that another has its
        place. Brokers that were away tell this from a real fencing.
        """
        if time.monotonic() - self._away_s > AWAY_S:
            raise error
        self._away_s = -AWAY_S
        LOGGER.warning("process: joining the group anew: %s", error)
        self._consumer.close()
        self._consumer = self._new_consumer()

    def _note_away(self, error: KafkaError) -> None:
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self._away_s = time.monotonic()

    def _new_consumer(self) -> Consumer:
        plan = self._plan
        config = {"session.timeout.ms": SESSION_MS, "error_cb": self._note_away, **plan.consumer_config}
        if plan.instance is not None:
            config["group.instance.id"] = f"{plan.group}-{plan.instance}"
        return Consumer(
            *plan.sources,
            group=plan.group,
            start=plan.start,
            delivery=plan.delivery,
            bootstrap=plan.bootstrap,
            key_deserializer=plan.key_deserializer,
            value_deserializer=plan.value_deserializer,
            config=config,
        )

    def _new_producer(self) -> Producer:
        plan = self._plan
        exact = {"transaction.timeout.ms": SESSION_MS} if self._is_exact else {}
        return Producer(
            plan.bootstrap,
            delivery=plan.delivery,
            key_serializer=plan.key_serializer,
            value_serializer=plan.value_serializer,
            partitioner=plan.partitioner,
            transactional_id=self._transactional_id if self._is_exact else None,
            config={**exact, **plan.producer_config},
        )

    def _close(self) -> None:
        try:
            self._producer.close(CLOSE_TIMEOUT_S)
        except MillstreamError as error:
            LOGGER.warning("process, while stopping: %s", error)
            self._producer.discard()
        self._consumer.close()
