"""One broker for all the tests of a worker, each client started once, a new topic for each test."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as TopicToMake

from tests.compatibility.apache_kafka import ApacheKafka
from tests.compatibility.connections import Connections
from tests.compatibility.drivers import DRIVERS, Driver
from tests.compatibility.drivers.base import LATEST, Refused
from tests.compatibility.members import HOSTS, Host
from tests.compatibility.wire import Wire
from tests.system.broker_process import BrokerProcess
from tests.system.cluster_process import ClusterProcess

#: host:port of a running broker to test instead of our own; "cluster" starts three, "apache-kafka" starts that.
BOOTSTRAP = os.environ.get("MILLSTREAM_TEST_BOOTSTRAP")
IN_CI = os.environ.get("CI") == "true"
TOPIC_TIMEOUT_S = 10.0

#: Times that tests of groups would otherwise wait for; a broker that runs already wants them too.
HASTE = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


def absent(reason: str) -> None:
    """A client or tool that is not there: a reason to skip, but never in CI."""
    if IN_CI:
        pytest.fail(f"in CI nothing is skipped: {reason}", pytrace=False)
    pytest.skip(reason)


class Drivers:
    """Every client that was asked for, started when first asked for."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._started: dict[str, Driver] = {}

    def __getitem__(self, name: str) -> Driver:
        if name not in self._started:
            if (reason := DRIVERS[name].missing()) is not None:
                absent(reason)
            self._started[name] = DRIVERS[name](self._bootstrap)
        return self._started[name]

    def close(self) -> None:
        for driver in self._started.values():
            driver.close()


class NewTopic(Protocol):
    def __call__(self, *, partitions: int = 1, replicas: int = -1, together: bool = False, **configs: str) -> str: ...


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if BOOTSTRAP == "apache-kafka":
        with ApacheKafka(tmp_path_factory.mktemp("kafka") / "data", heap="512m", settings=HASTE) as kafka:
            yield kafka.bootstrap
        return
    if BOOTSTRAP == "cluster":
        with ClusterProcess(tmp_path_factory.mktemp("cluster"), settings=HASTE) as cluster:
            yield cluster.bootstrap
        return
    if BOOTSTRAP:
        yield BOOTSTRAP
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", settings=HASTE) as broker:
        yield broker.address


@pytest.fixture(scope="session")
def drivers(bootstrap: str) -> Iterator[Drivers]:
    started = Drivers(bootstrap)
    yield started
    started.close()


@pytest.fixture
def driver(request: pytest.FixtureRequest, drivers: Drivers) -> Driver:
    return drivers[request.param]


@pytest.fixture(scope="session")
def seed(drivers: Drivers) -> Driver:
    """The client that prepares what another one is tested on."""
    return drivers["confluent"]


class Hosts:
    """A process of every client that was asked for, started when first asked for."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._started: dict[str, Host] = {}

    def __getitem__(self, name: str) -> Host:
        if name not in self._started:
            self._started[name] = self.another(name)
        return self._started[name]

    def another(self, name: str) -> Host:
        """One that the test may kill, and ends in any case."""
        if (reason := HOSTS[name].missing()) is not None:
            absent(reason)
        return HOSTS[name](self._bootstrap)

    def close(self) -> None:
        for host in self._started.values():
            host.close()


@pytest.fixture(scope="session")
def hosts(bootstrap: str) -> Iterator[Hosts]:
    started = Hosts(bootstrap)
    yield started
    started.close()


@pytest.fixture
def host(request: pytest.FixtureRequest, hosts: Hosts) -> Host:
    return hosts[request.param]


@pytest.fixture
def group() -> str:
    """A group that nobody was in."""
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def name() -> str:
    """A topic name that nobody has used."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def new_topic(seed: Driver, bootstrap: str) -> NewTopic:
    """Make a topic, settings spelled with underscores, and wait until its leaders are known.

    It has as many replicas as its brokers give it by themselves; ``together``, one broker leads all its partitions.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def make(*, partitions: int = 1, replicas: int = -1, together: bool = False, **configs: str) -> str:
        topic = f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        if together:
            assigned = [sorted(seed.describe_cluster().brokers)] * partitions
            created = admin.create_topics(
                [TopicToMake(topic, num_partitions=partitions, replica_assignment=assigned, config=settings)]
            )
            created[topic].result(TOPIC_TIMEOUT_S)
        else:
            seed.create_topic(topic, partitions=partitions, replicas=replicas, configs=settings)
        wait_for_leaders(seed, topic, partitions)
        return topic

    return make


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """A topic of one partition with default settings."""
    return new_topic()


@pytest.fixture
def connections(bootstrap: str) -> Iterator[Connections]:
    with closing(Connections(bootstrap)) as opened:
        yield opened


@pytest.fixture
def wire(connections: Connections) -> Wire:
    """A connection to a broker, whichever."""
    return connections.to_any()


@pytest.fixture
def leader(connections: Connections, topic: str) -> Wire:
    """A connection to the broker that leads the test's topic."""
    return connections.to_leader(topic)


def wait_for_leaders(driver: Driver, topic: str, partitions: int) -> None:
    """Kafka answers CreateTopics before every broker has heard of the topic, and names leaders before they know it."""
    deadline = time.monotonic() + TOPIC_TIMEOUT_S
    while True:
        try:
            found = [row.leader for row in driver.describe_topic(topic)]
            if len(found) == partitions and min(found) >= 0:
                for partition in range(partitions):
                    driver.list_offset(topic, LATEST, partition=partition)
                return
        except Refused as refused:
            found = [-refused.code]
        assert time.monotonic() < deadline, f"{topic} has no leaders: {found}"
        time.sleep(0.02)
