"""Clients' and Kafka's own tools that move partitions and elect leaders, against a cluster of three."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, TopicPartition

from tests.compatibility import apache_kafka
from tests.compatibility.apache_kafka import run_tool
from tests.compatibility.conftest import absent
from tests.system.cluster_process import CALM, ClusterProcess

TIMEOUT_S = 30.0
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ClusterProcess(tmp_path_factory.mktemp("cluster"), settings=CALM) as cluster:
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def new_topic(admin: AdminClient, *replicas: int) -> str:
    """A topic of one partition on these brokers."""
    name = f"moved-{os.urandom(4).hex()}"
    admin.create_topics([ConfluentTopic(name, num_partitions=1, replica_assignment=[list(replicas)])])[name].result(
        TIMEOUT_S
    )
    until(lambda: name in admin.list_topics(timeout=TIMEOUT_S).topics)
    return name


def partition_of(admin: AdminClient, topic: str) -> Any:
    return admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[0]


def test_kafka_python_moves_a_partition_and_lists_what_moves(bootstrap: str, admin: AdminClient) -> None:
    topic = new_topic(admin, 1, 2)
    client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        key = TopicPartition(topic, 0)
        assert client.alter_partition_reassignments({key: None})[key].__name__ == "NoReassignmentInProgressError"
        assert client.alter_partition_reassignments({key: [3, 1]}) == {key: None}
        until(lambda: not client.list_partition_reassignments([key]))
        until(lambda: list(partition_of(admin, topic).replicas) == [3, 1])
    finally:
        client.close()


def test_librdkafka_elects_leaders(admin: AdminClient) -> None:
    topic = new_topic(admin, 2, 3)
    until(lambda: partition_of(admin, topic).leader == 2)
    answers = admin.elect_leaders(ElectionType.PREFERRED, [ConfluentPartition(topic, 0)]).result(TIMEOUT_S)
    assert [error.name() for error in answers.values()] == ["ELECTION_NOT_NEEDED"]


def test_kafka_reassign_partitions_and_leader_election(bootstrap: str, admin: AdminClient, tmp_path: Path) -> None:
    if (reason := apache_kafka.missing()) is not None:
        absent(reason)
    topic = new_topic(admin, 1, 2)
    plan = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))

    def reassign(*arguments: str) -> str:
        place = ("--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan))
        return run_tool(REASSIGN, *place, *arguments)

    assert "Successfully started partition reassignment" in reassign("--execute", "--throttle", "10000000")
    until(lambda: list(partition_of(admin, topic).replicas) == [3, 2])
    verified = reassign("--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "Clearing topic-level throttles" in verified
    assert partition_of(admin, topic).leader == 3
    listed = run_tool(REASSIGN, "--bootstrap-server", bootstrap, "--list")
    assert "No partition reassignments found." in listed
    elected = run_tool(
        ELECT, "--bootstrap-server", bootstrap, "--election-type", "preferred", "--topic", topic, "--partition", "0"
    )
    assert "already elected" in elected or "Valid replica already elected" in elected
