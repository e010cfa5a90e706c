"""A cluster of processes under writes: brokers killed, stopped, paused, cut off, wiped, and out of space."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from bench import wire

import millstream
from tests.system.broker_process import BrokerProcess
from tests.system.checker.cut_cluster import CutCluster
from tests.system.cluster_process import SESSION_TIMEOUT_MS, ClusterProcess
from tests.system.load import (
    PARTITIONS,
    TIMEOUT_S,
    TOPIC,
    Load,
    check_all_there,
    check_replicas_agree,
    until,
    until_in_sync,
)

#: How long writes may stop: seconds at most, were it not for a machine that is busy with other tests.
RESUMED_S_MAX = 30.0
PAST_SESSION_S = 1.5 * SESSION_TIMEOUT_MS / 1000


@contextmanager
def written(cluster: ClusterProcess, **config: str) -> Iterator[Load]:
    """A topic that is written to all the while; in the end everything acknowledged is there, and once."""
    with millstream.Admin(cluster.bootstrap) as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS, replicas=3, config=config)
    with Load(cluster.bootstrap).running() as load:
        load.until_all_go_on()
        yield load
        load.until_all_go_on()
    check_all_there(load, cluster.bootstrap)
    assert not any("Traceback" in broker.output for broker in cluster.brokers.values())


def controller_of(cluster: ClusterProcess) -> int:
    """The controller, once the broker that is asked is sure of it."""
    named: list[int | None] = []

    def is_named() -> bool:
        with millstream.Admin(cluster.bootstrap) as admin:
            named.append(admin.cluster().controller)
        return named[-1] is not None

    until("no controller is named", is_named)
    assert named[-1] is not None
    return named[-1]


def leaders_of(cluster: ClusterProcess) -> dict[int, int | None]:
    with millstream.Admin(cluster.bootstrap) as admin:
        return {each.index: each.leader for each in admin.describe_topic(TOPIC).partitions}


def led_by(cluster: ClusterProcess, broker: int) -> int:
    """A partition that the broker leads."""
    return next(partition for partition, leader in leaders_of(cluster).items() if leader == broker)


class LateWriter:
    """Writes straight to one broker, and hears what becomes of it later."""

    def __init__(self, broker: BrokerProcess, partition: int, acks: int) -> None:
        self._connection = wire.Connection(broker.address, TIMEOUT_S)
        self._frame = wire.produce_frame(TOPIC, wire.encode_batch([b"late"]), acks, partition)

    def send(self) -> None:
        self._connection.send(self._frame)

    def is_acknowledged(self) -> bool:
        try:
            wire.produced_offset(self._connection.receive(), TOPIC, -4)
        except (wire.Refused, ConnectionError):
            return False
        return True

    def close(self) -> None:
        self._connection.close()


@contextmanager
def late_writers(broker: BrokerProcess, partition: int) -> Iterator[list[LateWriter]]:
    """One for each number of acknowledgements, both of whom the broker knows by now."""
    with ExitStack() as opened:
        writers = [opened.enter_context(closing(LateWriter(broker, partition, acks))) for acks in (1, -1)]
        for writer in writers:
            writer.send()
        assert all(writer.is_acknowledged() for writer in writers)
        yield writers


def test_one_of_three_goes_on_alone_where_one_is_enough_and_nothing_is_lost(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster:
        with written(cluster, **{"min.insync.replicas": "1"}) as load:
            for broker in (1, 2):
                cluster.brokers[broker].kill()
            load.until_all_go_on()
            assert set(leaders_of(cluster).values()) == {3}
            check_all_there(load, cluster.brokers[3].address)
            for broker in (1, 2):
                cluster.brokers[broker].start()
            until_in_sync(cluster)
        check_replicas_agree(cluster, PARTITIONS)


def test_a_broker_whose_disk_was_wiped_copies_everything(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster:
        with written(cluster) as load:
            wiped = cluster.brokers[1]
            wiped.kill()
            load.until_all_go_on()
            shutil.rmtree(wiped.data)
            wiped.start()
            until_in_sync(cluster)
        check_replicas_agree(cluster, PARTITIONS)


def test_a_leader_that_is_the_controller_is_killed_and_others_take_both_over(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster, written(cluster) as load:
        killed = controller_of(cluster)
        assert killed in leaders_of(cluster).values()
        load.longest_s = 0.0
        cluster.brokers[killed].kill()
        load.until_all_go_on()
        assert load.longest_s < RESUMED_S_MAX
        until("another is controller", lambda: controller_of(cluster) != killed)
        assert killed not in leaders_of(cluster).values()
        cluster.brokers[killed].start()
        until_in_sync(cluster)


def test_a_retrying_client_has_no_failed_write_when_brokers_are_stopped_one_by_one(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster, written(cluster) as load:
        for broker in cluster.brokers.values():
            load.longest_s = 0.0
            assert broker.stop() == 0
            load.until_all_go_on()
            assert load.longest_s < RESUMED_S_MAX
            broker.start()
            until_in_sync(cluster)
        assert load.refused == []


def test_a_leader_paused_past_its_session_acknowledges_nothing_when_it_wakes(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster:
        with written(cluster) as load:
            paused = next(number for number in cluster.brokers if number != controller_of(cluster))
            partition = led_by(cluster, paused)
            with late_writers(cluster.brokers[paused], partition) as late:
                load.longest_s = 0.0
                cluster.signal(paused, signal.SIGSTOP)
                load.until_all_go_on()
                assert load.longest_s < RESUMED_S_MAX
                assert leaders_of(cluster)[partition] != paused
                for writer in late:
                    writer.send()
                cluster.signal(paused, signal.SIGCONT)
                assert [writer.is_acknowledged() for writer in late] == [False, False]
            until_in_sync(cluster)
        check_replicas_agree(cluster, PARTITIONS)


def test_a_leader_cut_off_from_all_but_its_clients_acknowledges_nothing(tmp_path: Path) -> None:
    with CutCluster(tmp_path, settings={"replica.lag.time.max.ms": 2_000}) as cluster:
        with written(cluster) as load:
            alone = next(number for number in cluster.brokers if number != controller_of(cluster))
            with late_writers(cluster.brokers[alone], led_by(cluster, alone)) as late:
                cluster.keep_others_from(alone)
                cluster.keep_from_others(alone)
                cluster.keep_from_zookeeper(alone)
                time.sleep(PAST_SESSION_S)
                for writer in late:
                    writer.send()
                time.sleep(1.0)
                cluster.mend()
                assert [writer.is_acknowledged() for writer in late] == [False, False]
            load.until_all_go_on()
            until_in_sync(cluster)
        check_replicas_agree(cluster, PARTITIONS)
