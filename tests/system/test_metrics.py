"""A broker as its watchers see it."""

from collections.abc import Iterator

import pytest

from tests.system.broker_process import BrokerProcess
from tests.system.command import Millstream
from tests.system.watching import metrics, page


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("watched"), arguments=["--metrics-port", "0"]) as process:
        yield process


@pytest.fixture(scope="module")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.address


def test_health_is_told(broker: BrokerProcess) -> None:
    assert page(broker, "/health/live") == (200, "OK\n")
    assert page(broker, "/health/ready") == (200, "OK\n")
    assert page(broker, "/nothing")[0] == 404


def test_a_topics_traffic_is_counted_until_it_is_deleted(broker: BrokerProcess, millstream: Millstream) -> None:
    millstream("topic", "create", "orders", "-p", 2)
    millstream("produce", "orders", stdin="one\ntwo\nthree\n")
    seen = metrics(broker)
    assert seen['kafka_server_brokertopicmetrics_messagesin_total{topic="orders"}'] == 3
    assert seen['kafka_server_brokertopicmetrics_bytesin_total{topic="orders"}'] > 61
    assert seen['kafka_server_brokertopicmetrics_totalproducerequests_total{topic="orders"}'] >= 1
    ends = [seen[f'kafka_topic_partition_current_offset{{topic="orders",partition="{index}"}}'] for index in (0, 1)]
    assert sum(ends) == 3
    assert seen['kafka_topic_partition_oldest_offset{topic="orders",partition="0"}'] == 0
    assert seen['kafka_topic_partition_in_sync_replica{topic="orders",partition="1"}'] == 1
    assert any(seen[f'kafka_log_log_size{{topic="orders",partition="{index}"}}'] > 61 for index in (0, 1))
    millstream("topic", "delete", "orders")
    assert not [name for name in metrics(broker) if "orders" in name]


def test_the_broker_and_its_cluster_are_told(broker: BrokerProcess, millstream: Millstream) -> None:
    millstream("topic", "create", "wide", "-p", 5)
    seen = metrics(broker)
    assert seen["kafka_server_replicamanager_partitioncount"] == 5
    assert seen["kafka_server_replicamanager_leadercount"] == 5
    assert seen["kafka_server_replicamanager_underreplicatedpartitions"] == 0
    assert seen["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert seen["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
    assert seen["kafka_brokers"] == 1
    assert seen["kafka_server_socket_server_metrics_connection_count"] >= 0


def test_the_time_of_requests_is_told_by_kafkas_names_for_them(broker: BrokerProcess, millstream: Millstream) -> None:
    millstream("topic", "create", "Produce")
    millstream("produce", "Produce", stdin="one\n")
    millstream("consume", "Produce", "-e")
    millstream("topic", "delete", "Produce")
    seen = metrics(broker)
    for request in ("Produce", "FetchConsumer", "Metadata", "CreateTopics"):
        assert seen[f'kafka_network_requestmetrics_totaltimems_count{{request="{request}"}}'] >= 1
        assert 0 < seen[f'kafka_network_requestmetrics_totaltimems{{request="{request}",quantile="0.99"}}'] < 60_000
    assert 'kafka_network_requestmetrics_totaltimems_count{request="Fetch"}' not in seen
