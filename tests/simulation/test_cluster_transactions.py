"""Transactions over a cluster on virtual time: coordinator, leaders and the group's coordinator on brokers apart."""

from functools import partial

import pytest

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.test_cluster import create, knows_brokers, partitions_of
from tests.simulation.transactional_client import GROUP, Client, Id

PARTITIONS = 6
GROUPS, TRANSACTIONS = 0, 1
#: Ask again: the coordinator is not ready, or the transaction before has not ended everywhere.
LATER = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


class Producer:
    """A transactional producer that finds its brokers; one client for each, with the sequences in common."""

    def __init__(self, cluster: SimulatedCluster, transactional_id: str) -> None:
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._clients: dict[int, Client] = {}
        self.id: Id = (-1, -1)

    async def at(self, broker_id: int) -> Client:
        if broker_id not in self._clients:
            made = Client(await self._cluster.connect(broker_id), self.transactional_id)
            for other in self._clients.values():
                made._sequences = other._sequences
            self._clients[broker_id] = made
        return self._clients[broker_id]

    async def coordinator(self, key: str, kind: int) -> Client:
        """Asked of any broker until one is named."""
        while True:
            asked = await self._cluster.connect(self._cluster.running[0].id)
            request = FindCoordinatorRequest(key=key, key_type=kind)
            answer = await asked.call(request, FindCoordinatorResponse, version=3)
            asked.close()
            if answer.error_code == ErrorCode.NONE and self._cluster.members[answer.node_id].broker is not None:
                return await self.at(answer.node_id)
            await self._cluster.until(lambda: True)

    async def begin(self) -> None:
        client = await self.coordinator(self.transactional_id, TRANSACTIONS)
        while (answer := await client.init()).error_code in LATER:
            pass
        assert answer.error_code == ErrorCode.NONE
        self.id = (answer.producer_id, answer.producer_epoch)

    async def write(self, value: bytes, version: int) -> None:
        """To every partition; before version 12 the client adds them to its transaction itself."""
        if version < 12:
            coordinator = await self.coordinator(self.transactional_id, TRANSACTIONS)
            assert await coordinator.add(self.id, *range(PARTITIONS)) == [ErrorCode.NONE] * PARTITIONS
        rows = await partitions_of(await self._cluster.connect(self._cluster.running[0].id), "orders")
        assert len({row.leader_id for row in rows.values()}) > 1
        for index, row in rows.items():
            client = await self.at(row.leader_id)
            while (code := await client.produce(self.id, value, index, version)) in LATER:
                pass
            assert code == ErrorCode.NONE

    async def end(self, committed: bool) -> None:
        client = await self.coordinator(self.transactional_id, TRANSACTIONS)
        ended = await client.end(self.id, committed)
        assert isinstance(ended, tuple)
        self.id = ended


async def started(network: SimNetwork) -> SimulatedCluster:
    settings = {"transaction.state.log.num.partitions": "6", "offsets.topic.num.partitions": "6"}
    cluster = SimulatedCluster(network, settings=settings)
    await cluster.start()
    for broker in cluster.running:
        await cluster.until(partial(knows_brokers, broker, 3))
    await create(await cluster.connect(1), "orders", partitions=PARTITIONS)
    return cluster


async def shown(cluster: SimulatedCluster) -> list[list[bytes | None]]:
    """What consumers of committed records see of each partition."""
    found = []
    rows = await partitions_of(await cluster.connect(cluster.running[0].id), "orders")
    for index, row in sorted(rows.items()):
        found.append(await Client(await cluster.connect(row.leader_id)).committed(index))
    return found


async def until_shown(cluster: SimulatedCluster, *values: bytes) -> None:
    for _ in range(200):
        if await shown(cluster) == [list(values)] * PARTITIONS:
            return
    raise AssertionError(await shown(cluster))


@pytest.mark.parametrize("version", [11, 12])
def test_a_transaction_spans_leaders_on_all_brokers(version: int) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        for at in range(4):  # Coordinated by one broker or another.
            producer = Producer(cluster, f"tx-{at}")
            await producer.begin()
            await producer.write(b"no-%d" % at, version)
            await producer.end(committed=False)
            if version < 12:
                await producer.begin()
            await producer.write(b"yes-%d" % at, version)
            await producer.end(committed=True)
        await until_shown(cluster, *(b"yes-%d" % at for at in range(4)))
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("version", [4, 5])
def test_offsets_of_a_group_are_committed_at_its_own_coordinator(version: int) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        for at in range(6):
            producer = Producer(cluster, f"tx-{at}")
            await producer.begin()
            group = await producer.coordinator(GROUP, GROUPS)
            if version < 5:
                coordinator = await producer.coordinator(producer.transactional_id, TRANSACTIONS)
                assert await coordinator.add_offsets(producer.id) == ErrorCode.NONE
            assert await group.commit_offset(producer.id, at + 1, version) == ErrorCode.NONE
            await producer.end(committed=True)
            for _ in range(100):
                if await group.offset() == at + 1:
                    break
            assert await group.offset() == at + 1
        await cluster.stop()

    simulate(scenario)


def test_a_batch_of_no_transaction_is_refused_wherever_its_coordinator_is() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        rows = await partitions_of(await cluster.connect(1), "orders")
        for at in range(4):
            producer = Producer(cluster, f"tx-{at}")
            await producer.begin()
            for index, row in rows.items():
                code = await (await producer.at(row.leader_id)).produce(producer.id, b"late", index, 11)
                assert code == ErrorCode.TRANSACTION_ABORTABLE
        assert await shown(cluster) == [[]] * PARTITIONS
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_an_outcome_is_carried_out_by_the_next_coordinator(seed: int) -> None:
    """The coordinator dies the moment it has answered that the transaction is committed."""

    async def scenario(network: SimNetwork) -> None:
        cluster = await started(network)
        producer = Producer(cluster, "tx")
        await producer.begin()
        await producer.write(b"kept", 12)
        rows = await partitions_of(await cluster.connect(1), "__transaction_state")
        coordinator = await producer.coordinator("tx", TRANSACTIONS)
        victim = next(broker_id for broker_id, client in producer._clients.items() if client is coordinator)
        assert any(row.leader_id == victim for row in rows.values())
        await producer.end(committed=True)
        await cluster.kill(victim)
        await cluster.until(lambda: all(victim not in broker.cluster.brokers for broker in cluster.running))
        await until_shown(cluster, b"kept")
        again = Producer(cluster, "tx")
        await again.begin()
        assert again.id[1] > 0 or again.id[0] != producer.id[0]
        await cluster.stop()

    simulate(scenario, seed)
