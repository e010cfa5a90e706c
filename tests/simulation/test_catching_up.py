"""A replica that copies a long log: in a lane of its own, to its end, and with nothing taken for kept that is not."""

import asyncio

import pytest

from millstream.net.peer import FramedPeer
from millstream.protocol.messages.metadata import MetadataRequest, MetadataResponse
from millstream.replication import trail
from millstream.replication.company import LINGER_S, STAY_S
from millstream.replication.following.lanes import REST_S, Lane
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.loop import SimClock
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import (
    TOPIC,
    all_hold,
    bytes_of,
    create,
    in_sync,
    leader_id,
    leader_of,
    other_than,
    replicas_of,
    until_in_sync,
    write,
)

RECORDS, RECORD_BYTES = 60, 20_000
#: A copy takes many answers.
SETTINGS = {"replica.fetch.max.bytes": "50000"}


async def one_is_behind(
    network: SimNetwork, *, passing: bool = False, starts: bool = True, **configs: str
) -> tuple[SimulatedCluster, int]:
    """A cluster with a broker that was away while its topic grew, and, if it ``starts``, is back since this moment."""
    cluster = SimulatedCluster(network, settings=SETTINGS)
    if passing:
        for member in cluster.members.values():
            member.clock = PassingClock(member.loop)
    await cluster.start()
    await create(cluster, 2, 3, min_insync_replicas="2", **configs)
    away = other_than(cluster, leader_id(cluster), leader_id(cluster, 1)).id
    await cluster.stop(away)
    for number in range(RECORDS):
        await write(cluster, bytes([number]) * RECORD_BYTES)
    if starts:
        await cluster.start(away)
    return cluster, away


class PassingClock(SimClock):
    """A clock that moves on while one looks at it, as real ones do and virtual ones do not."""

    STEP_S = 0.0004
    _passed_s = 0.0

    def monotonic_s(self) -> float:
        self._passed_s += self.STEP_S
        return super().monotonic_s() + self._passed_s


def lane(cluster: SimulatedCluster, broker_id: int, index: int) -> Lane | None:
    partition = replicas_of(cluster, index).get(broker_id)
    return None if partition is None else cluster.broker(broker_id).replication.followers.lane_of(partition)


def test_a_long_log_is_copied_beside_those_that_are_kept_up_with_and_then_joins_them() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, away = await one_is_behind(network)
        await cluster.until(lambda: lane(cluster, away, 0) is Lane.CATCHING_UP)
        assert lane(cluster, away, 1) is Lane.KEEPING_UP
        assert away not in in_sync(cluster)
        await until_in_sync(cluster, 1, 2, 3)
        assert lane(cluster, away, 0) is Lane.KEEPING_UP
        assert await write(cluster, b"after") == RECORDS
        await cluster.until(all_hold(cluster, RECORDS + 1))
        assert len({bytes_of(partition) for partition in replicas_of(cluster).values()}) == 1
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("is_cold", [True, False])
def test_a_copy_takes_nobodys_place_in_memory(is_cold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the leader had to read for it goes again, and so does what was written; what was there before stays."""
    monkeypatch.setattr(trail, "STEP_BYTES", 300_000)
    monkeypatch.setattr(trail, "AHEAD_BYTES", 100_000)
    monkeypatch.setattr(trail, "FAR_BYTES", 400_000)

    async def scenario(network: SimNetwork) -> None:
        cluster, away = await one_is_behind(network, starts=False)
        if is_cold:
            for broker in cluster.running:
                cluster.members[broker.id].files.drop_caches()
        await cluster.start(away)
        await until_in_sync(cluster, 1, 2, 3)
        path = f"/{TOPIC}-0/{0:020}.log"
        size = RECORDS * RECORD_BYTES
        read = [span for span in cluster.members[leader_id(cluster)].files.unneeded if span[0].endswith(path)]
        written = [span for span in cluster.members[away].files.unneeded if span[0].endswith(path)]
        assert written[-1][2] >= size
        assert [first for _, first, _ in read] == sorted(first for _, first, _ in read)
        assert size - 350_000 < read[-1][2] <= size if is_cold else not read
        await cluster.stop()

    simulate(scenario)


def test_a_copy_goes_on_though_time_passes_between_two_looks_at_the_clock() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _ = await one_is_behind(network, passing=True)
        await until_in_sync(cluster, 1, 2, 3)
        await cluster.stop()

    simulate(scenario)


def test_a_copy_reaches_a_leader_that_is_written_to_all_the_while() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, away = await one_is_behind(network)
        written = RECORDS
        while away not in in_sync(cluster):
            assert written < 50 * RECORDS, "it never gets there"
            await write(cluster, bytes(RECORD_BYTES))
            written += 1
        await cluster.stop()

    simulate(scenario)


def test_what_was_copied_is_on_the_disk_before_it_is_counted_on() -> None:
    """Where every write is flushed, all may lose their power at once, also when a copy has just come to its end."""

    async def scenario(network: SimNetwork) -> None:
        cluster, away = await one_is_behind(network, flush_messages="1")
        leader = leader_of(cluster)
        assert leader is not None
        while away not in leader.role.others_in_sync:  # noqa: ASYNC110  # It is to be seen at once.
            await asyncio.sleep(0.0001)
        for broker in list(cluster.running):
            await cluster.kill(broker.id, power=True)
        await cluster.start(away)
        held = cluster.broker(away).replicas.find(TOPIC, 0)
        assert held.log is not None and held.log.end_offset == RECORDS
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("has_company", [False, True])
def test_a_copy_rests_while_somebody_asks_something_of_its_leader(
    has_company: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests = set[float]()
    monkeypatch.setattr(FramedPeer, "pace", lambda _, rest_s: rests.add(rest_s))

    async def scenario(network: SimNetwork) -> None:
        cluster, away = await one_is_behind(network, starts=False)
        await asyncio.sleep(2 * LINGER_S)  # Whoever wrote is gone.
        asking = asyncio.create_task(ask_again_and_again(cluster)) if has_company else None
        await asyncio.sleep(2 * STAY_S)
        await cluster.start(away)
        await until_in_sync(cluster, 1, 2, 3)
        if asking is not None:
            asking.cancel()
        await cluster.stop()

    simulate(scenario)
    assert rests == {REST_S} if has_company else 0 in rests


async def ask_again_and_again(cluster: SimulatedCluster) -> None:
    connection = await cluster.connect(leader_id(cluster))
    while True:
        await connection.call(MetadataRequest(topics=[]), MetadataResponse)
        await asyncio.sleep(LINGER_S / 2)
