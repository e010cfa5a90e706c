"""Replication in a whole cluster: what is acknowledged is everywhere, and stays."""

import asyncio

import pytest

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from millstream.protocol.messages.produce import ProduceResponse
from tests.simulation.asking import PRODUCE_VERSION, produce_request, read_all, simulate
from tests.simulation.brokers import SimulatedCluster, host_of
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import (
    TOPIC,
    all_hold,
    bytes_of,
    controller_second,
    create,
    create_on,
    in_sync,
    leader_id,
    leader_of,
    other_than,
    replicas_of,
    until_in_sync,
    write,
)


async def started(network: SimNetwork, *, settings: dict[str, str] | None = None, **configs: str) -> SimulatedCluster:
    """Three brokers, and a topic of one partition that all of them hold."""
    cluster = SimulatedCluster(network, settings=settings)
    await cluster.start()
    configs.setdefault("min_insync_replicas", "2")
    await create(cluster, 1, 3, **configs)
    await until_in_sync(cluster, 1, 2, 3)
    return cluster


async def agree(cluster: SimulatedCluster, *values: bytes) -> None:
    """Every replica comes to hold just these records, byte for byte the same."""
    await cluster.until(lambda: len(in_sync(cluster)) == len(cluster.running), timeout_s=120)
    leader = leader_of(cluster)
    assert leader is not None and leader.log is not None
    await cluster.until(all_hold(cluster, leader.log.end_offset))
    logs = {bytes_of(partition) for partition in replicas_of(cluster).values()}
    assert len(logs) == 1
    assert await read_all(await cluster.connect(leader_id(cluster)), TOPIC) == list(values)


def test_what_is_written_with_acks_all_is_on_every_replica() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        for at in range(20):
            assert await write(cluster, b"%d" % at) == at
            for partition in replicas_of(cluster).values():
                assert partition.log is not None
                assert partition.log.end_offset == at + 1
        await agree(cluster, *(b"%d" % at for at in range(20)))
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("power", [False, True])
def test_a_killed_leader_takes_nothing_with_it_that_was_acknowledged(power: bool) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        for at in range(10):
            await write(cluster, b"%d" % at)
        victim = leader_id(cluster)
        await cluster.kill(victim, power=power)
        await cluster.until(lambda: leader_id(cluster) not in (-1, victim))
        for at in range(10, 20):
            await write(cluster, b"%d" % at)
        await cluster.start(victim)
        await agree(cluster, *(b"%d" % at for at in range(20)))
        await cluster.stop()

    simulate(scenario)


def test_two_failovers_in_a_row_leave_all_logs_the_same() -> None:
    """Each leader takes records that nobody else gets; the next one's word is what counts (KIP-279)."""

    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network, min_insync_replicas="1")
        await write(cluster, b"all")
        lost = []
        for at in range(2):
            leader = leader_id(cluster)
            others = [host_of(broker.id) for broker in cluster.running if broker.id != leader]
            network.partition([host_of(leader)], others)
            lost.append(await write(cluster, b"lost %d" % at, acks=1))
            await cluster.kill(leader)
            network.heal()
            await cluster.until(lambda gone=leader: leader_id(cluster) not in (-1, gone))  # type: ignore[misc]
            if at == 0:
                await cluster.start(leader)
                await cluster.until(lambda: len(in_sync(cluster)) == 3, timeout_s=120)
            else:
                await cluster.start(leader)
        assert lost == [1, 1]
        await write(cluster, b"kept")
        await agree(cluster, b"all", b"kept")
        await cluster.stop()

    simulate(scenario)


def test_a_follower_that_was_ahead_of_the_new_leader_is_cut() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        await write(cluster, b"both")
        old = leader_id(cluster)
        network.partition([host_of(old)], [host_of(id_) for id_ in cluster.members if id_ != old])
        for at in range(5):
            await write(cluster, b"alone %d" % at, acks=1)
        await cluster.kill(old)
        network.heal()
        await cluster.until(lambda: leader_id(cluster) not in (-1, old))
        await write(cluster, b"new")
        await cluster.start(old)
        await agree(cluster, b"both", b"new")
        await cluster.stop()

    simulate(scenario)


def test_a_broker_whose_disk_was_wiped_copies_everything() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network, segment_bytes="2000")
        for at in range(50):
            await write(cluster, b"%d" % at * 50)
        victim = other_than(cluster, leader_id(cluster)).id
        await cluster.kill(victim)
        await cluster.until(lambda: victim not in in_sync(cluster))
        cluster.members[victim].files.remove_tree("/data/a")
        cluster.members[victim].files.make_folder("/data/a")
        await cluster.start(victim)
        await agree(cluster, *(b"%d" % at * 50 for at in range(50)))
        await cluster.stop()

    simulate(scenario)


def test_a_follower_behind_the_leaders_start_begins_there() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network, segment_bytes="200")
        victim = other_than(cluster, leader_id(cluster)).id
        await write(cluster, b"old")
        await cluster.kill(victim)
        await cluster.until(lambda: victim not in in_sync(cluster))
        for at in range(10):
            await write(cluster, b"%d" % at)
        leader = leader_of(cluster)
        assert leader is not None
        leader.delete_records(8)
        await cluster.start(victim)
        await until_in_sync(cluster, 1, 2, 3)
        await cluster.until(all_hold(cluster, 11))
        await write(cluster, b"next")
        starts = [partition.log.start_offset for partition in replicas_of(cluster).values() if partition.log]
        assert starts == [8, 8, 8]
        logs = {bytes_of(partition, 12)[-80:] for partition in replicas_of(cluster).values()}
        assert len(logs) == 1
        await cluster.stop()

    simulate(scenario)


