"""Partitions moved, and the cluster's health looked at, on a real cluster."""

import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.system.cluster_process import CALM, ClusterProcess
from tests.system.command import Millstream
from tests.system.load import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path_factory.mktemp("cluster"), settings=CALM) as running:
        yield running


@pytest.fixture
def millstream(cluster: ClusterProcess) -> Millstream:
    return Millstream(cluster.bootstrap)


def unused_topic(millstream: Millstream, *options: str | int) -> str:
    name = f"unused-{os.urandom(4).hex()}"
    millstream("topic", "create", name, *options)
    return name


def replicas_of(millstream: Millstream, topic: str) -> list[list[int]]:
    [described] = millstream("topic", "describe", topic, "-o", "json").document
    return [row["replicas"] for row in described["partitions"]]


def throttles_of(millstream: Millstream, topic: str) -> dict[int, str]:
    """The rate of each broker that has one; none while the topic throttles nothing."""
    own = {row["name"]: row for row in millstream("config", "describe", "topic", topic, "-o", "json").document}
    if own["leader.replication.throttled.replicas"]["source"] != "topic":
        return {}
    found: dict[int, str] = {}
    for broker in (1, 2, 3):
        rows = millstream("config", "describe", "broker", broker, "-o", "json").document
        found[broker] = {row["name"]: row["value"] for row in rows}["leader.replication.throttled.rate"]
    return found


def leader_of(millstream: Millstream, topic: str) -> int:
    [described] = millstream("topic", "describe", topic, "-o", "json").document
    return int(described["partitions"][0]["leader"] or -1)


def until_all_know(cluster: ClusterProcess, what: str, is_so: Callable[[Millstream], bool]) -> None:
    """Return once each broker shows it: whoever is asked next may have yet to hear of what was done."""
    for broker in cluster.brokers.values():
        if broker.is_running:
            until(f"{broker.address}: {what}", partial(is_so, Millstream(broker.address)))


def test_a_plan_is_made_carried_out_and_verified_and_leads_back(
    cluster: ClusterProcess, millstream: Millstream, tmp_path: Path
) -> None:
    topic = unused_topic(millstream, "-p", 4, "-r", 3)
    millstream("produce", topic, stdin="".join(f"record {number}\n" for number in range(100)))
    before = replicas_of(millstream, topic)
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    plan.write_text(millstream("reassign", "plan", topic, "--brokers", "1,2", "-r", 2, "-o", "json").output)
    pending = millstream("reassign", "verify", str(plan), "-o", "json", code=1).document
    assert {row["state"] for row in pending} == {"elsewhere"}
    begun = millstream("reassign", "execute", str(plan), "--save", str(back), "--wait", "--throttle", "10M")
    assert begun.lines == [f"moving {topic}-{number}" for number in range(4)]
    wanted = sorted(row["replicas"] for row in json.loads(plan.read_text())["partitions"])
    until_all_know(cluster, "all is moved", lambda asked: sorted(replicas_of(asked, topic)) == wanted)
    assert {row["state"] for row in millstream("reassign", "verify", str(plan), "-o", "json").document} == {"done"}
    assert millstream("reassign", "verify", str(plan)).lines[-1] == "4 done"
    assert all(sorted(replicas) == [1, 2] for replicas in replicas_of(millstream, topic))
    assert "every broker has its share" in millstream("reassign", "plan", topic, "--brokers", "1,2").output
    millstream("reassign", "execute", str(back), "--wait", "--throttle", "10M")
    until_all_know(cluster, "all is back", lambda asked: replicas_of(asked, topic) == before)
    rates = {1: "10000000", 2: "10000000", 3: "10000000"}
    until_all_know(cluster, "moves are throttled", lambda asked: throttles_of(asked, topic) == rates)
    millstream("reassign", "verify", str(back))
    until_all_know(cluster, "no move is throttled", lambda asked: throttles_of(asked, topic) == {})
    assert len(millstream("consume", topic, "-o", "start", "-n", 100).lines) == 100


def test_a_move_that_is_stopped_leaves_no_throttle_behind(millstream: Millstream, tmp_path: Path) -> None:
    topic = unused_topic(millstream, "-p", 1, "-r", 2)
    millstream("produce", topic, stdin="".join(f"{'x' * 100_000}\n" for _ in range(30)))
    [before] = replicas_of(millstream, topic)
    [new] = {1, 2, 3}.difference(before)
    plan = tmp_path / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": [new, before[0]]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    millstream("reassign", "execute", str(plan), "--throttle", "1k")
    assert millstream("reassign", "verify", str(plan), code=1).lines[-1] == "1 moving"
    document = millstream("reassign", "plan", topic, "--brokers", f"{new},{before[1]}", "-o", "json").document
    [planned] = document["partitions"]
    assert sorted(planned["replicas"]) == sorted([new, before[1]]), "as many as it will have, not as it has meanwhile"
    rates = {1: "1000", 2: "1000", 3: "1000"}
    assert throttles_of(millstream, topic) == rates
    assert millstream("reassign", "cancel", str(plan), "--preserve-throttles").lines == [f"stopped {topic}-0"]
    assert throttles_of(millstream, topic) == rates
    told = millstream("reassign", "cancel", str(plan)).errors
    assert told == f"millstream: took the throttle off topic {topic}, broker 1, broker 2, broker 3\n"
    assert throttles_of(millstream, topic) == {}
    assert replicas_of(millstream, topic) == [before]


