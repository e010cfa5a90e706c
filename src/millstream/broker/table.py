"""The table of routes."""

from millstream.broker.forwarding import by_controller
from millstream.broker.handlers import (
    api_versions,
    configs,
    coordinators,
    fetch,
    groups,
    log_dirs,
    metadata,
    offsets,
    orders,
    produce,
    producers,
    reassignments,
    topics,
    transactions,
)
from millstream.broker.routes import Route, Router
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

#: Everything this broker answers.  ApiVersions is computed from this table, so what we advertise and what we
#: serve cannot drift apart.
ROUTES = Router(
    [
        # librdkafka before 2.11.1 turns compression off where Produce starts at 3.
        Route(ProduceRequest, produce.handle, advertised_from=0),
        Route(FetchRequest, fetch.handle),
        Route(ListOffsetsRequest, offsets.list_offsets),
        Route(MetadataRequest, metadata.metadata),
        Route(LeaderAndIsrRequest, orders.leader_and_isr, is_among_brokers=True),
        Route(StopReplicaRequest, orders.stop_replica, is_among_brokers=True),
        Route(UpdateMetadataRequest, orders.update_metadata, is_among_brokers=True),
        Route(ControlledShutdownRequest, orders.controlled_shutdown, is_among_brokers=True),
        Route(OffsetCommitRequest, groups.commit),
        Route(OffsetFetchRequest, groups.fetch),
        Route(FindCoordinatorRequest, coordinators.find),
        Route(JoinGroupRequest, groups.join),
        Route(HeartbeatRequest, groups.of_one_group),
        Route(LeaveGroupRequest, groups.of_one_group),
        Route(SyncGroupRequest, groups.of_one_group),
        Route(DescribeGroupsRequest, groups.describe),
        Route(ListGroupsRequest, groups.list_groups),
        Route(ApiVersionsRequest, api_versions.handle),
        Route(CreateTopicsRequest, by_controller(topics.create, topics.are_created)),
        Route(DeleteTopicsRequest, by_controller(topics.delete, topics.are_deleted)),
        Route(DeleteRecordsRequest, topics.delete_records),
        Route(InitProducerIdRequest, producers.init_producer_id),
        Route(OffsetForLeaderEpochRequest, offsets.for_leader_epoch),
        Route(AddPartitionsToTxnRequest, transactions.add_partitions),
        Route(AddOffsetsToTxnRequest, transactions.add_offsets),
        Route(EndTxnRequest, transactions.end),
        Route(WriteTxnMarkersRequest, transactions.write_markers),
        Route(TxnOffsetCommitRequest, transactions.commit_offsets),
        Route(DescribeConfigsRequest, configs.describe),
        Route(AlterConfigsRequest, configs.alter),
        Route(AlterReplicaLogDirsRequest, log_dirs.alter),
        Route(DescribeLogDirsRequest, log_dirs.describe),
        Route(CreatePartitionsRequest, by_controller(topics.add_partitions, topics.are_added)),
        Route(DeleteGroupsRequest, groups.delete),
        Route(ElectLeadersRequest, by_controller(reassignments.elect)),
        Route(AlterPartitionReassignmentsRequest, by_controller(reassignments.alter)),
        Route(ListPartitionReassignmentsRequest, by_controller(reassignments.list_all)),
        Route(IncrementalAlterConfigsRequest, configs.incremental_alter),
        Route(AlterPartitionRequest, orders.alter_partition, is_among_brokers=True),
        Route(DescribeClusterRequest, metadata.cluster),
        Route(DescribeProducersRequest, producers.describe_producers),
        Route(DescribeTransactionsRequest, transactions.describe),
        Route(ListTransactionsRequest, transactions.list_all),
        Route(OffsetDeleteRequest, groups.of_one_group),
        Route(ConsumerGroupHeartbeatRequest, groups.consumer_heartbeat),
        Route(ConsumerGroupDescribeRequest, groups.describe_consumer),
        Route(DescribeTopicPartitionsRequest, metadata.topic_partitions),
    ]
)
