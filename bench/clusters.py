"""The contenders of the cluster's table: three brokers each, on this machine, with three replicas of every topic."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.compatibility import apache_kafka

from bench import processes
from bench.servers import PROJECT, READY_TIMEOUT_S, STOP_TIMEOUT_S, Server
from bench.table import KAFKA, MILLSTREAM

BROKERS = 3
MIN_IN_SYNC = 2
KAFKA_HEAP = "768m"
_BROKER_LINE = re.compile(r"broker (\d+) pid (\d+) (\S+)")
_ADMIN_TIMEOUT_S = 60.0


class Node(NamedTuple):
    """One broker's process."""

    pid: int
    address: str


class Cluster(Server, Protocol):
    """Three brokers that are started and ended together; one of them may be struck alone."""

    nodes: dict[int, Node]

    def stop_one(self, number: int) -> None:
        """Stop a broker in good order; returns when it has ended, and is no node any more."""
        ...

    def start_one(self, number: int) -> None:
        """Start a broker that was stopped, over the same folder; returns when it serves and is a node again."""
        ...


class MillstreamCluster:
    """`millstream cluster up`."""

    name = MILLSTREAM

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        self.data, self.settings = data, settings
        self.nodes: dict[int, Node] = {}
        self._process: subprocess.Popen[str] | None = None
        #: How each broker was started, and those that were started again.
        self._commands: dict[int, list[str]] = {}
        self._again: list[subprocess.Popen[str]] = []

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pid(self) -> int:
        return next(iter(self.nodes.values())).pid

    def start(self) -> float:
        settings = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        command = ["cluster", "up", "--brokers", str(BROKERS), "--port", "0", "--data", str(self.data), *settings]
        started = time.perf_counter()
        self._process = self._run([sys.executable, "-m", "millstream", *command])
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := _BROKER_LINE.match(line):
                self.nodes[int(found[1])] = Node(int(found[2]), found[3])
            if line.startswith("ready "):
                took_s = time.perf_counter() - started
                self._commands = {number: processes.command(node.pid) for number, node in self.nodes.items()}
                return took_s
        raise RuntimeError(f"the cluster ended while starting; see {self.data}.out")

    def _run(self, command: list[str]) -> "subprocess.Popen[str]":
        with open(self.data.with_name(self.data.name + ".out"), "ab") as output:
            return subprocess.Popen(
                command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=output, text=True
            )

    def stop_one(self, number: int) -> None:
        node = self.nodes.pop(number)
        strike(node, signal.SIGTERM)
        processes.await_end(node.pid, STOP_TIMEOUT_S)

    def start_one(self, number: int) -> None:
        process = self._run(self._commands[number])
        self._again.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("ready "):
                self.nodes[number] = Node(process.pid, line.split()[1])
                return
        raise RuntimeError(f"broker {number} ended while starting; see {self.data}.out")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        if self._process is None:
            return
        for node in self.nodes.values():
            strike(node, signal.SIGKILL)
        for process in self._again:
            process.kill()
        self._process.terminate()  # It ends ZooKeeper, and itself.
        for process in (self._process, *self._again):
            process.communicate(timeout=STOP_TIMEOUT_S)
        self._process, self._again, self.nodes = None, [], {}

    def list_topics_command(self) -> list[str] | None:
        return None


