"""The offsets of a group that is on its way from one broker to another."""

import asyncio

from millstream import Admin, TopicPartition
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import ScriptedBroker, metadata_of

REFUSALS = 3


def test_a_group_that_moves_is_asked_again_until_a_broker_has_it() -> None:
    """librdkafka's admin client, told so once, ends the process by a segmentation fault."""
    asked: list[Request] = []

    def find(request: Request) -> FindCoordinatorResponse:
        assert isinstance(request, FindCoordinatorRequest)
        host, port = broker.address
        keys = request.coordinator_keys or [request.key]
        rows = [Coordinator(key=key, node_id=1, host=host, port=port) for key in keys]
        return FindCoordinatorResponse(node_id=1, host=host, port=port, coordinators=rows)

    def fetch(request: Request) -> OffsetFetchResponse:
        assert isinstance(request, OffsetFetchRequest)
        asked.append(request)
        (wanted,) = request.groups
        if len(asked) <= REFUSALS:
            refusal = OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=ErrorCode.NOT_COORDINATOR)
            return OffsetFetchResponse(groups=[refusal])
        row = OffsetFetchResponsePartitions(partition_index=1, committed_offset=7)
        none = OffsetFetchResponsePartitions(partition_index=0, committed_offset=-1)
        topic = OffsetFetchResponseTopics(name="orders", partitions=[none, row])
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=wanted.group_id, topics=[topic])])

    def offsets() -> dict[TopicPartition, int]:
        with Admin(str(broker.address), timeout_s=20) as admin:
            return admin.group_offsets("billing")

    async def scenario() -> None:
        async with broker:
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, {"orders": [1, 1]})
            assert await asyncio.to_thread(offsets) == {TopicPartition("orders", 1): 7}

    versions = {key: (low, min(high, 9)) for key, (low, high) in ScriptedBroker().versions.items()}
    broker = ScriptedBroker(
        {FindCoordinatorRequest.API_KEY: find, OffsetFetchRequest.API_KEY: fetch}, versions=versions
    )
    asyncio.run(scenario())
    assert len(asked) > REFUSALS
