"""A broker, a stream of orders, a kill -9 in the middle of it, and proof that each order arrived once and in order.

The producer and the consumer are confluent-kafka, as any application would use it; the broker is a process of its own.
Then a consumer group turns orders into receipts, exactly once, while one of its members is killed. And a pipeline on
Spark joins sales with their payments and sums them in windows, exactly once into a topic, while Spark is killed; where
the machine has no Java, it runs on the one that was set up with the rest.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition

from demo.receipts import Check, bill
from demo.shop import run_shop

PARTITIONS = 3
TOPIC = "orders"
PATIENCE_S = 60.0


class Broker:
    """`millstream serve`, started, killed and started again on the same folder and port."""

    def __init__(self, data: str) -> None:
        self._data = data
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> float:
        """Return once it serves; how long that took, in seconds."""
        before_s = time.perf_counter()
        command = [sys.executable, "-m", "millstream.cli.main", "serve", "--port", str(self.port), "--data", self._data]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            raise SystemExit("demo: the broker did not start; its message is above")
        self.port = int(line.rsplit(":", 1)[1])
        return time.perf_counter() - before_s

    def kill(self) -> None:
        """End it without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator would."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def resident_mb(self) -> float:
        assert self._process is not None
        with open(f"/proc/{self._process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None


class Reader(threading.Thread):
    """Reads every partition while it grows, and remembers what came."""

    def __init__(self, address: str, expected: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.total_cents = 0
        self.faults: list[str] = []
        self._expected = expected
        self._last_id = [-1] * PARTITIONS
        self._next_offset = [0] * PARTITIONS
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "demo",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        self._consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        deadline_s = time.monotonic() + PATIENCE_S
        while self.count < self._expected and time.monotonic() < deadline_s:
            for message in self._consumer.consume(5_000, 0.2):
                if message.error() is None:
                    self._take(message.partition() or 0, message.offset() or 0, json.loads(message.value() or b""))
                    deadline_s = time.monotonic() + PATIENCE_S
        # Whatever came twice would come now.
        self.count += sum(message.error() is None for message in self._consumer.consume(5_000, 0.5))
        self._consumer.close()

    def _take(self, partition: int, offset: int, order: dict[str, int]) -> None:
        due = self._next_offset[partition]
        if offset != due:
            self.faults.append(f"{TOPIC}-{partition}: offset {offset} came where {due} was due")
        if order["id"] <= self._last_id[partition]:
            self.faults.append(f"{TOPIC}-{partition}: order {order['id']} came after {self._last_id[partition]}")
        self._next_offset[partition] = offset + 1
        self._last_id[partition] = order["id"]
        self.count += 1
        self.total_cents += order["cents"]


class Orders:
    """The producer's side: what was sent and what was acknowledged."""

    def __init__(self, address: str) -> None:
        self.acknowledged = 0
        self.total_cents = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def send(self, ids: range) -> None:
        """Send these orders and return when all are on their way."""
        for number in ids:
            cents = number * 7919 % 10_000
            value = json.dumps({"id": number, "cents": cents, "item": f"item-{number % 97}"})
            self.total_cents += cents
            while True:
                try:
                    self._producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._producer.poll(0.05)
            if number % 2_000 == 0:
                self._producer.poll(0)

    def finish(self) -> None:
        """Wait for every acknowledgement."""
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failures.append(str(error))


def main() -> int:
    """Run the story; 0 when the counts agree."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--orders", type=int, default=600_000, help="how many orders to stream (default: %(default)s)")
    wanted = parser.parse_args().orders
    with running() as broker:
        took_s = broker.start()
        say(f"broker ready at {broker.address} after {took_s * 1000:.0f} ms, {broker.resident_mb():.0f} MB")
        create_topic(broker.address)
        say(f"topic {TOPIC} made with {PARTITIONS} partitions")
        reader = Reader(broker.address, wanted)
        reader.start()
        orders = Orders(broker.address)
        before_s = time.perf_counter()
        say(f"streaming {wanted:,} orders, an idempotent producer on one side, a live consumer on the other")
        orders.send(range(wanted // 2))
        broker.kill()
        say("kill -9: the broker is gone in the middle of the stream")
        took_s = broker.start()
        say(f"broker ready again after {took_s * 1000:.0f} ms, recovery included; the stream goes on")
        orders.send(range(wanted // 2, wanted))
        orders.finish()
        reader.join(2 * PATIENCE_S)
        seconds = time.perf_counter() - before_s
        say(f"{wanted / seconds:,.0f} orders a second through the kill and back")
        receipts = bill(broker.address, wanted, PARTITIONS, PATIENCE_S, say)
        revenue = run_shop(broker.address, PARTITIONS, say)
        return summary(wanted, orders, reader, receipts + revenue, broker.resident_mb())


@contextmanager
def running() -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="millstream-demo-") as data:
        broker = Broker(data)
        try:
            yield broker
        finally:
            broker.stop()


def create_topic(address: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "millstream.cli.main", "topic", "create", TOPIC, "-p", str(PARTITIONS), "-b", address],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def summary(wanted: int, orders: Orders, reader: Reader, receipts: list[Check], resident_mb: float) -> int:
    """Lay the counts side by side."""
    checks = [
        ("orders acknowledged", orders.acknowledged, wanted),
        ("orders consumed", reader.count, wanted),
        ("sum of their amounts, in cents", reader.total_cents, orders.total_cents),
        ("out of order, skipped or doubled", len(reader.faults), 0),
        ("failed deliveries", len(orders.failures), 0),
        *receipts,
    ]
    say("")
    for name, got, due in checks:
        say(f"  {'ok  ' if got == due else 'FAIL'}  {name:<36} {got:>14,}  expected {due:>14,}")
    for fault in (reader.faults + orders.failures)[:5]:
        say(f"        {fault}")
    is_good = all(got == due for _, got, due in checks)
    say("")
    say(f"broker at {resident_mb:.0f} MB")
    say(
        "every order arrived once and in order, every receipt once, every window once and right"
        if is_good
        else "the counts do not agree"
    )
    return 0 if is_good else 1


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
