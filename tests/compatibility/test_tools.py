"""Apache Kafka's own command line against our broker: what an operator types today."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility import apache_kafka
from tests.compatibility.apache_kafka import run_tool
from tests.compatibility.conftest import NewTopic, absent, wait_for_leaders
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import Record

TOOLS = "org.apache.kafka.tools."


@pytest.fixture(autouse=True)
def _kafka_is_there() -> Iterator[None]:
    if (reason := apache_kafka.missing()) is not None:
        absent(reason)
    yield


def test_kafka_topics(bootstrap: str, seed: Driver, name: str) -> None:
    def topics(*arguments: str) -> str:
        return run_tool(TOOLS + "TopicCommand", "--bootstrap-server", bootstrap, *arguments)

    topics("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=5000")
    wait_for_leaders(seed, name, 2)
    topics("--alter", "--topic", name, "--partitions", "3")
    wait_for_leaders(seed, name, 3)
    described = topics("--describe", "--topic", name)
    assert "PartitionCount: 3" in described and "retention.ms=5000" in described
    assert described.count("Leader: ") == 3
    topics("--delete", "--topic", name)


def test_kafka_configs(bootstrap: str, topic: str) -> None:
    def configs(*arguments: str) -> str:
        place = ("--bootstrap-server", bootstrap, "--entity-type", "topics", "--entity-name", topic)
        return run_tool("kafka.admin.ConfigCommand", *place, *arguments)

    configs("--alter", "--add-config", "retention.ms=7777,cleanup.policy=[compact,delete]")
    described = configs("--describe")
    assert "retention.ms=7777" in described and "cleanup.policy=compact,delete" in described


def test_kafka_get_offsets_and_delete_records(bootstrap: str, seed: Driver, topic: str, tmp_path: Path) -> None:
    def offsets(when: str) -> str:
        return run_tool(
            TOOLS + "GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic, "--time", when
        ).strip()

    seed.produce(topic, [Record(b"%d" % i, timestamp_ms=1_000 * (i + 1)) for i in range(5)])
    assert [offsets(when) for when in ("max-timestamp", "3000")] == [f"{topic}:0:4", f"{topic}:0:2"]
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 3}]}
    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    place = ("--bootstrap-server", bootstrap, "--offset-json-file", tmp_path / "wanted.json")
    assert "low_watermark: 3" in run_tool(TOOLS + "DeleteRecordsCommand", *place)
    assert offsets("earliest") == f"{topic}:0:3"


def test_kafka_log_dirs(bootstrap: str, seed: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    seed.produce(topic, [Record(b"x" * 500)])
    place = ("--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)
    (line,) = [row for row in run_tool(TOOLS + "LogDirsCommand", *place).splitlines() if row.startswith("{")]
    brokers = json.loads(line)["brokers"]
    assert {broker["broker"] for broker in brokers} == set(seed.describe_cluster().brokers)
    for broker in brokers:  # Each has a replica of every partition.
        sizes = {row["partition"]: row["size"] for folder in broker["logDirs"] for row in folder["partitions"]}
        assert sizes[f"{topic}-1"] == 0 and sizes[f"{topic}-0"] > 500


def test_kafka_broker_api_versions(bootstrap: str) -> None:
    said = run_tool(TOOLS + "BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)
    assert "Produce(0): 0 to 13" in said and "Fetch(1): 4 to 18" in said


def test_kafka_producer_perf_test(bootstrap: str, seed: Driver, topic: str) -> None:
    load = ("--topic", topic, "--num-records", "5000", "--record-size", "200", "--throughput", "-1")
    said = run_tool(TOOLS + "ProducerPerformance", *load, "--producer-props", f"bootstrap.servers={bootstrap}")
    assert "5000 records sent" in said
    assert seed.list_offset(topic, -1) == 5_000
