"""What goes through a topic is counted, once."""

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.produce import ProduceResponse
from tests.simulation.asking import FETCH_VERSION, PRODUCE_VERSION, create, fetch_request, produce_request, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork


def test_bytes_messages_requests_and_refusals_are_counted() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        traffic = broker.replicas.find("orders", 0).traffic
        request = produce_request("orders", b"one", b"two")
        size = len(request.topic_data[0].partition_data[0].records or b"")
        await connection.call(request, ProduceResponse, version=PRODUCE_VERSION)
        assert (traffic.produces.value, traffic.messages_in.value, traffic.bytes_in.value) == (1, 2, size)
        refused = await connection.call(
            produce_request("orders", b"x", acks=7), ProduceResponse, version=PRODUCE_VERSION
        )
        assert refused.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
        assert (traffic.produces.value, traffic.failed_produces.value, traffic.messages_in.value) == (2, 1, 2)
        await connection.call(fetch_request("orders", 0), FetchResponse, version=FETCH_VERSION)
        assert (traffic.fetches.value, traffic.bytes_out.value, traffic.failed_fetches.value) == (1, size, 0)
        waited = fetch_request("orders", 2, max_wait_ms=100)
        await connection.call(waited, FetchResponse, version=FETCH_VERSION)
        assert (traffic.fetches.value, traffic.bytes_out.value) == (2, size)
        await connection.call(fetch_request("orders", 99), FetchResponse, version=FETCH_VERSION)
        assert traffic.failed_fetches.value == 1
        await connection.call(produce_request("nowhere", b"x"), ProduceResponse, version=PRODUCE_VERSION)
        await machine.stop()

    simulate(scenario)