def test_a_follower_that_is_cut_off_leaves_the_in_sync_set_and_joins_again() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network, settings={"replica.lag.time.max.ms": "3000"})
        assert cluster.controller is not None  # Which is asked for another in-sync set, and must be reached.
        slow = other_than(cluster, leader_id(cluster), cluster.controller.id).id
        network.partition([host_of(slow)], [host_of(leader_id(cluster))])
        began_s = asyncio.get_running_loop().time()
        await write(cluster, b"one")
        took_s = asyncio.get_running_loop().time() - began_s
        assert 3 <= took_s < 5, "who writes waits until the one that is cut off is no longer counted on"
        assert in_sync(cluster) == {1, 2, 3} - {slow}
        network.heal()
        await until_in_sync(cluster, 1, 2, 3)
        await agree(cluster, b"one")
        await cluster.stop()

    simulate(scenario)


def test_without_enough_in_sync_nothing_is_acknowledged_and_nothing_new_is_shown() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network, settings={"replica.lag.time.max.ms": "3000"})
        await write(cluster, b"seen")
        leader = leader_id(cluster)
        for broker in list(cluster.running):
            if broker.id != leader:
                await cluster.kill(broker.id)
        await cluster.until(lambda: in_sync(cluster) == {leader})
        connection = await cluster.connect(leader)
        request = produce_request(TOPIC, b"refused")
        answer = await connection.call(request, ProduceResponse, version=PRODUCE_VERSION)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await write(cluster, b"hidden", acks=1)
        assert await read_all(connection, TOPIC) == [b"seen"]
        await cluster.start(*(id_ for id_ in cluster.members if id_ != leader))
        await agree(cluster, b"seen", b"hidden")
        await cluster.stop()

    simulate(scenario)


def test_consumers_see_nothing_that_is_not_on_every_replica_in_sync() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        await write(cluster, b"seen")
        leader = leader_id(cluster)
        network.partition([host_of(leader)], [host_of(id_) for id_ in cluster.members if id_ != leader])
        await write(cluster, b"hidden", acks=1)
        connection = await cluster.connect(leader)
        assert await read_all(connection, TOPIC) == [b"seen"]
        network.heal()
        await agree(cluster, b"seen", b"hidden")
        await cluster.stop()

    simulate(scenario)


def test_a_partition_moves_to_a_fetcher_that_waits_without_waiting_for_it() -> None:
    """Followers of the new leader already wait there for other partitions; the new one is asked for at once."""

    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, partitions=3, min_insync_replicas="2")
        for index in range(3):
            await until_in_sync(cluster, 1, 2, 3, index=index)
        victim = leader_id(cluster, 0)
        await asyncio.sleep(5)  # Everyone waits at everyone's.
        await cluster.kill(victim)
        await cluster.until(lambda: leader_id(cluster, 0) not in (-1, victim))
        began_s = asyncio.get_running_loop().time()
        await write(cluster, b"on")
        assert asyncio.get_running_loop().time() - began_s < 0.2
        await cluster.stop()

    simulate(scenario)


def test_where_every_write_is_flushed_all_brokers_may_lose_their_power_at_once() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network, flush_messages="1")
        for at in range(10):
            await write(cluster, b"%d" % at)
        for broker_id in list(cluster.members):
            await cluster.kill(broker_id, power=True)
        await asyncio.sleep(10)
        await cluster.start()
        await cluster.until(lambda: leader_id(cluster) != -1)
        await agree(cluster, *(b"%d" % at for at in range(10)))
        await cluster.stop()

    simulate(scenario)


def test_records_are_deleted_on_every_replica_before_that_is_answered() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        for at in range(5):
            await write(cluster, b"%d" % at)
        row = DeleteRecordsPartition(partition_index=0, offset=3)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[row])], timeout_ms=5_000)
        connection = await cluster.connect(leader_id(cluster))
        answer = await connection.call(request, DeleteRecordsResponse)
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 3)
        starts = [partition.log.start_offset for partition in replicas_of(cluster).values() if partition.log]
        assert starts == [3, 3, 3]
        slow = other_than(cluster, leader_id(cluster)).id
        network.partition([host_of(slow)], [host_of(leader_id(cluster))])
        row.offset = 4
        answer = await connection.call(request, DeleteRecordsResponse)
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 3)
        network.heal()
        await cluster.stop()

    simulate(scenario)


def test_a_new_leader_tells_nobody_of_an_end_before_one_that_was_told_already() -> None:
    """Its watermark lags until its followers have fetched (KIP-207)."""

    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create_on(cluster, controller_second(cluster), min_insync_replicas="2")
        await until_in_sync(cluster, 1, 2, 3)
        await write(cluster, b"one")
        old = leader_id(cluster)
        others = [host_of(broker_id) for broker_id in cluster.members if broker_id != old]
        await cluster.kill(old)
        network.partition(*([host] for host in others))  # Whoever leads hears of nobody.
        await cluster.until(lambda: leader_id(cluster) not in (-1, old))
        leader = leader_of(cluster)
        assert leader is not None
        assert leader.high_watermark == 0, "nobody has told it yet that the record is committed"
        for version, code in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)):
            assert await latest(cluster, version) == (code, -1)
        network.heal()
        await cluster.until(lambda: leader.high_watermark == 1)
        assert await latest(cluster, 5) == (ErrorCode.NONE, 1)
        await cluster.stop()

    simulate(scenario)


async def latest(cluster: SimulatedCluster, version: int) -> tuple[int, int]:
    """What a consumer is told of the partition's end."""
    connection = await cluster.connect(leader_id(cluster))
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[row])])
    answer = await connection.call(request, ListOffsetsResponse, version=version)
    connection.close()
    return answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].offset
