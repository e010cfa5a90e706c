"""Log directories that fail under a broker: what it gives up, whom it tells, and what is made of it when it is back."""

import pytest

from millstream.broker.coordinators import GROUPS, TRANSACTIONS
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.fetch import FetchResponse
from millstream.replication.role import Part
from tests.simulation.asking import FETCH_VERSION, create, fetch_request, produce, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork


def test_a_broker_has_no_part_in_what_lay_in_a_directory_that_failed() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        for topic in (GROUPS, TRANSACTIONS):
            await broker.coordinators.ensure(topic)
        coordinators = (broker.groups, broker.coordinators.transactions)
        assert all(any(each.shards()) for each in coordinators)
        machine.files.fail("append", path="/data/a/orders*")
        for _ in range(2):
            assert (await produce(connection, "orders", b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        read = await connection.call(fetch_request("orders", 0), FetchResponse, version=FETCH_VERSION)
        assert read.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for each in coordinators:
            with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
                each.shard_for("somebody")
        assert all(partition.role.part is Part.IDLE for partition in broker.replicas)
        machine.files.heal()
        await machine.stop()

    simulate(scenario)
