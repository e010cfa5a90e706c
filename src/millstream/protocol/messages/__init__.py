"""Every message we speak, one file for each API.  ``REQUESTS`` finds a request, and through it its response, by key."""

from millstream.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from millstream.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from millstream.protocol.messages.alter_configs import AlterConfigsRequest
from millstream.protocol.messages.alter_partition import AlterPartitionRequest
from millstream.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from millstream.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from millstream.protocol.messages.api_versions import ApiVersionsRequest
from millstream.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from millstream.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millstream.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from millstream.protocol.messages.create_partitions import CreatePartitionsRequest
from millstream.protocol.messages.create_topics import CreateTopicsRequest
from millstream.protocol.messages.delete_groups import DeleteGroupsRequest
from millstream.protocol.messages.delete_records import DeleteRecordsRequest
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest
from millstream.protocol.messages.describe_cluster import DescribeClusterRequest
from millstream.protocol.messages.describe_configs import DescribeConfigsRequest
from millstream.protocol.messages.describe_groups import DescribeGroupsRequest
from millstream.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from millstream.protocol.messages.describe_producers import DescribeProducersRequest
from millstream.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from millstream.protocol.messages.describe_transactions import DescribeTransactionsRequest
from millstream.protocol.messages.elect_leaders import ElectLeadersRequest
from millstream.protocol.messages.end_txn import EndTxnRequest
from millstream.protocol.messages.fetch import FetchRequest
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest
from millstream.protocol.messages.join_group import JoinGroupRequest
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from millstream.protocol.messages.leave_group import LeaveGroupRequest
from millstream.protocol.messages.list_groups import ListGroupsRequest
from millstream.protocol.messages.list_offsets import ListOffsetsRequest
from millstream.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from millstream.protocol.messages.list_transactions import ListTransactionsRequest
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.messages.offset_commit import OffsetCommitRequest
from millstream.protocol.messages.offset_delete import OffsetDeleteRequest
from millstream.protocol.messages.offset_fetch import OffsetFetchRequest
from millstream.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from millstream.protocol.messages.produce import ProduceRequest
from millstream.protocol.messages.stop_replica import StopReplicaRequest
from millstream.protocol.messages.sync_group import SyncGroupRequest
from millstream.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest
from millstream.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from millstream.protocol.schema import Request

#: Every request by its API key.
REQUESTS: dict[int, type[Request]] = {
    each.API_KEY: each
    for each in (
        ProduceRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        LeaderAndIsrRequest,
        StopReplicaRequest,
        UpdateMetadataRequest,
        ControlledShutdownRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        EndTxnRequest,
        WriteTxnMarkersRequest,
        TxnOffsetCommitRequest,
        DescribeConfigsRequest,
        AlterConfigsRequest,
        AlterReplicaLogDirsRequest,
        DescribeLogDirsRequest,
        CreatePartitionsRequest,
        DeleteGroupsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        AlterPartitionReassignmentsRequest,
        ListPartitionReassignmentsRequest,
        OffsetDeleteRequest,
        AlterPartitionRequest,
        DescribeClusterRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupDescribeRequest,
        DescribeTopicPartitionsRequest,
    )
}
