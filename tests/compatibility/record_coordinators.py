"""Record what clients ask of Apache Kafka's coordinators, and what these write into the internal topics.

    python -m tests.compatibility.record_coordinators

Runs groups of both protocols and transactions of several clients through a proxy against Apache Kafka, then stops it.
Keeps one request for each client, API and version (client, request, version, frame in hex) in ``coordinators.txt``, and
from the log folders a few records of each kind (topic, then key and value in hex, ``-`` for a tombstone) in
``internal_topics.txt``: golden bytes for our messages and for our schemas of the records.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AIOTopicPartition
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer

from millstream.model.batch import LOG_OVERHEAD, header_at
from millstream.model.records import Record, decode_batch
from millstream.protocol.messages import REQUESTS
from millstream.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tests.compatibility.apache_kafka import ApacheKafka, free_port, run_tool
from tests.compatibility.record_frames import Recorder

UNIT = Path(__file__).parents[1] / "unit"
RECORDED_FRAMES = UNIT / "protocol" / "coordinators.txt"
RECORDED_RECORDS = UNIT / "coordination" / "schemas" / "internal_topics.txt"
TOPICS = ("__consumer_offsets", "__transaction_state")
#: The APIs of groups and transactions.
KEYS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 22, 24, 25, 26, 28, 42, 47, 61, 65, 66, 68, 69}
#: Kept of one topic, key type and kind of value.
VARIANTS_MAX = 6


def main() -> None:
    port = free_port()
    settings = {
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with ApacheKafka(data, settings=settings) as kafka:
            recorder = Recorder(kafka.port, port)
            _work(f"127.0.0.1:{port}", recorder)
        records = [line for topic in TOPICS for line in _lines(topic, data)]
    frames = [
        f"{_sender(client, key, version)} {REQUESTS[key].__name__} {version} {next(iter(kept.values())).hex()}"
        for (client, key, version), kept in sorted(recorder.frames.items())
        if key in KEYS and kept
    ]
    RECORDED_FRAMES.write_text("".join(f"{line}\n" for line in frames))
    RECORDED_RECORDS.write_text("".join(f"{line}\n" for line in records))


def _sender(client: str, key: int, version: int) -> str:
    """The client at work, or the broker itself, which asks its coordinator whether a partition is in a transaction."""
    return "broker" if key == AddPartitionsToTxnRequest.API_KEY and version >= 4 else client


def _work(bootstrap: str, recorder: Recorder) -> None:
    recorder.client = "librdkafka"
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
    _administer(admin)
    recorder.client = "java"
    _java(bootstrap)
    recorder.client = "kafka-python"
    _kafka_python(bootstrap)
    recorder.client = "aiokafka"
    asyncio.run(_aiokafka(bootstrap))


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


def _administer(admin: AdminClient) -> None:
    admin.list_consumer_groups().result()
    for described in admin.describe_consumer_groups(["classic", "consumer"]).values():
        described.result()
    offsets = ConsumerGroupTopicPartitions("classic-dynamic", [TopicPartition("in", 0), TopicPartition("in", 1)])
    for listed in admin.list_consumer_group_offsets([offsets]).values():
        listed.result()
    for deleted in admin.delete_consumer_groups(["classic-dynamic", "consumer"]).values():
        deleted.result()


def _java(bootstrap: str) -> None:
    """Kafka's own tools; the producer makes several transactions, in the second version of them."""
    place = ("--bootstrap-server", bootstrap)
    options = ("--topic", "in", "--num-records", "20", "--record-size", "10", "--throughput", "-1")
    ids = ("--transactional-id", "java", "--transaction-duration-ms", "1")
    run_tool("org.apache.kafka.tools.ProducerPerformance", *place, *options, *ids)
    for protocol in ("classic", "consumer"):
        group = ("--group", f"java-{protocol}", "--consumer-property", f"group.protocol={protocol}")
        consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        run_tool(consumer, *place, "--topic", "in", "--from-beginning", "--max-messages", "5", *group)
    groups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    run_tool(groups, *place, "--describe", "--all-groups", "--state")
    run_tool(groups, *place, "--delete-offsets", "--group", "java-classic", "--topic", "in")
    run_tool(groups, *place, "--delete", "--group", "java-classic")
    transactions = "org.apache.kafka.tools.TransactionsCommand"
    run_tool(transactions, *place, "list")
    run_tool(transactions, *place, "describe", "--transactional-id", "java")
    run_tool(transactions, *place, "describe-producers", "--topic", "in", "--partition", "0")


def _kafka_python(bootstrap: str) -> None:
    consumer = KafkaConsumer("in", bootstrap_servers=bootstrap, group_id="python", auto_offset_reset="earliest")
    deadline = time.monotonic() + 60
    while not consumer.poll(timeout_ms=500):
        assert time.monotonic() < deadline
    consumer.commit()
    time.sleep(4)  # Longer than its heartbeats are apart.
    consumer.close()


async def _aiokafka(bootstrap: str) -> None:
    async with (
        AIOKafkaConsumer("in", bootstrap_servers=bootstrap, group_id="aio", auto_offset_reset="earliest") as consumer,
        AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aio") as producer,
    ):
        record = await consumer.getone()
        async with producer.transaction():
            await producer.send("out", b"copied")
            partition = AIOTopicPartition(record.topic, record.partition)
            await producer.send_offsets_to_transaction({partition: record.offset + 1}, "aio")
        await consumer.commit()


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
