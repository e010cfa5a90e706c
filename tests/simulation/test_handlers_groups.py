"""Groups and offsets over the wire: the shape of every version's answer, refusals included."""

import pytest

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.model.ids import CONSUMER_OFFSETS
from millstream.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from millstream.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from millstream.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from millstream.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from millstream.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from millstream.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.simulation.asking import create, produce, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork

BY_NAME = 9


async def started(
    network: SimNetwork, *, has_coordinator: bool = True, settings: dict[str, str] | None = None
) -> tuple[SimBroker, Connection]:
    machine = SimBroker(network, settings=settings)
    await machine.start()
    connection = await machine.connect()
    await create(connection, "orders", partitions=2)
    if has_coordinator:
        found = await connection.call(FindCoordinatorRequest(key="g"), FindCoordinatorResponse, version=0)
        assert found.error_code == 0
    return machine, connection


def commit(group: str, offset: int, topic: str = "orders") -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="mine")
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])])


def fetch_of(*groups: str) -> OffsetFetchRequest:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic]) for group in groups])


def old_fetch_of(group: str) -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name="orders", partition_indexes=[0])])


async def committed(connection: Connection, request: OffsetCommitRequest, version: int = BY_NAME) -> ErrorCode:
    answer = await connection.call(request, OffsetCommitResponse, version=version)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_every_version_commits_and_reads_what_was_committed() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        for version in range(2, 10):
            assert await committed(connection, commit("g", version), version) is ErrorCode.NONE
        for version in range(1, 8):
            answer = await connection.call(old_fetch_of("g"), OffsetFetchResponse, version=version)
            (row,) = answer.topics[0].partitions
            assert (row.committed_offset, row.metadata, row.error_code, answer.error_code) == (9, "mine", 0, 0)
        for version in (8, 9):
            answer = await connection.call(fetch_of("g", "h"), OffsetFetchResponse, version=version)
            found = [(group.group_id, group.topics[0].partitions[0].committed_offset) for group in answer.groups]
            assert found == [("g", 9), ("h", -1)]
        await machine.stop()

    simulate(scenario)


def test_topics_are_named_by_id_in_version_10() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        assert machine.broker is not None
        topic_id = machine.broker.cluster.topics["orders"].topic_id
        request = commit("g", 5)
        request.topics[0].topic_id = topic_id
        assert await committed(connection, request, 10) is ErrorCode.NONE
        request.topics[0].topic_id = b"of another topic"
        assert await committed(connection, request, 10) is ErrorCode.UNKNOWN_TOPIC_ID
        topic = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
        (group,) = (await connection.call(asked, OffsetFetchResponse, version=10)).groups
        assert (group.topics[0].topic_id, group.topics[0].partitions[0].committed_offset) == (topic_id, 5)
        await machine.stop()

    simulate(scenario)


def test_offsets_survive_a_restart() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        for number in range(20):
            assert await committed(connection, commit(f"g{number}", number)) is ErrorCode.NONE
        await machine.stop()
        await machine.start()
        connection = await machine.connect()
        for number in range(20):
            (group,) = (await connection.call(fetch_of(f"g{number}"), OffsetFetchResponse, version=BY_NAME)).groups
            assert group.error_code == 0
            assert group.topics[0].partitions[0].committed_offset == number
        await machine.stop()

    simulate(scenario)


def test_where_nobody_coordinates_every_api_says_so_in_its_own_place() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network, has_coordinator=False)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await committed(connection, commit("g", 1)) is code
        answer = await connection.call(old_fetch_of("g"), OffsetFetchResponse, version=1)
        assert answer.topics[0].partitions[0].error_code == code
        assert (await connection.call(old_fetch_of("g"), OffsetFetchResponse, version=2)).error_code == code
        fetched = await connection.call(fetch_of("g", "h"), OffsetFetchResponse, version=8)
        assert [(group.group_id, group.error_code) for group in fetched.groups] == [("g", code), ("h", code)]
        joined = await connection.call(JoinGroupRequest(group_id="g", member_id="me"), JoinGroupResponse, version=4)
        assert (joined.error_code, joined.member_id) == (code, "me")
        assert (await connection.call(HeartbeatRequest(group_id="g"), HeartbeatResponse)).error_code == code
        described = await connection.call(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)
        assert [(group.group_id, group.error_code) for group in described.groups] == [("g", code)]
        described_new = await connection.call(
            ConsumerGroupDescribeRequest(group_ids=["g"]), ConsumerGroupDescribeResponse
        )
        assert [(group.group_id, group.error_code) for group in described_new.groups] == [("g", code)]
        deleted = await connection.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
        assert [(row.group_id, row.error_code) for row in deleted.results] == [("g", code)]
        assert (await connection.call(OffsetDeleteRequest(group_id="g"), OffsetDeleteResponse)).error_code == code
        assert (await connection.call(ListGroupsRequest(), ListGroupsResponse)).groups == []
        await machine.stop()

    simulate(scenario)


