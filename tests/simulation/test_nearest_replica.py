"""Consumers that read from the replica in their own rack (KIP-392)."""

import asyncio

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.simulation.asking import FETCH_VERSION, fetch_request, simulate, values_of
from tests.simulation.brokers import SimulatedCluster, host_of
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import TOPIC, create, leader_id, until_in_sync, write

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def request(offset: int, rack: str, max_wait_ms: int = 0) -> FetchRequest:
    fetch = fetch_request(TOPIC, offset, max_wait_ms=max_wait_ms)
    fetch.rack_id = rack
    return fetch


async def in_racks(network: SimNetwork, selector: str) -> SimulatedCluster:
    cluster = SimulatedCluster(network, settings={"replica.selector.class": selector})
    for broker_id, member in cluster.members.items():
        member.settings["broker.rack"] = f"rack-{broker_id}"
    await cluster.start()
    await create(cluster, min_insync_replicas="2")
    await until_in_sync(cluster, 1, 2, 3)
    return cluster


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there_at_once() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await in_racks(network, SELECTOR)
        await write(cluster, b"one")
        leader = leader_id(cluster)
        near = next(broker_id for broker_id in cluster.members if broker_id != leader)
        at_leader = await cluster.connect(leader)
        fetch = request(0, f"rack-{near}", max_wait_ms=60_000)
        answer = await at_leader.call(fetch, FetchResponse, version=FETCH_VERSION)
        row = answer.responses[0].partitions[0]
        assert (row.error_code, row.preferred_read_replica, row.records) == (ErrorCode.NONE, near, b"")
        at_home = await at_leader.call(request(0, f"rack-{leader}"), FetchResponse, version=FETCH_VERSION)
        assert at_home.responses[0].partitions[0].preferred_read_replica == -1
        assert values_of(at_home) == [b"one"]
        at_follower = await cluster.connect(near)
        answer = await at_follower.call(request(0, f"rack-{near}"), FetchResponse, version=FETCH_VERSION)
        assert values_of(answer) == [b"one"]
        waiting = asyncio.ensure_future(
            at_follower.call(request(1, f"rack-{near}", max_wait_ms=60_000), FetchResponse, version=FETCH_VERSION)
        )
        await asyncio.sleep(3)
        began_s = asyncio.get_running_loop().time()
        await write(cluster, b"two")
        assert values_of(await waiting) == [b"two"]
        assert asyncio.get_running_loop().time() - began_s < 0.1, "the follower hears of the watermark at once"
        await cluster.stop()

    simulate(scenario)


def test_a_follower_shows_nothing_above_its_watermark_and_fences_by_epoch() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await in_racks(network, SELECTOR)
        await write(cluster, b"one")
        leader = leader_id(cluster)
        near, far = [broker_id for broker_id in cluster.members if broker_id != leader]
        await asyncio.sleep(1)
        network.partition([host_of(far)], [host_of(leader)])  # So that the watermark stays.
        await write(cluster, b"two", acks=1)
        await asyncio.sleep(1)
        at_follower = await cluster.connect(near)
        answer = await at_follower.call(request(0, f"rack-{near}"), FetchResponse, version=FETCH_VERSION)
        assert values_of(answer) == [b"one"]
        late = request(0, f"rack-{near}")
        late.topics[0].partitions[0].current_leader_epoch = 7
        answer = await at_follower.call(late, FetchResponse, version=FETCH_VERSION)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        answer = await at_follower.call(request(0, ""), FetchResponse, version=10)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        network.heal()
        await cluster.stop()

    simulate(scenario)


def test_unless_it_is_configured_consumers_stay_with_the_leader() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await in_racks(network, "")
        await write(cluster, b"one")
        leader = leader_id(cluster)
        near = next(broker_id for broker_id in cluster.members if broker_id != leader)
        connection = await cluster.connect(leader)
        answer = await connection.call(request(0, f"rack-{near}"), FetchResponse, version=FETCH_VERSION)
        assert answer.responses[0].partitions[0].preferred_read_replica == -1
        assert values_of(answer) == [b"one"]
        await cluster.stop()

    simulate(scenario)
