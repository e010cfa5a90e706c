"""Produce at a steady rate, acks=all, for some seconds; the longest time without an acknowledgement, and failures.

Prints ``begun`` when the first record was acknowledged, so that whoever strikes a broker knows when to.
"""

import itertools
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.loads import options


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument(
        "--timeout-ms",
        type=int,
        default=0,
        help="of requests and sockets, a quarter of it to ask who leads; 0 for librdkafka's own: 30 s, 60 s, minutes",
    )
    given = parser.parse_args()
    acknowledged_s: list[float] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is None:
            acknowledged_s.append(time.perf_counter())
        else:
            failures.append(error)

    settings = {"bootstrap.servers": given.server, "acks": "all", "linger.ms": 0}
    if given.timeout_ms:
        settings |= {
            "request.timeout.ms": given.timeout_ms,
            "socket.timeout.ms": given.timeout_ms,
            "topic.metadata.refresh.interval.ms": given.timeout_ms // 4,
        }
    producer = Producer({**settings, "on_delivery": delivered})
    producer.produce(given.topic, b"first", partition=0)
    if producer.flush(30) or failures:
        raise SystemExit(f"the first record was not acknowledged: {failures}")
    print("begun", flush=True)
    started = due = time.perf_counter()
    while due - started < given.seconds:
        producer.produce(given.topic, b"v" * options.RECORD_BYTES, partition=0)
        due += 1 / given.rate
        while (left_s := due - time.perf_counter()) > 0:
            producer.poll(left_s)
    if producer.flush(60):
        raise SystemExit("not every record was acknowledged within a minute")
    gaps_s = [after - before for before, after in itertools.pairwise(acknowledged_s)]
    options.report(longest_s=max(gaps_s), failures=len(failures), acknowledged=len(acknowledged_s))


if __name__ == "__main__":
    main()
