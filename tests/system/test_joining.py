"""``millstream serve --registry zk://…``: brokers that join a ZooKeeper's cluster, and those that must not."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from millstream.cli.cluster.zookeeper import free_ports
from tests.system.broker_process import BrokerFailed, BrokerProcess
from tests.system.command import Millstream

SESSION_TIMEOUT_MS = 3_000


@pytest.fixture
def root(zookeeper: str) -> str:
    """Where a cluster of the test's own is kept."""
    return f"{zookeeper}/{os.urandom(6).hex()}"


@pytest.fixture
def tree(root: str) -> Iterator[KazooClient]:
    """The tree as ZooKeeper's own tools see it."""
    client = KazooClient(root)
    assert client.start_async().wait(20)
    yield client
    client.stop()
    client.close()


def broker(data: Path, root: str, broker_id: int, *arguments: str, credentials: str = "") -> BrokerProcess:
    settings = {"broker.id": broker_id, "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS}
    registry = f"zk://{credentials}{root}"
    return BrokerProcess(data, settings=settings, arguments=["--registry", registry, *arguments])


def refusal(candidate: BrokerProcess) -> str:
    """The one line of a broker that does not start."""
    with pytest.raises(BrokerFailed):
        candidate.start()
    (line,) = [line for line in candidate.output.splitlines() if line.startswith("millstream: ")]
    assert "Traceback" not in candidate.output
    return line


def test_brokers_of_one_registry_are_one_cluster_laid_out_as_kafkas(
    tmp_path: Path, root: str, tree: KazooClient
) -> None:
    with broker(tmp_path / "1", root, 1) as first, broker(tmp_path / "2", root, 2) as second:
        Millstream(second.address)("topic", "create", "orders", "-r", 2)
        Millstream(first.address)("produce", "orders", stdin="a\nb\n")
        assert Millstream(second.address)("consume", "orders", "-e").lines == ["a", "b"]
        registered = json.loads(tree.get("/brokers/ids/1")[0])
        host, port = first.address.split(":")
        assert (registered["host"], registered["port"], registered["version"]) == (host, int(port), 5)
        assert registered["endpoints"] == [f"PLAINTEXT://{first.address}"]
        assert {"jmx_port", "timestamp"} < registered.keys()
        state = json.loads(tree.get("/brokers/topics/orders/partitions/0/state")[0])
        assert {"controller_epoch", "leader", "version", "leader_epoch", "isr"} <= state.keys()
        assert sorted(state["isr"]) == [1, 2]
    assert tree.get_children("/brokers/ids") == []


def test_a_broker_id_that_is_taken_is_refused(tmp_path: Path, root: str) -> None:
    with broker(tmp_path / "1", root, 1):
        line = refusal(broker(tmp_path / "other", root, 1))
        assert re.search(r"broker id 1 is taken by a running broker; stop it, or give this one another id", line)
        with broker(tmp_path / "other", root, 2) as other:  # The directory is nobody's still.
            assert other.address
    with broker(tmp_path / "other", root, 2):
        pass


def test_a_folder_of_brokers_directories_is_refused_and_left_alone(tmp_path: Path, root: str) -> None:
    with broker(tmp_path / "broker-1", root, 1), broker(tmp_path / "broker-2", root, 2):
        pass
    for candidate in (BrokerProcess(tmp_path), broker(tmp_path, root, 3)):
        line = refusal(candidate)
        assert f"{tmp_path} holds the directories of brokers (broker-1, broker-2): name one of them" in line
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_dir()) == ["broker-1", "broker-2"]
    assert not list(tmp_path.glob("broker-1/*.log"))


def test_a_broker_without_an_id_is_refused(tmp_path: Path, root: str) -> None:
    line = refusal(BrokerProcess(tmp_path, arguments=["--registry", f"zk://{root}"]))
    assert line.endswith("a broker of a cluster needs an id that no other has: give it one with --set broker.id=N")


def test_a_brokers_own_stale_node_is_waited_out(tmp_path: Path, root: str) -> None:
    mine = broker(tmp_path, root, 1).start()
    mine.kill()
    began_s = time.monotonic()
    with mine:
        assert time.monotonic() - began_s > 0.5, "ZooKeeper cannot know of the crash yet"
        Millstream(mine.address)("topic", "create", "orders")


