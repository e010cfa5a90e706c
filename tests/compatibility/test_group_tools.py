"""Apache Kafka's own tools for groups and transactions, its formatters, and the programs its system tests run."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.compatibility.apache_kafka import run_tool
from tests.compatibility.conftest import Hosts, NewTopic
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import Record
from tests.compatibility.members import Host, JavaHost, Member, Producer, leaving, places_of, settled
from tests.compatibility.test_transactions import COMMITTED, visible

TOOLS = "org.apache.kafka.tools."
RECORDS = 100

Tool = Callable[..., str]


@pytest.fixture(scope="session")
def java(hosts: Hosts) -> JavaHost:
    host = hosts["java"]
    assert isinstance(host, JavaHost)
    return host


@pytest.fixture
def groups(java: JavaHost, bootstrap: str) -> Tool:
    """kafka-consumer-groups."""
    return lambda *options: java.tool("consumer.group.ConsumerGroupCommand", "--bootstrap-server", bootstrap, *options)


@pytest.fixture
def transactions(java: JavaHost, bootstrap: str) -> Tool:
    """kafka-transactions."""
    return lambda *options: java.tool("TransactionsCommand", "--bootstrap-server", bootstrap, *options)


def table(said: str) -> list[dict[str, str]]:
    """The rows a tool printed, by the words of their heading."""
    rows = [line.split() for line in said.splitlines() if line.strip()]
    while rows and rows[0][0] not in {"GROUP", "TOPIC", "TransactionalId", "ProducerId"}:
        rows.pop(0)
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def a_reader(host: Host, seed: Driver, topic: str, group: str, protocol: str) -> Member:
    """A member that read and committed five records, and left three unread."""
    seed.produce(topic, [Record(b"x")] * 5)
    member = host.join(group, topic, protocol=protocol, assignor="range")
    settled(places_of(topic, 2), member)
    member.read(5)
    member.commit()
    member.pause([(topic, 0)])
    seed.produce(topic, [Record(b"x")] * 3)
    return member


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_shows_a_group(
    groups: Tool, hosts: Hosts, seed: Driver, new_topic: NewTopic, group: str, protocol: str
) -> None:
    topic = new_topic(partitions=2)
    with leaving(a_reader(hosts["confluent"], seed, topic, group, protocol)):
        assert group in groups("--list").split()
        (listed,) = [row for row in table(groups("--list", "--state")) if row["GROUP"] == group]
        assert listed["STATE"] == "Stable"
        (listed,) = [row for row in table(groups("--list", "--type", protocol)) if row["GROUP"] == group]
        assert listed["TYPE"].lower() == protocol
        rows = {int(row["PARTITION"]): row for row in table(groups("--describe", "--group", group))}
        shown = [rows[0][name] for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "HOST")]
        assert shown == ["5", "8", "3", "/127.0.0.1"]
        (member,) = table(groups("--describe", "--group", group, "--members", "--verbose"))
        assert (member["#PARTITIONS"], member["CLIENT-ID"]) == ("2", "rdkafka")
        state = groups("--describe", "--group", group, "--state")
        assert "Stable" in state and "range" in state and state.split()[-1] == "1"
        assert "GroupNotEmptyException" in groups("--delete", "--group", group)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_changes_a_group(
    groups: Tool, hosts: Hosts, seed: Driver, new_topic: NewTopic, group: str, protocol: str
) -> None:
    topic = new_topic(partitions=2)
    a_reader(hosts["confluent"], seed, topic, group, protocol).leave()

    def reset(*options: str) -> dict[str, str]:
        rows = table(groups("--reset-offsets", "--group", group, "--topic", f"{topic}:0", *options))
        return {row["PARTITION"]: row["NEW-OFFSET"] for row in rows}

    def current() -> list[str]:
        return [
            row["CURRENT-OFFSET"] for row in table(groups("--describe", "--group", group)) if row["PARTITION"] == "0"
        ]

    assert reset("--to-latest", "--dry-run") == {"0": "8"} and current() == ["5"]
    assert reset("--shift-by=-2", "--execute") == {"0": "3"} and current() == ["3"]
    assert reset("--to-datetime", "2020-01-01T00:00:00.000", "--execute") == {"0": "0"} and current() == ["0"]
    assert "Successful" in groups("--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert current() == []
    assert "successful" in groups("--delete", "--group", group)
    assert group not in groups("--list").split()


def test_kafka_transactions(transactions: Tool, hosts: Hosts, topic: str) -> None:
    transactional_id = f"x-{uuid.uuid4().hex[:12]}"
    producer = Producer(hosts["confluent"], transactional_id)
    producer.begin()
    producer.send(topic, "open")
    (listed,) = [row for row in table(transactions("list")) if row["TransactionalId"] == transactional_id]
    assert listed["TransactionState"] == "Ongoing"
    described = transactions("describe", "--transactional-id", transactional_id)
    assert "Ongoing" in described and f"{topic}-0" in described and "60000" in described
    (writing,) = table(transactions("describe-producers", "--topic", topic, "--partition", "0"))
    assert (writing["ProducerId"], writing["CurrentTransactionStartOffset"]) == (listed["ProducerId"], "0")
    hanging = transactions("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    assert topic not in hanging  # Its coordinator knows of it.
    transactions("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    (writing,) = table(transactions("describe-producers", "--topic", topic, "--partition", "0"))
    assert writing["CurrentTransactionStartOffset"] == "None"


@pytest.fixture
def internal(java: JavaHost, bootstrap: str) -> Callable[[str, str], list[Any]]:
    """What kafka-console-consumer prints of an internal topic with the formatter that Kafka has for it."""

    def read(topic: str, formatter: str) -> list[Any]:
        said = java.tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--timeout-ms", "1500"),
            *("--formatter", f"{TOOLS}consumer.{formatter}"),
        )
        decoder, rows = json.JSONDecoder(), []
        while (start := said.find('{"key"')) >= 0:
            row, end = decoder.raw_decode(said[start:])
            said = said[start + end :]
            rows.append(row)
        return rows

    return read


def test_kafka_s_formatters_read_the_internal_topics(
    internal: Callable[[str, str], list[Any]], hosts: Hosts, seed: Driver, new_topic: NewTopic, group: str
) -> None:
    topic, transactional_id = new_topic(partitions=2), f"x-{uuid.uuid4().hex[:12]}"
    with leaving(a_reader(hosts["confluent"], seed, topic, group, "classic")):
        offsets = [row for row in internal("__consumer_offsets", "OffsetsMessageFormatter") if group in str(row["key"])]
        found = {row["key"]["data"]["partition"]: row["value"]["data"]["offset"] for row in offsets}
        assert found[0] == 5 and offsets[0]["key"]["data"]["topic"] == topic
        kept = [
            row for row in internal("__consumer_offsets", "GroupMetadataMessageFormatter") if group in str(row["key"])
        ]
        last = kept[-1]["value"]["data"]
        assert (last["protocolType"], last["protocol"], len(last["members"])) == ("consumer", "range", 1)
    producer = Producer(hosts["confluent"], transactional_id)
    producer.begin()
    producer.send(topic, "x")
    producer.commit()
    states = [
        row["value"]["data"]
        for row in internal("__transaction_state", "TransactionLogMessageFormatter")
        if row["key"]["data"]["transactionalId"] == transactional_id
    ]
    ongoing = [{"topic": topic, "partitionIds": [0]}]
    assert any(state["transactionStatus"] == 1 and state["transactionPartitions"] == ongoing for state in states)
    assert states[-1]["transactionStatus"] in (2, 4)  # PrepareCommit or CompleteCommit


@pytest.mark.timeout(240)
def test_the_programs_of_kafka_s_system_tests(
    bootstrap: str, hosts: Hosts, java: JavaHost, new_topic: NewTopic, group: str
) -> None:
    """TransactionalMessageCopier copies once, for all its aborts, what VerifiableProducer wrote."""
    source, sink = new_topic(), new_topic()
    broker = ("--bootstrap-server", bootstrap)
    wrote = run_tool(TOOLS + "VerifiableProducer", *broker, "--topic", source, "--max-messages", str(RECORDS))
    assert wrote.count("producer_send_success") == RECORDS
    copier = ("--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0", "--output-topic", sink)
    copied = run_tool(
        TOOLS + "TransactionalMessageCopier",
        *copier,
        *("--consumer-group", group, "--transactional-id", f"x-{group}", "--transaction-size", "7"),
        *("--max-messages", str(RECORDS), "--enable-random-aborts"),
        timeout_s=120,
    )
    assert "ShutdownComplete" in copied
    assert visible(hosts["confluent"], sink, COMMITTED, RECORDS) == [str(number) for number in range(RECORDS)]
    began = time.monotonic()
    read = run_tool(
        TOOLS + "VerifiableConsumer",
        *broker,
        *("--topic", source, "--group-id", f"{group}-reads", "--max-messages", str(RECORDS), "--verbose"),
        *("--reset-policy", "earliest"),
        timeout_s=120,
    )
    events = [json.loads(line) for line in read.splitlines() if line.startswith("{")]
    values = [event["value"] for event in events if event["name"] == "record_data"]
    assert values == [str(number) for number in range(RECORDS)]
    assert any(event["name"] == "offsets_committed" and event["success"] for event in events)
    assert time.monotonic() - began < 60
