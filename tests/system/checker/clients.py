"""The clients of the workload, each a process of its own that may be killed at any moment.

    python -m tests.system.checker.clients produce|transact|consume --bootstrap … --journal … --name …

SIGTERM ends one in good order.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from tests.system.checker.history import Ended, Fate, Journal, Polled, Sent

TOPIC = "checked"
GROUP = "checkers"
IN_FLIGHT_MAX = 500
TRANSACTION_RECORDS_MAX = 20
ABORTED_SHARE = 0.3
POLLED_MAX = 50
#: Long enough for every fault: what was not delivered by then is anybody's guess.
DELIVERY_TIMEOUT_MS = 120_000
COMMON: dict[str, Any] = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 10_000,
}


class Client:
    """What every client has: its journal, its dice, and whether it was asked to end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.random = random.Random(options.name)
        self.is_asked_to_end = False
        self._number = 0
        signal.signal(signal.SIGTERM, self._end)
        self.journal = Journal(Path(options.journal))  # From here on it can be asked to end.

    def value(self) -> str:
        """A value nobody else ever sends."""
        self._number += 1
        return f"{self.options.name}-{self._number}"

    def partition(self) -> int:
        return self.random.randrange(self.options.partitions)

    def _end(self, *_: object) -> None:
        self.is_asked_to_end = True


def produce(client: Client) -> None:
    """Write without transactions, idempotently, with many records on their way at once."""
    options = client.options
    producer = Producer(
        {
            **COMMON,
            "bootstrap.servers": options.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 2,
            "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        }
    )
    while not client.is_asked_to_end:
        if len(producer) >= IN_FLIGHT_MAX:
            producer.poll(0.01)
            continue
        value, partition = client.value(), client.partition()
        producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=_noting(client, value, partition))
        producer.poll(0)
        time.sleep(options.pause_s)
    producer.flush(DELIVERY_TIMEOUT_MS / 1000)


def _noting(client: Client, value: str, partition: int) -> Callable[[KafkaError | None, Message], None]:
    def note(error: KafkaError | None, message: Message) -> None:
        fate: Fate = "ok" if error is None else "unknown"
        client.journal.note(Sent(value, partition, fate, _offset_of(message)))

    return note


def _offset_of(message: Message) -> int:
    """Where it lies; -1 if that was not told: an answer for a later batch acknowledges those before it as well."""
    offset = message.offset()
    return -1 if offset is None else offset


def transact(client: Client) -> None:
    """Write in transactions, and abort some of them."""
    producer = _transactional(client)
    number = 0
    while not client.is_asked_to_end:
        number += 1
        try:
            _transaction(client, producer, f"{client.options.name}/{number}")
        except KafkaException as error:
            if error.args[0].fatal():
                producer = _transactional(client)
            else:
                raise
        time.sleep(client.options.pause_s)


def _transactional(client: Client) -> Producer:
    producer = Producer(
        {
            **COMMON,
            "bootstrap.servers": client.options.bootstrap,
            # One that is killed and comes back fences what it left behind.
            "transactional.id": client.options.name.partition(".")[0],
            "transaction.timeout.ms": 30_000,
            "linger.ms": 1,
        }
    )
    _patiently(producer.init_transactions)
    return producer


def _patiently(call: Callable[[], Any]) -> Any:
    """Again, for as long as the client says that it may be tried again."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _transaction(client: Client, producer: Producer, name: str) -> None:
    sent: list[Sent] = []

    def delivered(value: str, partition: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                sent.append(Sent(value, partition, "ok", _offset_of(message), name))

        return note

    producer.begin_transaction()
    for _ in range(client.random.randint(1, TRANSACTION_RECORDS_MAX)):
        value, partition = client.value(), client.partition()
        producer.produce(TOPIC, value.encode(), partition=partition, on_delivery=delivered(value, partition))
    fate: Fate = "failed"
    try:
        producer.flush(DELIVERY_TIMEOUT_MS / 1000)
        if client.random.random() >= ABORTED_SHARE:
            _patiently(producer.commit_transaction)
            fate = "ok"
        else:
            _patiently(producer.abort_transaction)
    except KafkaException as error:
        if error.args[0].fatal():
            fate = "unknown"
            raise
        _patiently(producer.abort_transaction)
    finally:
        for event in sent:
            client.journal.note(event)
        client.journal.note(Ended(name, fate))


def consume(client: Client) -> None:
    """Read committed records as a member of the group; offsets are committed once the records are noted.

    With ``--early`` it is the other way round, which is the bug that the checker must find.
    """
    options = client.options
    session = 0

    def begin_session(*_: object) -> None:
        nonlocal session
        session += 1

    consumer = Consumer(
        {
            **COMMON,
            "bootstrap.servers": options.bootstrap,
            "group.id": GROUP,
            "group.protocol": options.protocol,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **({"session.timeout.ms": 6_000} if options.protocol == "classic" else {}),
        }
    )
    consumer.subscribe([TOPIC], on_assign=begin_session, on_revoke=begin_session, on_lost=begin_session)
    while not client.is_asked_to_end:
        messages = [each for each in consumer.consume(POLLED_MAX, 0.2) if each.error() is None]
        if messages and options.early:
            _commit(consumer)
        if messages:
            time.sleep(options.work_s * len(messages))
            client.journal.note(Polled(options.name, session, tuple(_seen(each) for each in messages)))
        if messages and not options.early:
            _commit(consumer)
    consumer.close()


def _seen(message: Message) -> tuple[int, int, str]:
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return partition, offset, value.decode()


def _commit(consumer: Consumer) -> None:
    """Commit what was consumed; one that fails is made good by the next, or by reading again."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return


ROLES = {"produce": produce, "transact": transact, "consume": consume}


def main(arguments: list[str]) -> None:
    """Play one role until asked to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--journal", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--pause-s", type=float, default=0.001)
    parser.add_argument("--protocol", default="classic")
    parser.add_argument("--work-s", type=float, default=0.0002, help="what a record costs its consumer")
    parser.add_argument("--early", action="store_true")
    options = parser.parse_args(arguments)
    ROLES[options.role](Client(options))


if __name__ == "__main__":
    main(sys.argv[1:])
