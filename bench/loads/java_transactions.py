"""Transactions of some records over some partitions, one after the other, as fast as Kafka's Java producer goes.

The producer is ``Transactions.java``, which Java compiles as it starts it.
"""

import subprocess
from pathlib import Path

from tests.compatibility import apache_kafka

from bench import wire
from bench.loads import options

SOURCE = Path(__file__).with_name("Transactions.java")
TIMEOUT_S = 600.0


def main() -> None:
    parser = options.parser(__doc__)
    parser.add_argument("--transactions", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=0, help="transactions before the clock starts")
    parser.add_argument("--records", type=int, default=100, help="in each transaction")
    parser.add_argument("--partitions", type=int, default=4)
    given = parser.parse_args()
    with wire.Connection(given.server) as connection:
        connection.create_topic(given.topic, given.partitions)
        connection.await_topic(given.topic)
    counts = (given.transactions, given.warm_up, given.records, given.partitions, options.RECORD_BYTES)
    command = ["java", "-Xmx512m", "-cp", apache_kafka.classpath(), str(SOURCE), given.server, given.topic]
    done = subprocess.run([*command, *map(str, counts)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{SOURCE.name} exited with {done.returncode}: {done.stderr.strip()[-300:]}")
    took_s = float(done.stdout)
    expected = (given.warm_up + given.transactions) * (
        given.records // given.partitions + 1
    )  # Each ends with a marker.
    with wire.Connection(given.server) as connection:
        stored = connection.await_offset(given.topic, expected)
    if stored != expected:
        raise SystemExit(f"{expected} records and markers were written to the first partition, it has {stored}")
    options.report(transactions_per_s=given.transactions / took_s, seconds=took_s)


if __name__ == "__main__":
    main()
