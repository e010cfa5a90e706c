"""Produce one record at a time at a steady rate on one connection and time its arrival on another.

The second connection always has a fetch waiting at the server, as a consumer does.
"""

import select
import time

from bench import wire
from bench.loads import options

FETCH_BYTES_MAX = 1 << 20


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args()
    with wire.Connection(given.server) as producer, wire.Connection(given.server) as consumer:
        producer.await_topic(given.topic)
        options.latency_report(measure(producer, consumer, given.topic, given.rate, given.seconds))


def measure(
    producer: wire.Connection, consumer: wire.Connection, topic: str, rate: float, seconds: float
) -> list[float]:
    request = wire.produce_frame(topic, wire.encode_batch([b"v" * options.RECORD_BYTES]))
    first = next_offset = producer.offset(topic, wire.LATEST)
    consumer.send(wire.fetch_frame(topic, next_offset, wait_ms=500, bytes_max=FETCH_BYTES_MAX))
    latencies_us: list[float] = []
    sent_at: list[float] = []
    total, gap_s, answers = int(rate * seconds), 1 / rate, memoryview(bytearray(1 << 16))
    due = time.perf_counter()
    while len(latencies_us) < total:
        wait_s = max(due - time.perf_counter(), 0.0) if len(sent_at) < total else 60.0
        ready = select.select((consumer.socket, producer.socket), (), (), wait_s)[0]
        if consumer.socket in ready:
            answer = consumer.receive()
            now = time.perf_counter()
            for batch in wire.batches(wire.fetched(answer, topic)):
                latencies_us += [
                    (now - sent_at[at - first]) * 1e6 for at in range(batch.base_offset, batch.next_offset)
                ]
                next_offset = batch.next_offset
            consumer.send(wire.fetch_frame(topic, next_offset, wait_ms=500, bytes_max=FETCH_BYTES_MAX))
        if producer.socket in ready and not producer.socket.recv_into(answers):
            raise SystemExit("the server closed the connection")
        now = time.perf_counter()
        if len(sent_at) < total and now >= due:
            sent_at.append(now)
            producer.send(request)
            due += gap_s
    return latencies_us


if __name__ == "__main__":
    main()
