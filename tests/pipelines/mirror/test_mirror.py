"""`millstream mirror` between two clusters, both ways, under load, with kills; and what it says when it cannot."""

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millstream.client.cluster import Cluster
from millstream.client.wire import parse_addresses
from tests.pipelines.mirror.mirroring import Load, Mirroring, is_equal
from tests.pipelines.mirror.reading import consume, contents
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


def topics_of(address: str) -> set[str]:
    async def ask() -> set[str]:
        async with Cluster(parse_addresses(address)) as cluster:
            await cluster.refresh(None)
            return set(cluster.topics)

    return asyncio.run(ask())


def restart(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_clusters_mirror_each_other_whoever_is_killed_and_a_group_moves_over(
    tmp_path: Path, one: BrokerProcess, other: BrokerProcess
) -> None:
    for broker in (one, other):
        Topics(broker.address).new(2, name="orders")
    loads = [Load(broker.address, "orders", 2) for broker in (one, other)]
    with Mirroring(tmp_path, one, other) as mirroring:
        mirroring.wait_until_up()
        mirroring.wait_for_batches("A->B", 2)
        read = consume(one.address, "followers", ["orders"], 500)
        restart(other)
        mirroring.wait_for_batches("A->B", 2)
        mirroring.kill_flow("A->B")
        restart(one)
        mirroring.wait_for_batches("A->B", 2)
        mirroring.wait_for_batches("B->A", 2)
        there, back = (load.end() for load in loads)
        mirroring.wait_for(lambda: is_equal(one, other, "orders", "A.orders", there), "all of A at B")
        mirroring.wait_for(lambda: is_equal(other, one, "orders", "B.orders", back), "all of B at A")
        assert {"A.B.orders", "B.A.orders"}.isdisjoint(topics_of(one.address) | topics_of(other.address))
        mirroring.wait_for(lambda: "followers" in Topics(other.address).groups(), "the group at B")
        rest = consume(other.address, "followers", ["A.orders"], there - 500, more_s=2.0)
        everything = {record.value for records in contents(one.address, "orders").values() for record in records}
        assert set(read) | set(rest) == everything
        assert (
            len(read) + len(rest) - len(everything) <= 500
        )  # The documented repeats: a micro-batch, here a small one.
        assert mirroring.end() == 0
    assert "A->B: the pipeline's process was killed by SIGKILL; it is started again in " in mirroring.said
    assert "Traceback" not in mirroring.said


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_clusters_stay_equal_under_kills_at_random(tmp_path: Path, one: BrokerProcess, other: BrokerProcess) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for broker in (one, other):
        Topics(broker.address).new(4, name="orders")
    loads = [Load(broker.address, "orders", 4, per_s=1_000) for broker in (one, other)]
    with Mirroring(tmp_path, one, other, "mirror.batch.bytes=200000\n") as mirroring:
        mirroring.wait_until_up()
        harms = [
            lambda: restart(one),
            lambda: restart(other),
            lambda: mirroring.kill_flow("A->B"),
            lambda: mirroring.kill_flow("B->A"),
        ]
        for number in range(16):
            mirroring.wait_for_batches(("A->B", "B->A")[number % 2], chance.choice([1, 2, 5]))
            time.sleep(chance.random() * 0.5)
            harms[chance.randrange(4)]()
            mirroring.wait_until_up()
        there, back = (load.end() for load in loads)
        mirroring.wait_for(lambda: is_equal(one, other, "orders", "A.orders", there), f"all of A, seed {seed}")
        mirroring.wait_for(lambda: is_equal(other, one, "orders", "B.orders", back), f"all of B, seed {seed}")
        assert mirroring.end() == 0


def mirror(file: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "millstream", "mirror", str(file), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    return done.returncode, done.stderr


def test_a_file_that_will_not_do_ends_it_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "m.properties"
    file.write_text("clusters=A,B\nA->C.enabled=true\n")
    assert mirror(file) == (1, f"millstream: {file}:2: A->C.enabled: there is no cluster 'C', only A, B\n")
    assert mirror(tmp_path / "none") == (1, f"millstream: {tmp_path}/none: No such file or directory\n")


def test_a_cluster_that_is_away_is_told_and_tried_again(tmp_path: Path, one: BrokerProcess) -> None:
    file = tmp_path / "m.properties"
    file.write_text(
        f"clusters=A,B\nA.bootstrap.servers={one.address}\nB.bootstrap.servers=127.0.0.1:1\nA->B.enabled=true\n"
        "request.timeout.ms=500\n"
    )
    code, said = mirror(file, "--restarts", "1", "--checkpoint", str(tmp_path / "checkpoint"))
    assert code == 1
    away = "nothing listens at 127.0.0.1:1; is a broker running? start one with: millstream serve"
    assert f"mirror: A->B: {away}; it is started again in " in said
    assert said.splitlines()[-1] == f"millstream: {away}; it fell 2 times in a row, which is enough"
