"""Produce one record at a time at a steady rate and time each answer.

Requests leave on schedule whether or not earlier ones were answered, so a stall of the server shows in every
request it delayed and not only in the first.
"""

import select
import time
from collections import deque

from bench import wire
from bench.loads import options


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--acks", type=int, default=1)
    given = parser.parse_args()
    batch = wire.encode_batch([b"v" * options.RECORD_BYTES])
    request = wire.produce_frame(given.topic, batch, acks=given.acks)
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        before = wire.produced_offset(connection.ask(request), given.topic, -4) + 1
        latencies_us = measure(connection, request, given.topic, given.rate, given.seconds)
        # With acks=1 the watermark follows when the replicas have the last of them.
        stored = connection.await_offset(given.topic, before + len(latencies_us)) - before
    if stored != len(latencies_us):
        raise SystemExit(f"{len(latencies_us)} records were sent, the log grew by {stored}")
    options.latency_report(latencies_us)


def measure(connection: wire.Connection, request: bytes, topic: str, rate: float, seconds: float) -> list[float]:
    answers = wire.ProduceAnswers(connection, topic)
    latencies_us: list[float] = []
    sent_at: deque[float] = deque()
    total, left, gap_s = int(rate * seconds), int(rate * seconds), 1 / rate
    due = time.perf_counter()
    while len(latencies_us) < total:
        wait_s = max(due - time.perf_counter(), 0.0) if left else 60.0
        if select.select((connection.socket,), (), (), wait_s)[0]:
            count = answers.receive()
            now = time.perf_counter()
            latencies_us += [(now - sent_at.popleft()) * 1e6 for _ in range(count)]
        now = time.perf_counter()
        if left and now >= due:
            sent_at.append(now)
            connection.send(request)
            left, due = left - 1, due + gap_s
    return latencies_us


if __name__ == "__main__":
    main()
