"""Consumers that subscribe all at once, until each has its partition: one for each."""

import time

from confluent_kafka import Consumer

from bench import wire
from bench.loads import options

PATIENCE_S, POLL_S = 60.0, 0.005


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--members", type=int, required=True)
    given = parser.parse_args()
    with wire.Connection(given.server) as connection:
        connection.create_topic(given.topic, given.members)
        connection.await_topic(given.topic)
    settings = {"bootstrap.servers": given.server, "group.id": f"librdkafka-{given.topic}"}
    consumers = [Consumer(settings) for _ in range(given.members)]
    started = time.perf_counter()
    for consumer in consumers:
        consumer.subscribe([given.topic])
    while True:
        for consumer in consumers:
            consumer.poll(0)
        if all(len(consumer.assignment()) == 1 for consumer in consumers):
            break
        if time.perf_counter() - started > PATIENCE_S:
            raise SystemExit(f"the members have not settled in {PATIENCE_S:g} s")
        time.sleep(POLL_S)
    took_s = time.perf_counter() - started
    for consumer in consumers:
        consumer.close()
    options.report(seconds=took_s)


if __name__ == "__main__":
    main()
