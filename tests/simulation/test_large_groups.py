"""Groups that are too large for the log's batches: each bears it alone, and very many offsets go all the same."""

import asyncio
from typing import Any

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from millstream.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from millstream.protocol.messages.offset_fetch import OffsetFetchResponse
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.simulation.asking import create, simulate
from tests.simulation.network import SimNetwork
from tests.simulation.test_handlers_groups import BY_NAME, commit, committed, old_fetch_of, started

ONE_PARTITION = {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}


async def join(connection: Connection, group: str) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return await connection.call(request, JoinGroupResponse, version=3)


async def synced(connection: Connection, group: str, joined: Any, size: int) -> ErrorCode:
    row = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(size))
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=[row]
    )
    return ErrorCode((await connection.call(request, SyncGroupResponse, version=3)).error_code)


def test_one_groups_assignment_that_is_too_large_does_not_disturb_another_group() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network, settings=ONE_PARTITION)
        waiting, bad = await machine.connect(), await machine.connect()
        first = await join(connection, "good")
        assert await synced(connection, "good", first, 10) is ErrorCode.NONE
        second = asyncio.ensure_future(join(waiting, "good"))
        await asyncio.sleep(1)
        joined = await join(bad, "bad")
        assert await synced(bad, "bad", joined, 1_100_000) is ErrorCode.UNKNOWN_SERVER_ERROR
        await asyncio.sleep(1)
        assert not second.done(), "it waits for the first, as before"
        request = JoinGroupRequest(
            group_id="bad",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        again = await bad.call(request, JoinGroupResponse, version=3)
        assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)
        assert await synced(bad, "bad", again, 10) is ErrorCode.NONE
        second.cancel()
        await machine.stop()

    simulate(scenario)


def test_a_group_with_very_many_offsets_can_be_deleted() -> None:
    async def scenario(network: SimNetwork) -> None:
        small = {**ONE_PARTITION, "message.max.bytes": "20000"}
        machine, connection = await started(network, settings=small)
        await create(connection, "wide", partitions=2_000)
        for first in range(0, 2_000, 100):
            rows = [
                OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata="")
                for index in range(first, first + 100)
            ]
            request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="wide", partitions=rows)])
            answer = await connection.call(request, OffsetCommitResponse, version=BY_NAME)
            assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        deleted = await connection.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, version=2)
        assert [row.error_code for row in deleted.results] == [ErrorCode.NONE]
        listed = await connection.call(ListGroupsRequest(), ListGroupsResponse, version=4)
        assert listed.groups == []
        await machine.stop()

    simulate(scenario)


def test_the_internal_topics_keep_their_partitions_so_that_every_group_stays_where_it_is() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network, settings=ONE_PARTITION)
        assert await committed(connection, commit("g", 5)) is ErrorCode.NONE
        wanted = [CreatePartitionsTopic(name=name, count=3) for name in ("__consumer_offsets", "orders")]
        answer = await connection.call(
            CreatePartitionsRequest(topics=wanted, timeout_ms=10_000), CreatePartitionsResponse, version=2
        )
        assert {row.name: row.error_code for row in answer.results} == {
            "__consumer_offsets": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "orders": ErrorCode.NONE,
        }
        await asyncio.sleep(1)
        got = await connection.call(old_fetch_of("g"), OffsetFetchResponse, version=5)
        assert got.topics[0].partitions[0].committed_offset == 5
        await machine.stop()

    simulate(scenario)
