"""Produce 100-byte records to a topic at a steady rate, and time each until its copy is in another topic, committed.

Whatever copies them runs elsewhere and has a first while to warm up in, which is not counted.
"""

import threading
import time

from confluent_kafka import OFFSET_END, Consumer, Producer
from confluent_kafka import TopicPartition as Place

from bench.loads import options

#: How often records are sent that are due.
TICK_S = 0.001
#: For how long a copy may stay away.
PATIENCE_S = 60.0


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--target", required=True, help="where the copies are")
    parser.add_argument("--partitions", type=int, required=True, help="of each topic")
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--warm-up-s", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    over = threading.Event()
    copies = Consumer(
        {
            "bootstrap.servers": given.server,
            "group.id": "through",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "log_level": 2,
        }
    )
    copies.assign([Place(given.target, number, OFFSET_END) for number in range(given.partitions)])
    sender = threading.Thread(target=_send, args=(given.server, given.topic, given.partitions, given.rate, over))
    sender.start()
    try:
        options.latency_report(_arrivals_us(copies, given.warm_up_s, given.seconds))
    finally:
        over.set()
        sender.join()
        copies.close()


def _send(server: str, topic: str, partitions: int, rate: float, over: threading.Event) -> None:
    """Each record says when it was sent."""
    producer = Producer({"bootstrap.servers": server, "linger.ms": 0, "log_level": 2})
    started_s, sent = time.monotonic(), 0
    while not over.wait(TICK_S):
        for number in range(sent, int((time.monotonic() - started_s) * rate)):
            value = str(time.monotonic_ns()).encode().rjust(options.RECORD_BYTES)
            producer.produce(topic, value=value, partition=number % partitions)
            sent = number + 1
        producer.poll(0)
    producer.flush(10)


def _arrivals_us(copies: Consumer, warm_up_s: float, seconds: float) -> list[float]:
    """How long each record took that came in the time that counts."""
    found: list[float] = []
    begun_s = None
    last_s = time.monotonic()
    while begun_s is None or last_s < begun_s + warm_up_s + seconds:
        message = copies.poll(PATIENCE_S)
        now_ns = time.monotonic_ns()
        if message is None or message.error() is not None:
            raise SystemExit(f"no copy within {PATIENCE_S:g} s: {message and message.error()}")
        last_s = now_ns / 1e9
        begun_s = begun_s or last_s
        if last_s >= begun_s + warm_up_s:
            found.append((now_ns - int(message.value() or b"0")) / 1e3)
    return found


if __name__ == "__main__":
    main()
