"""Transactions of some records over some partitions, one after the other, as fast as librdkafka's producer goes."""

import time

from confluent_kafka import KafkaError, Message, Producer

from bench import wire
from bench.loads import options

TIMEOUT_S = 60.0


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--transactions", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=0, help="transactions before the clock starts")
    parser.add_argument("--records", type=int, default=100, help="in each transaction")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--abort-every", type=int, default=0, help="abort one in so many; 0: none")
    given = parser.parse_args()
    with wire.Connection(given.server) as connection:
        connection.create_topic(given.topic, given.partitions)
        connection.await_topic(given.topic)
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {"bootstrap.servers": given.server, "transactional.id": f"txn-{given.topic}", "on_delivery": delivered}
    )
    producer.init_transactions(TIMEOUT_S)
    value = b"v" * options.RECORD_BYTES
    started = time.perf_counter()
    for number in range(given.warm_up + given.transactions):
        if number == given.warm_up:
            started = time.perf_counter()
        producer.begin_transaction()
        for at in range(given.records):
            producer.produce(given.topic, value, partition=at % given.partitions)
        if given.abort_every and number % given.abort_every == given.abort_every - 1:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    took_s = time.perf_counter() - started
    if failures:
        raise SystemExit(f"{len(failures)} records failed, first with {failures[0]}")
    options.report(transactions_per_s=given.transactions / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