def test_another_clusters_registry_is_refused_and_left_alone(tmp_path: Path, root: str, tree: KazooClient) -> None:
    with broker(tmp_path / "1", root, 1):
        pass
    cluster_id = json.loads(tree.get("/cluster/id")[0])["id"]
    new = f"{root}/new"
    line = refusal(broker(tmp_path / "1", new, 1))
    assert f"belongs to cluster {cluster_id}, and the registry is new: name the cluster's own registry" in line
    assert tree.get_children("/new") == []
    with broker(tmp_path / "2", new, 2):
        line = refusal(broker(tmp_path / "1", new, 1))
    assert re.search(rf"belongs to cluster {cluster_id}, and the registry is that of cluster \S+: name", line)


def test_a_brokers_directory_is_refused_where_its_registry_was_forgotten(tmp_path: Path, root: str) -> None:
    with broker(tmp_path, root, 1):
        pass
    line = refusal(BrokerProcess(tmp_path, settings={"broker.id": 1}))
    assert f"{tmp_path} belongs to a cluster on ZooKeeper: name its registry with --registry zk://" in line
    assert not list(tmp_path.glob("millstream-registry.db*"))
    with broker(tmp_path, root, 1):
        pass


def test_another_brokers_directory_is_refused(tmp_path: Path, root: str) -> None:
    with broker(tmp_path, root, 1):
        pass
    line = refusal(broker(tmp_path, root, 2))
    assert (
        f"{tmp_path} belongs to broker 1, not to broker 2: give this one its id, broker.id=1, or name another" in line
    )


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("/cluster/id", {"version": "2", "id": "xNr5XeCZQCe1yFzsfgGlWg"}),
        ("/brokers/ids/7", {"version": 6, "endpoints": ["PLAINTEXT://h:1"]}),
    ],
)
def test_a_registry_of_later_brokers_is_refused(
    tmp_path: Path, root: str, tree: KazooClient, path: str, node: dict[str, object]
) -> None:
    tree.ensure_path("/")
    tree.create(path, json.dumps(node).encode(), makepath=True)
    line = refusal(broker(tmp_path, root, 1))
    assert re.search(
        rf"{path}: the node is of version \d, and only those up to \d are known; upgrade this broker", line
    )


def test_no_zookeeper_there_is_said_with_where_and_what_to_do(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    candidate = broker(tmp_path, f"127.0.0.1:{port}/root", 1, "--set", "zookeeper.connection.timeout.ms=300")
    assert f"127.0.0.1:{port}/root: no ZooKeeper answered within 0.3 s; start it, or name another" in refusal(candidate)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--registry", "zookeeper:2181"], "--registry: 'zookeeper:2181' is not zk://host:port,host:port/chroot"),
        (["--registry", "zk://a:99999"], "--registry: 'a:99999' is not host:port"),
        (["--registry", "embedded", "--set", "zookeeper.connect=a:1"], "leave one of them out"),
        (
            ["--registry", "zk://a:1", "--set", "broker.id=1", "--set", "zookeeper.set.acl=true"],
            "say who it is with zookeeper.digest",
        ),
    ],
)
def test_a_registry_that_cannot_be_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    assert said in refusal(BrokerProcess(tmp_path, arguments=arguments))


def test_a_cluster_with_credentials_keeps_its_nodes_to_itself(tmp_path: Path, root: str, tree: KazooClient) -> None:
    with broker(tmp_path / "1", root, 1, credentials="kafka:s%40cret@") as first:
        Millstream(first.address)("topic", "create", "orders")
        (mine, world), _ = tree.get_acls("/brokers/topics/orders")
        assert mine.id.id.startswith("kafka:") and mine.perms == 31
        assert (world.id.id, world.perms) == ("anyone", 1)
        line = refusal(broker(tmp_path / "2", root, 2))
        assert "its access list keeps us out; give the credentials of its maker as zookeeper.digest" in line
        described = Millstream(first.address)("config", "describe", "broker", 1).lines
        assert not any("s@cret" in line for line in described)


def test_a_broker_that_was_stopped_past_its_session_registers_anew(
    tmp_path: Path, root: str, tree: KazooClient
) -> None:
    with broker(tmp_path, root, 1) as only:
        epoch = tree.exists("/brokers/ids/1").czxid
        os.kill(only.pid, signal.SIGSTOP)
        try:
            _until_gone(tree, "/brokers/ids/1")
        finally:
            os.kill(only.pid, signal.SIGCONT)
        Millstream(only.address)("topic", "create", "orders")
        assert tree.exists("/brokers/ids/1").czxid > epoch


def _until_gone(tree: KazooClient, path: str) -> None:
    gone = tree.handler.event_object()
    if tree.exists(path, watch=lambda event: gone.set()) is not None:
        assert gone.wait(30)