def test_groups_of_all_shards_are_listed_described_and_deleted() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        names = {f"group {number}" for number in range(10)}
        for name in names:
            await committed(connection, commit(name, 1))
        listed = (await connection.call(ListGroupsRequest(), ListGroupsResponse)).groups
        assert {group.group_id for group in listed} == names
        assert {(group.group_state, group.group_type, group.protocol_type) for group in listed} == {
            ("Empty", "Classic", "")
        }
        for states, types, count in ((["empty"], [], 10), (["Stable"], [], 0), ([], ["CLASSIC"], 10), ([], ["x"], 0)):
            asked = ListGroupsRequest(states_filter=states, types_filter=types)
            assert len((await connection.call(asked, ListGroupsResponse)).groups) == count
        for version in range(7):
            asked_of = DescribeGroupsRequest(groups=["group 1", "nobody's"], include_authorized_operations=version >= 3)
            there, missing = (await connection.call(asked_of, DescribeGroupsResponse, version=version)).groups
            assert (there.group_state, there.error_code) == ("Empty", 0)
            assert (there.authorized_operations == 3400) == (version >= 3)
            assert missing.group_state == "Dead"
            assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        deleted = await connection.call(
            DeleteGroupsRequest(groups_names=["group 1", "nobody's", "group 1"]), DeleteGroupsResponse
        )
        assert [(row.group_id, row.error_code) for row in deleted.results] == [
            ("group 1", 0),
            ("nobody's", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert len((await connection.call(ListGroupsRequest(), ListGroupsResponse)).groups) == 9
        await machine.stop()

    simulate(scenario)


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_that_is_not_there_has_a_row_in_the_new_description(version: int) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        await committed(connection, commit("classic", 1))
        asked = ConsumerGroupDescribeRequest(group_ids=["classic", "missing"])
        rows = (await connection.call(asked, ConsumerGroupDescribeResponse, version=version)).groups
        assert [(row.group_id, row.error_code) for row in rows] == [
            ("classic", ErrorCode.GROUP_ID_NOT_FOUND),
            ("missing", ErrorCode.GROUP_ID_NOT_FOUND),
        ]
        assert all(row.error_message for row in rows)
        await machine.stop()

    simulate(scenario)


def test_a_protocol_that_is_switched_off_is_not_served() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network, settings={"group.coordinator.rebalance.protocols": "classic"})
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
        assert (await connection.call(beat, ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.UNSUPPORTED_VERSION
        asked = ConsumerGroupDescribeRequest(group_ids=["g"])
        (row,) = (await connection.call(asked, ConsumerGroupDescribeResponse)).groups
        assert (row.group_id, row.error_code) == ("g", ErrorCode.UNSUPPORTED_VERSION)
        await machine.stop()

    simulate(scenario)


def test_a_member_is_known_by_its_client_and_its_offsets_are_guarded() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        # A consumer's metadata, version 0: it reads orders.
        metadata = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
        asked = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        joined = await connection.call(asked, JoinGroupResponse, version=3)
        assert (joined.error_code, joined.generation_id) == (0, 1)
        (group,) = (await connection.call(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)).groups
        (member,) = group.members
        assert (member.member_id, member.client_host[0]) == (joined.member_id, "/")
        assert await committed(connection, commit("g", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
        deleted = await connection.call(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
        assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        topic = OffsetDeleteRequestTopic(name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        refused = await connection.call(OffsetDeleteRequest(group_id="g", topics=[topic]), OffsetDeleteResponse)
        assert refused.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        await machine.stop()

    simulate(scenario)


def test_only_coordinators_write_to_their_topics() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network, settings={"offsets.topic.num.partitions": "1"})
        assert await committed(connection, commit("g", 5)) is ErrorCode.NONE
        forged = await produce(connection, CONSUMER_OFFSETS, b"forged")
        assert forged.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        rows = [DeleteRecordsPartition(partition_index=0, offset=1)]
        asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=CONSUMER_OFFSETS, partitions=rows)], timeout_ms=1)
        answer = await connection.call(asked, DeleteRecordsResponse)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        await machine.stop()

    simulate(scenario)
