"""Fetch single places of a log at random, one after the other, and time each answer."""

import random
import time

from bench import wire
from bench.loads import options

FETCH_BYTES_MAX = 4_096


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--reads", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chosen = random.Random(given.seed)
    latencies_us = []
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        first, end = connection.offset(given.topic, wire.EARLIEST), connection.offset(given.topic, wire.LATEST)
        for _ in range(given.reads):
            offset = chosen.randrange(first, end)
            request = wire.fetch_frame(given.topic, offset, wait_ms=0, bytes_max=FETCH_BYTES_MAX)
            sent = time.perf_counter()
            answer = connection.ask(request)
            latencies_us.append((time.perf_counter() - sent) * 1e6)
            found = wire.batches(wire.fetched(answer, given.topic))
            if not found or not found[0].base_offset <= offset < found[0].next_offset:
                raise SystemExit(f"offset {offset} was asked, {found[:1]} was answered")
    options.latency_report(latencies_us)


if __name__ == "__main__":
    main()
