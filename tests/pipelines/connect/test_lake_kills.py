"""Lakes and HTTP end to end: real Spark, a real broker, and kill -9 in the middle; nothing is lost or doubled."""

import json
import threading
from collections import Counter
from pathlib import Path

import pytest

from millstream.pipelines.connect.reports import Batch
from tests.pipelines.connect.connectors import TIMEOUT_S, Connector
from tests.pipelines.connect.lakes import Lake
from tests.pipelines.connect.web_server import Answer, Request, WebServer
from tests.pipelines.records import records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

RECORDS = 1600
CLASSES = {"parquet": "ParquetSink", "delta": "DeltaSink", "iceberg": "IcebergSink"}
COMMON = {
    "tasks.max": "2",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "consumer.override.max.poll.records": "200",
}


def _fill(topics: Topics, topic: str) -> None:
    values = [json.dumps({"id": number, "country": ("NL", "BE", None)[number % 3]}) for number in range(RECORDS)]
    for partition in (0, 1):
        topics.put(topic, values[partition::2], partition)


def _position(connector: Connector) -> int:
    return sum(offset["kafka_offset"] for offset in connector.offsets.values())


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_topic_is_in_the_lake_once_though_process_and_worker_are_killed(
    kind: str, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new(2, name=f"lake-{kind}")
    _fill(topics, topic)
    topics.put(topic, ['{"id": "bad", "only": "here"}'], 1)
    config = {
        **COMMON,
        "name": f"to-{kind}",
        "connector.class": CLASSES[kind],
        "topics": topic,
        "store.url": str(tmp_path / "lake"),
        "partitioner.class": "FieldPartitioner",
        "partition.field.name": "country",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    with Connector(broker.address, tmp_path, config) as connector:
        connector.wait(lambda: len(connector.told(Batch)) >= 2, "two batches")
        connector.kill()
        connector.start()
        if kind == "parquet":
            connector.wait(lambda: len(connector.told(Batch)) >= 2 and connector.kill_worker(), "a worker to kill")
        connector.wait(lambda: _position(connector) == RECORDS + 1, "the end", revives=True)
        connector.stop()
    rows = Lake(kind, tmp_path / "lake").rows(topic)
    assert sorted(row["id"] for row in rows) == list(range(RECORDS))
    assert set(rows[0]) == {"id", "country"}
    (dead,) = records_of(broker.address, f"{topic}-dead")
    assert dead.value == b'{"id": "bad", "only": "here"}'


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_server_can_tell_what_a_killed_process_sends_again(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new(2, name="web")
    _fill(topics, topic)
    is_killed = threading.Event()
    given = {**COMMON, "name": "to-web", "connector.class": "HttpSink", "topics": topic}
    with WebServer() as server:

        def answer(request: Request) -> Answer:
            if len(server.requests) >= RECORDS // 2 - 50:  # In the middle of a batch.
                assert is_killed.wait(TIMEOUT_S)
            return Answer()

        server.answer = answer
        with Connector(broker.address, tmp_path, {**given, "http.api.url": server.url}) as connector:
            connector.wait(lambda: len(server.requests) >= RECORDS // 2 - 50, "half a batch")
            connector.kill()
            is_killed.set()
            connector.wait(lambda: _position(connector) == RECORDS, "the end", revives=True)
            connector.stop()
        seen = Counter(request.headers["Idempotency-Key"] for request in server.requests)
        sent = {request.headers["Idempotency-Key"]: request.json["id"] for request in server.requests}
    assert max(seen.values()) > 1
    assert set(seen) == {f"to-web/{topic}/{place}/{offset}" for place in (0, 1) for offset in range(RECORDS // 2)}
    assert sorted(sent.values()) == list(range(RECORDS))
