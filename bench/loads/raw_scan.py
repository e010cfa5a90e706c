"""Read a topic once from its start with large fetches, dropping the bytes: a consumer that catches up."""

import sys
import time

from bench import wire
from bench.loads import options

FETCH_BYTES_MAX = 1 << 20
PROGRESS_EVERY_S = 5.0


def main() -> None:
    given = options.parser(__doc__).parse_args()
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        end, at, got = connection.offset(given.topic, wire.LATEST), 0, 0
        started = shown = time.perf_counter()
        while at < end:
            answer = connection.ask(wire.fetch_frame(given.topic, at, wait_ms=500, bytes_max=FETCH_BYTES_MAX))
            records = wire.fetched(answer, given.topic)
            found = wire.batches(records)
            if not found:
                raise SystemExit(f"nothing was read at offset {at} of {end}")
            at, got = found[-1].next_offset, got + len(records)
            if time.perf_counter() - shown > PROGRESS_EVERY_S and sys.stderr.isatty():
                shown = time.perf_counter()
                print(f"\r  {given.topic}: {got >> 20:,} MB read", end="", file=sys.stderr, flush=True)
        took_s = time.perf_counter() - started
    options.report(bytes_per_s=got / took_s, bytes=got, seconds=took_s)


if __name__ == "__main__":
    main()
