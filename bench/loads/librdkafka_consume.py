"""Read a topic from its start as fast as librdkafka goes."""

import time

from bench import librdkafka
from bench.loads import options


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--isolation", default="read_committed", choices=("read_committed", "read_uncommitted"))
    given = parser.parse_args()
    consumer = librdkafka.Handle(
        librdkafka.CONSUMER,
        given.topic,
        {
            "bootstrap.servers": given.server,
            "isolation.level": given.isolation,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1024 * 1024,
            "fetch.message.max.bytes": 8 << 20,
            "fetch.max.bytes": 64 << 20,
        },
    )
    started = time.perf_counter()
    consumer.start(0)
    got = 0
    while got < given.records:
        count = consumer.consume(10_000)
        if count <= 0:
            raise SystemExit(f"nothing came for 10 s after {got} of {given.records} records")
        got += count
    took_s = time.perf_counter() - started
    options.report(records_per_s=got / took_s, bytes_per_s=got * given.bytes / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
