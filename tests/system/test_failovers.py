"""Leaders of a cluster are killed with -9 again and again, under writes with acks=all and an exactly-once copier.

What must hold: everything acknowledged is there, once and in order; the copy holds each record once; and the replicas
are the same, byte for byte.
"""

import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import millstream
from tests.system.cluster_process import ClusterProcess
from tests.system.copier import SINK, SOURCE
from tests.system.test_exactly_once import PARTITIONS, Yard

PATIENCE_S = 120.0
SETTINGS: dict[str, str | int] = {"group.min.session.timeout.ms": 500, "log.segment.bytes": 1 << 20}


class Leaders:
    """The cluster as the copiers' yard sees it: a kill strikes a broker that leads, and a start brings it back."""

    def __init__(self, cluster: ClusterProcess, seed: int) -> None:
        self.cluster = cluster
        self.controllers = 0  #: of those killed
        self._random = random.Random(seed)
        self._dead = 0

    @property
    def address(self) -> str:
        return self.cluster.bootstrap

    def kill(self) -> None:
        with millstream.Admin(self.address) as admin:
            topic = admin.describe_topic(self._random.choice((SOURCE, SINK)))
            leader = topic.partitions[self._random.randrange(PARTITIONS)].leader
            assert leader is not None
            self.controllers += leader == admin.cluster().controller
        self._dead = leader
        self.cluster.brokers[leader].kill()

    def start(self) -> None:
        self.cluster.brokers[self._dead].start()
        self._dead = 0

    def until_all_in_sync(self) -> None:
        """Return once every replica of both topics is in sync."""
        _until(lambda: all(self._is_whole(topic) for topic in (SOURCE, SINK)), "the replicas are not in sync")

    def _is_whole(self, topic: str) -> bool:
        with millstream.Admin(self.address) as admin:
            return all(len(each.in_sync) == 3 for each in admin.describe_topic(topic).partitions)


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"{otherwise} after {PATIENCE_S:.0f} s"
        time.sleep(0.05)


def _log_of(broker: Path, topic: str, partition: int) -> tuple[int, str]:
    """A replica's records: how many bytes, and what they hash to."""
    digest, size = hashlib.sha256(), 0
    for segment in sorted((broker / f"{topic}-{partition}").glob("*.log")):
        data = segment.read_bytes()
        digest.update(data)
        size += len(data)
    return size, digest.hexdigest()


def fail_over(folder: Path, kills: int, seed: int) -> Leaders:
    """Copy through so many deaths of leaders; each broker is brought back once the others have gone on without it."""
    with ClusterProcess(folder, settings=SETTINGS) as cluster:
        leaders = Leaders(cluster, seed)
        yard = Yard(folder, "exactly_once", ("first", None), seed, broker=leaders)
        try:
            yard.start()
            for _ in range(kills):
                leaders.kill()
                yard.until_more_is_copied()
                leaders.start()
                leaders.until_all_in_sync()
            yard.finish()
            assert yard.copies() == yard.feed.sent, f"seed {seed}: the copy is not what was sent"
            leaders.until_all_in_sync()
        finally:
            yard.discard()
        for broker in cluster.brokers.values():
            broker.stop()
        for topic in (SOURCE, SINK):
            for partition in range(PARTITIONS):
                logs = {_log_of(broker.data, topic, partition) for broker in cluster.brokers.values()}
                assert len(logs) == 1, f"seed {seed}: the replicas of {topic}-{partition} differ: {logs}"
    return leaders


def test_writes_go_on_and_nothing_is_lost_when_leaders_die(tmp_path: Path) -> None:
    fail_over(tmp_path, 3, 1)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_nothing_is_lost_in_a_hundred_failovers(tmp_path: Path) -> None:
    assert fail_over(tmp_path, 100, 2).controllers > 10
