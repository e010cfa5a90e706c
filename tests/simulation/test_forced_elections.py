"""Elections of those who have not everything, where somebody wants them: what was lost is told, and work goes on."""

import asyncio

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.asking import FETCH_VERSION, fetch_request, read_all, simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import TOPIC, create, leader_id, leader_of, until_in_sync, write


def test_a_reader_of_records_that_were_cut_away_is_told_where_they_end() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, min_insync_replicas="1", unclean_leader_election_enable="true")
        await until_in_sync(cluster, 1, 2, 3)
        await write(cluster, b"kept")
        first = leader_id(cluster)
        others = [broker_id for broker_id in cluster.members if broker_id != first]
        for other in others:
            await cluster.kill(other)
        await write(cluster, b"lost")
        leader = leader_of(cluster)
        assert leader is not None
        epoch = leader.role.leadership.leader_epoch
        await cluster.kill(first)
        await cluster.start(*others)
        await write(cluster, b"new", b"newer")
        connection = await cluster.connect(leader_id(cluster))
        fetch = fetch_request(TOPIC, 2)
        fetch.topics[0].partitions[0].last_fetched_epoch = epoch
        row = (await connection.call(fetch, FetchResponse, version=FETCH_VERSION)).responses[0].partitions[0]
        assert row.diverging_epoch is not None
        assert row.diverging_epoch.end_offset == 1 and not row.records
        assert await read_all(connection, TOPIC) == [b"kept", b"new", b"newer"]
        await cluster.stop()

    simulate(scenario)


GROUP = "readers"
COMMIT_VERSION = 8


async def coordinator_of(cluster: SimulatedCluster) -> tuple[int, Connection]:
    """Who coordinates the group, asked for as clients do until somebody does."""
    while True:
        for broker in cluster.running:
            connection = await cluster.connect(broker.id)
            answer = await connection.call(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse)
            (row,) = answer.coordinators
            if row.error_code == ErrorCode.NONE and row.node_id in {each.id for each in cluster.running}:
                return row.node_id, await cluster.connect(row.node_id)
        await asyncio.sleep(0.1)


async def commit(cluster: SimulatedCluster, offset: int) -> int:
    """Commit an offset of the group, trying again as clients do; who coordinates it."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[row])])
    async with asyncio.timeout(60):
        while True:
            node, connection = await coordinator_of(cluster)
            answer = await connection.call(request, OffsetCommitResponse, version=COMMIT_VERSION)
            if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
                return node
            await asyncio.sleep(0.1)


async def committed(cluster: SimulatedCluster) -> int:
    """The group's offset."""
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])])
    async with asyncio.timeout(60):
        while True:
            _, connection = await coordinator_of(cluster)
            (group,) = (await connection.call(request, OffsetFetchResponse, version=COMMIT_VERSION)).groups
            if group.error_code == ErrorCode.NONE:
                return int(group.topics[0].partitions[0].committed_offset)
            await asyncio.sleep(0.1)


def test_a_coordinator_goes_on_from_what_a_forced_election_left() -> None:
    async def scenario(network: SimNetwork) -> None:
        settings = {"unclean.leader.election.enable": "true", "offsets.topic.num.partitions": "1"}
        cluster = SimulatedCluster(network, settings=settings)
        await cluster.start()
        await create(cluster, min_insync_replicas="1")
        first = await commit(cluster, 1)
        await asyncio.sleep(1)  # The followers have it.
        others = [broker_id for broker_id in cluster.members if broker_id != first]
        for other in others:
            await cluster.kill(other)
        assert await commit(cluster, 2) == first
        await cluster.kill(first)
        await cluster.start(*others)
        assert await committed(cluster) == 1, "nobody is left who has the other"
        assert await commit(cluster, 3) != first
        await cluster.start(first)
        await asyncio.sleep(60)
        assert await committed(cluster) == 3
        await cluster.stop()

    simulate(scenario)
