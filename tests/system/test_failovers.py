"""Leaders of a cluster are killed with -9 again and again, under writes with acks=all and an exactly-once copier.

What must hold: everything acknowledged is there, once and in order; the copy holds each record once; and the replicas
are the same, byte for byte.
"""

import random
from pathlib import Path

import pytest

import millstream
from tests.system.cluster_process import ClusterProcess
from tests.system.copier import SINK, SOURCE
from tests.system.load import check_replicas_agree, until_in_sync
from tests.system.test_exactly_once import PARTITIONS, Yard, difference

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
                until_in_sync(cluster, SOURCE, SINK)
            yard.finish()
            for topic in (SOURCE, SINK):
                fault = difference(yard.feed.sent, yard.copies(topic=topic))
                assert not fault, f"seed {seed}: {topic} is not what was sent: {fault}"
            until_in_sync(cluster, SOURCE, SINK)
        finally:
            yard.discard()
        check_replicas_agree(cluster, PARTITIONS, SOURCE, SINK)
    return leaders


def test_writes_go_on_and_nothing_is_lost_when_leaders_die(tmp_path: Path) -> None:
    fail_over(tmp_path, 3, 1)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_nothing_is_lost_in_a_hundred_failovers(tmp_path: Path) -> None:
    assert fail_over(tmp_path, 100, 2).controllers > 10
