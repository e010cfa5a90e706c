"""Produce records of one size as fast as librdkafka goes, then wait until all are acknowledged."""

import time

from bench import librdkafka, wire
from bench.loads import options

AT_ONCE = 5_000
QUEUED_MAX = 400000
QUEUED_KB_MAX = 512 * 1024


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after this long even if records are left")
    parser.add_argument("--acks", type=int, default=1)
    given = parser.parse_args()
    with wire.Connection(given.server) as connection:
        connection.await_topic(given.topic)
        before = connection.offset(given.topic, wire.LATEST)
    producer = librdkafka.Handle(
        librdkafka.PRODUCER,
        given.topic,
        {
            "bootstrap.servers": given.server,
            "acks": given.acks,
            "queue.buffering.max.messages": QUEUED_MAX,
            "queue.buffering.max.kbytes": QUEUED_KB_MAX,
        },
    )
    value = b"v" * given.bytes
    sent, started = 0, time.perf_counter()
    while sent < given.records and time.perf_counter() - started < given.seconds:
        if producer.queued() > QUEUED_MAX - AT_ONCE:
            producer.poll(1)
            continue
        sent += producer.produce(value, min(AT_ONCE, given.records - sent))
    if not producer.flush(120_000):
        raise SystemExit("not every record was acknowledged within two minutes")
    took_s = time.perf_counter() - started
    with wire.Connection(given.server) as connection:
        stored = connection.offset(given.topic, wire.LATEST) - before
    if stored != sent:
        raise SystemExit(f"{sent} records were sent, the log grew by {stored}")
    options.report(records_per_s=sent / took_s, bytes_per_s=sent * given.bytes / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