def test_what_is_not_moving_cannot_be_stopped_and_that_is_fine(millstream: Millstream, tmp_path: Path) -> None:
    topic = unused_topic(millstream, "-p", 1, "-r", 1)
    plan = tmp_path / "plan.json"
    row = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    assert millstream("reassign", "cancel", str(plan)).lines == [f"unchanged {topic}-0 (NO_REASSIGNMENT_IN_PROGRESS)"]
    assert millstream("reassign", "cancel", "--all").lines == ["nothing is moving"]
    assert millstream("reassign", "cancel", code=2).errors
    assert millstream("reassign", "cancel", "--all", "-o", "json").document == []
    assert millstream("reassign", "list", "-o", "json").document == []
    assert millstream("reassign", "list").lines == ["nothing is moving"]
    row["replicas"] = [1, 9]
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    refused = millstream("reassign", "execute", str(plan), code=1).errors
    assert "there is no broker 9 now, only 1, 2, 3 (INVALID_REPLICA_ASSIGNMENT)" in refused
    row["topic"] = "nope"
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    for command in ("execute", "cancel"):
        refused = millstream("reassign", command, str(plan), code=1).errors
        assert refused.startswith("millstream: nope-0: there is no such partition (UNKNOWN_TOPIC_OR_PARTITION)")
    assert millstream("reassign", "plan", topic, "-r", 4, code=2).errors.startswith("millstream: -r 4 asks for 4")
    assert "there is no broker 9" in millstream("reassign", "plan", topic, "--brokers", "9", code=2).errors


def brokers_down(millstream: Millstream) -> dict[int, str | None]:
    """Those that `cluster info` shows as down, and their addresses."""
    brokers = millstream("cluster", "info", "-o", "json").document["brokers"]
    return {broker["id"]: broker["address"] for broker in brokers if broker["state"] == "down"}


def test_a_cluster_that_lost_a_broker_says_so_and_who_may_lead(
    cluster: ClusterProcess, millstream: Millstream, tmp_path: Path
) -> None:
    topic = unused_topic(millstream, "-p", 1, "-r", 3, "-c", "min.insync.replicas=3")
    assert millstream("cluster", "health", "-o", "json").document["healthy"] is True
    victim = leader_of(millstream, topic)
    cluster.brokers[victim].kill()
    until_all_know(cluster, "it is down", lambda asked: victim in brokers_down(asked))
    until_all_know(cluster, "another leads", lambda asked: leader_of(asked, topic) not in (victim, -1))
    assert brokers_down(millstream) == {victim: None}, "it has replicas, and no address"
    assert re.search(rf"^ *{victim} +down ", millstream("cluster", "info").output, re.MULTILINE)
    health = millstream("cluster", "health", "-o", "json", code=1).document
    assert health["brokers_down"] == [victim]
    assert f"{topic}-0" in health["under_replicated"] and f"{topic}-0" in health["under_min_in_sync"]
    assert f"{topic}-0" not in health["leaderless"]
    [described] = millstream("topic", "describe", topic, "-o", "json").document
    (row,) = described["partitions"]
    assert row["eligible"] == [victim] and row["offline"] == [victim]
    assert sorted(lag is None for lag in row["lag"]) == [False, True], "the dead one's is not known"
    assert "ELIGIBLE" in millstream("topic", "describe", topic).output


def test_leaders_are_elected_once_their_first_replica_is_back(cluster: ClusterProcess, millstream: Millstream) -> None:
    for broker in cluster.brokers.values():  # One was killed before.
        if not broker.is_running:
            broker.start()
    topic = unused_topic(millstream, "-p", 1, "-r", 3)
    first = leader_of(millstream, topic)
    assert millstream("cluster", "elect", topic).lines == [f"unchanged {topic}-0 (ELECTION_NOT_NEEDED)"]
    assert millstream("cluster", "elect", "--unclean", code=2).errors
    cluster.brokers[first].stop()
    until_all_know(cluster, "another leads", lambda asked: leader_of(asked, topic) not in (first, -1))
    refused = millstream("cluster", "elect", topic, code=1).errors
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in refused
    cluster.brokers[first].start()
    millstream("cluster", "health", "--exit-when-healthy", "--interval", "0.1s")
    assert millstream("cluster", "elect", f"{topic}:0").lines == [f"{topic}-0: elected broker {first}"]
    until_all_know(cluster, "the first leads", lambda asked: leader_of(asked, topic) == first)
    millstream("cluster", "elect")
    assert millstream("cluster", "elect").lines == ["all are led as they should be"]
    assert millstream("cluster", "elect", "-o", "json").document == []


def test_an_unclean_election_says_who_leads_now(cluster: ClusterProcess, millstream: Millstream) -> None:
    millstream("cluster", "health", "--exit-when-healthy", "--interval", "0.1s")
    topic = unused_topic(millstream, "-p", 1, "-r", 2, "-c", "min.insync.replicas=1")
    first, second = replicas_of(millstream, topic)[0]
    cluster.brokers[second].stop()
    millstream("produce", topic, stdin="only the first has it\n")
    cluster.brokers[first].kill()
    cluster.brokers[second].start()
    until_all_know(cluster, "nobody leads", lambda asked: leader_of(asked, topic) == -1)
    assert millstream("cluster", "elect", "--unclean", topic).lines == [f"{topic}-0: elected broker {second}"]
    cluster.brokers[first].start()
