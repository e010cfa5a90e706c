"""LeaderAndIsr, StopReplica, UpdateMetadata and ControlledShutdown against a naive codec and Kafka 3.9's schemas.

Tags from 10000 on are our own.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.protocol.codec import decode, encode
from millstream.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from millstream.protocol.schema import Message
from tests.properties.strategies import valid
from tests.unit.protocol.reference import parse_schema, reference_encode

_PARTITION_STATE = """
        partition_index int32 0+
        controller_epoch int32 0+
        leader int32 0+
        leader_epoch int32 0+
        isr []int32 0+
"""
_LEADER_STATE = f"""
        topic_name string 0-1
{_PARTITION_STATE}
        partition_epoch int32 0+
        replicas []int32 0+
        adding_replicas []int32 3+
        removing_replicas []int32 3+
        is_new bool 1+
        leader_recovery_state int8 6+
        eligible_replicas []int32 4+ tag=10000
"""
_METADATA_STATE = f"""
        topic_name string 0-4
{_PARTITION_STATE}
        zk_version int32 0+
        replicas []int32 0+
        offline_replicas []int32 4+
"""

SCHEMAS: dict[type[Message], str] = {
    LeaderAndIsrRequest: f"""
controller_id int32 0+
is_kraft_controller bool 7+
controller_epoch int32 0+
broker_epoch int64 2+
type int8 5+
ungrouped_partition_states []LeaderAndIsrPartitionState 0-1
{_LEADER_STATE}
topic_states []LeaderAndIsrTopicState 2+
    topic_name string 2+
    topic_id uuid 5+
    partition_states []LeaderAndIsrPartitionState 2+
{_LEADER_STATE}
live_leaders []LeaderAndIsrLiveLeader 0+
    broker_id int32 0+
    host_name string 0+
    port int32 0+
""",
    LeaderAndIsrResponse: """
error_code int16 0+
partition_errors []LeaderAndIsrPartitionError 0-4
    topic_name string 0-4
    partition_index int32 0+
    error_code int16 0+
topics []LeaderAndIsrTopicError 5+
    topic_id uuid 5+
    partition_errors []LeaderAndIsrPartitionError 5+
        topic_name string 0-4
        partition_index int32 0+
        error_code int16 0+
""",
    StopReplicaRequest: """
controller_id int32 0+
is_kraft_controller bool 4+
controller_epoch int32 0+
broker_epoch int64 1+
delete_partitions bool 0-2
ungrouped_partitions []StopReplicaPartitionV0 0
    topic_name string 0
    partition_index int32 0
topics []StopReplicaTopicV1 1-2
    name string 1-2
    partition_indexes []int32 1-2
topic_states []StopReplicaTopicState 3+
    topic_name string 3+
    partition_states []StopReplicaPartitionState 3+
        partition_index int32 3+
        leader_epoch int32 3+
        delete_partition bool 3+
    topic_id uuid 3+ tag=10000
""",
    StopReplicaResponse: """
error_code int16 0+
partition_errors []StopReplicaPartitionError 0+
    topic_name string 0+
    partition_index int32 0+
    error_code int16 0+
""",
    UpdateMetadataRequest: f"""
controller_id int32 0+
is_kraft_controller bool 8+
type int8 8+ tag=0
controller_epoch int32 0+
broker_epoch int64 5+
ungrouped_partition_states []UpdateMetadataPartitionState 0-4
{_METADATA_STATE}
topic_states []UpdateMetadataTopicState 5+
    topic_name string 5+
    topic_id uuid 7+
    partition_states []UpdateMetadataPartitionState 5+
{_METADATA_STATE}
live_brokers []UpdateMetadataBroker 0+
    id int32 0+
    v0_host string 0
    v0_port int32 0
    endpoints []UpdateMetadataEndpoint 1+
        port int32 1+
        host string 1+
        listener string 3+
        security_protocol int16 1+
    rack string 2+ nullable
""",
    UpdateMetadataResponse: "error_code int16 0+",
    ControlledShutdownRequest: """
broker_id int32 0+
broker_epoch int64 2+
""",
    ControlledShutdownResponse: """
error_code int16 0+
remaining_partitions []RemainingPartition 0+
    topic_name string 0+
    partition_index int32 0+
""",
}

_VERSIONED = [(cls, version) for cls in SCHEMAS for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]


@pytest.mark.parametrize(("cls", "version"), _VERSIONED)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_naive_codec_writes_the_same_bytes(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(valid(cls, version))
    expected = reference_encode(parse_schema(SCHEMAS[cls]), message, version, version >= cls.FLEXIBLE_FROM)
    assert encode(message, version) == expected
    assert decode(cls, expected, version) == message


def test_the_versions_and_flexible_versions_are_those_of_kafka_3_9() -> None:
    assert {cls.__name__: (cls.API_KEY, *cls.VERSIONS, cls.FLEXIBLE_FROM) for cls in SCHEMAS} == {
        "LeaderAndIsrRequest": (4, 0, 7, 4),
        "LeaderAndIsrResponse": (4, 0, 7, 4),
        "StopReplicaRequest": (5, 0, 4, 2),
        "StopReplicaResponse": (5, 0, 4, 2),
        "UpdateMetadataRequest": (6, 0, 8, 6),
        "UpdateMetadataResponse": (6, 0, 8, 6),
        "ControlledShutdownRequest": (7, 0, 3, 3),
        "ControlledShutdownResponse": (7, 0, 3, 3),
    }


def test_a_controlled_shutdown_worked_out_by_hand() -> None:
    """Version 3: broker 1 as int32, epoch 2 as int64, no tags; the answer names orders-3."""
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=2)
    assert encode(request, 3) == bytes.fromhex("00000001 0000000000000002 00")
    partitions = [RemainingPartition(topic_name="orders", partition_index=3)]
    answer = ControlledShutdownResponse(error_code=0, remaining_partitions=partitions)
    assert encode(answer, 3) == bytes.fromhex("0000 02 07 6f7264657273 00000003 00 00")
    assert encode(answer, 0) == bytes.fromhex("0000 00000001 0006 6f7264657273 00000003")
