"""What a broker that may have been replaced answers, which the registry has not confirmed for too long."""

import pytest

from millstream.broker.standing import Standing
from millstream.model.errors import ErrorCode
from millstream.model.records import Record, encode_batch
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.simulation.asking import FETCH_VERSION, PRODUCE_VERSION, create, fetch_request, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.loop import EPOCH_MS
from tests.simulation.network import SimNetwork

SESSION_S = 6.0


def numbered(sequence: int) -> ProduceRequest:
    """A record of an idempotent producer."""
    batch = encode_batch([Record(0, EPOCH_MS, None, b"it")], producer_id=7, producer_epoch=0, base_sequence=sequence)
    data = PartitionProduceData(index=0, records=bytes(batch))
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


@pytest.mark.parametrize(
    ("is_confirmed", "code"),
    [(True, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_only_who_surely_leads_tells_a_producer_of_a_gap(is_confirmed: bool, code: ErrorCode) -> None:
    """To clients that is for good; where another leads by now, nothing may be missing."""

    async def scenario(network: SimNetwork) -> None:
        simulated = SimBroker(network)
        broker = await simulated.start()
        connection = await simulated.connect()
        await create(connection, "t")
        codes = []
        for sequence in (0, 5):
            answer = await connection.call(numbered(sequence), ProduceResponse, version=PRODUCE_VERSION)
            codes.append(answer.responses[0].partition_responses[0].error_code)
            if not is_confirmed:
                broker.standing = Standing(broker.registry, broker.id, broker.replicas, broker.clock, SESSION_S)
        assert codes == [ErrorCode.NONE, code]
        connection.close()
        await simulated.stop()

    simulate(scenario)


@pytest.mark.parametrize(
    ("is_confirmed", "code"),
    [(True, ErrorCode.OFFSET_OUT_OF_RANGE), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_only_who_surely_leads_tells_a_consumer_that_its_offset_is_not_there(
    is_confirmed: bool, code: ErrorCode
) -> None:
    """It would start over, and another may have what is asked for."""

    async def scenario(network: SimNetwork) -> None:
        simulated = SimBroker(network)
        broker = await simulated.start()
        connection = await simulated.connect()
        await create(connection, "t")
        if not is_confirmed:
            broker.standing = Standing(broker.registry, broker.id, broker.replicas, broker.clock, SESSION_S)
        answer = await connection.call(fetch_request("t", 82), FetchResponse, version=FETCH_VERSION)
        assert answer.responses[0].partitions[0].error_code == code
        connection.close()
        await simulated.stop()

    simulate(scenario)