class KafkaCluster:
    """Apache Kafka, three nodes that are broker and controller in one."""

    name = KAFKA

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        self.data = data
        self.nodes: dict[int, Node] = {}
        self._settings = settings
        self._brokers: dict[int, apache_kafka.ApacheKafka] = {}

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pid(self) -> int:
        return next(iter(self.nodes.values())).pid

    def start(self) -> float:
        self._format()
        started = time.perf_counter()
        for broker in self._brokers.values():
            broker.begin()
        while not all(apache_kafka.brokers_known("127.0.0.1", each.port) == BROKERS for each in self._brokers.values()):
            if time.perf_counter() - started > READY_TIMEOUT_S:
                raise TimeoutError(f"the nodes did not find each other; see {self.data}")
            time.sleep(0.02)
        self.nodes = {number: Node(each.pid, each.bootstrap) for number, each in self._brokers.items()}
        return time.perf_counter() - started

    def _format(self) -> None:
        """Give the nodes their folders, which is a step of its own in Kafka and not timed."""
        voters = {number: apache_kafka.free_port() for number in range(1, BROKERS + 1)}
        cluster_id = apache_kafka.new_cluster_id()
        for number, controller_port in voters.items():
            port = apache_kafka.free_port()
            settings = {
                "node.id": str(number),
                "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{at}" for each, at in voters.items()),
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
                "min.insync.replicas": str(MIN_IN_SYNC),
                **self._settings,
            }
            self._brokers[number] = apache_kafka.ApacheKafka(
                self.data / str(number), port=port, heap=KAFKA_HEAP, settings=settings, cluster_id=cluster_id
            )

    def stop_one(self, number: int) -> None:
        del self.nodes[number]
        self._brokers[number].stop()

    def start_one(self, number: int) -> None:
        broker = self._brokers[number]
        broker.start()
        self.nodes[number] = Node(broker.pid, broker.bootstrap)

    def stop(self) -> None:
        for broker in self._brokers.values():
            broker.stop()

    def kill(self) -> None:
        for broker in self._brokers.values():
            broker.kill()
        self._brokers, self.nodes = {}, {}

    def list_topics_command(self) -> list[str] | None:
        return None


MAKERS = {maker.name: maker for maker in (MillstreamCluster, KafkaCluster)}


def strike(node: Node, signal_number: int) -> None:
    """Send a broker a signal; one that is gone already stays so."""
    try:
        os.kill(node.pid, signal_number)
    except ProcessLookupError:
        return


class Led(NamedTuple):
    """A topic's leader, as a load is sent to it."""

    broker_id: int
    address: str


def create_topic(cluster: Cluster, topic: str, partitions: int = 1, homes: list[list[int]] | None = None) -> None:
    """A topic with a replica on every broker; returns when each partition has a leader and all are in sync.

    ``homes`` names each partition's brokers, its leader first; without, the server chooses.
    """
    admin = _admin(cluster)
    configs = {"min.insync.replicas": str(MIN_IN_SYNC)}
    if homes is None:
        wanted = NewTopic(topic, partitions, BROKERS, config=configs)
    else:
        wanted = NewTopic(topic, partitions, replica_assignment=homes, config=configs)
    made = admin.create_topics([wanted], request_timeout=_ADMIN_TIMEOUT_S)
    made[topic].result(_ADMIN_TIMEOUT_S)
    deadline = time.monotonic() + _ADMIN_TIMEOUT_S
    while any(len(isrs) < BROKERS for isrs in _in_sync(admin, topic, partitions)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the replicas of {topic} are not in sync after {_ADMIN_TIMEOUT_S} s")
        time.sleep(max(0.01, partitions / 2_000))  # To ask of many often would be a load of its own.


def _admin(cluster: Cluster) -> AdminClient:
    """A client that says nothing of the brokers that we struck."""
    return AdminClient({"bootstrap.servers": cluster.address, "log_level": 0})


def _in_sync(admin: AdminClient, topic: str, partitions: int) -> list[list[int]]:
    known = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions
    return [known[at].isrs if at in known else [] for at in range(partitions)]


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> Led:
    """Who leads the partition now; waits for brokers that do not know it yet."""
    admin = _admin(cluster)
    deadline_s = time.monotonic() + _ADMIN_TIMEOUT_S
    while time.monotonic() < deadline_s:
        known = admin.list_topics(topic, timeout=_ADMIN_TIMEOUT_S).topics[topic].partitions
        if partition in known and known[partition].leader in cluster.nodes:
            broker_id = known[partition].leader
            return Led(broker_id, cluster.nodes[broker_id].address)
        time.sleep(0.05)
    raise TimeoutError(f"{topic}-{partition} has no leader after {_ADMIN_TIMEOUT_S} s")


def controller_of(cluster: Cluster) -> int:
    """The broker that is controller now; waits for one to be named."""
    admin = _admin(cluster)
    deadline_s = time.monotonic() + _ADMIN_TIMEOUT_S
    while time.monotonic() < deadline_s:
        controller = admin.describe_cluster(request_timeout=_ADMIN_TIMEOUT_S).result(_ADMIN_TIMEOUT_S).controller
        if controller is not None and controller.id in cluster.nodes:
            return int(controller.id)
        time.sleep(0.05)
    raise TimeoutError(f"no controller is named after {_ADMIN_TIMEOUT_S} s")
