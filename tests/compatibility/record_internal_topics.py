"""Record what Apache Kafka writes into its internal topics: golden bytes for our schemas of them.

    python -m tests.compatibility.record_internal_topics

Runs groups of both protocols and transactions against Apache Kafka, stops it, and keeps from its log folders one line
for each shape of record (topic, then key and value in hex, ``-`` for a tombstone) in ``internal_topics.txt``.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from millstream.model.batch import LOG_OVERHEAD, header_at
from millstream.model.records import Record, decode_batch
from tests.compatibility.apache_kafka import ApacheKafka, run_tool

RECORDED = Path(__file__).parents[1] / "unit" / "coordination" / "schemas" / "internal_topics.txt"
TOPICS = ("__consumer_offsets", "__transaction_state")
#: Kept of one topic, key type and kind of value.
VARIANTS_MAX = 6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
        with ApacheKafka(data, settings=settings) as kafka:
            _work(kafka.bootstrap)
        lines = [line for topic in TOPICS for line in _lines(topic, data)]
    RECORDED.write_text("".join(f"{line}\n" for line in lines))


def _work(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("in", 2), NewTopic("out", 1)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce("in", f"value {number}", partition=number % 2)
    producer.flush()
    _classic_group(bootstrap)
    _both_protocols_in_one_group(bootstrap)
    _transactions(bootstrap)
    _java_transactions(bootstrap)
    for deleted in admin.delete_consumer_groups(["classic-dynamic", "consumer"]).values():
        deleted.result()


def _consumer(bootstrap: str, group: str, **settings: str) -> Consumer:
    common = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    return Consumer({**common, "enable.auto.commit": "false", **settings})


def _read_one(*consumers: Consumer) -> None:
    """Poll until the first of them reads something; the others are polled to take part in the group."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        records = [consumer.poll(0.1) for consumer in consumers]
        if records[0] is not None and records[0].error() is None:
            return
    raise TimeoutError("nothing could be read")


def _classic_group(bootstrap: str) -> None:
    consumer = _consumer(bootstrap, "classic", **{"group.instance.id": "instance-1"})
    consumer.subscribe(["in"])
    _read_one(consumer)
    consumer.commit(asynchronous=False)
    consumer.close()
    leaving = _consumer(bootstrap, "classic-dynamic")
    leaving.subscribe(["in"])
    _read_one(leaving)
    leaving.commit(asynchronous=False)
    leaving.close()


def _both_protocols_in_one_group(bootstrap: str) -> None:
    """A member by regular expression, then one of the classic protocol beside it, which takes one of its partitions."""
    first = _consumer(bootstrap, "consumer", **{"group.protocol": "consumer", "client.rack": "rack-1"})
    first.subscribe(["^i.$"])
    _read_one(first)
    first.commit(asynchronous=False)
    second = _consumer(bootstrap, "consumer", **{"partition.assignment.strategy": "cooperative-sticky"})
    second.subscribe(["in"])
    _read_one(second, first)
    second.close()
    first.close()


def _transactions(bootstrap: str) -> None:
    consumer = _consumer(bootstrap, "copier")
    consumer.subscribe(["in"])
    _read_one(consumer)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "librdkafka"})
    producer.init_transactions()
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("out", "copied")
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    consumer.close()


def _java_transactions(bootstrap: str) -> None:
    """Two transactions of the Java producer, which speaks the second version of them."""
    options = ("--topic", "in", "--num-records", "20", "--record-size", "10", "--throughput", "-1")
    ids = ("--bootstrap-server", bootstrap, "--transactional-id", "java", "--transaction-duration-ms", "1")
    run_tool("org.apache.kafka.tools.ProducerPerformance", *options, *ids)


def _lines(topic: str, data: Path) -> Iterator[str]:
    seen: dict[tuple[int, bool], int] = {}
    for path in sorted(data.glob(f"{topic}-*/*.log")):
        for record in _records(path.read_bytes()):
            assert record.key is not None
            shape = (int.from_bytes(record.key[:2], "big"), record.value is None)
            seen[shape] = seen.get(shape, 0) + 1
            if seen[shape] <= VARIANTS_MAX or topic == "__transaction_state":
                yield f"{topic} {record.key.hex()} {'-' if record.value is None else record.value.hex()}"


def _records(log: bytes) -> Iterator[Record]:
    """The records of a segment, without those that mark the end of a transaction."""
    at = 0
    while at < len(log):
        header = header_at(log, at)
        if header.length <= 0:
            return  # Kafka grows its files ahead of what it writes.
        if not header.is_control:
            yield from decode_batch(log, at)
        at += LOG_OVERHEAD + header.length


if __name__ == "__main__":
    main()
