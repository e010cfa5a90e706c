"""Every message we speak, one file for each API.  ``REQUESTS`` finds a request, and through it its response, by key."""

from millstream.protocol.messages.alter_configs import AlterConfigsRequest
from millstream.protocol.messages.alter_partition import AlterPartitionRequest
from millstream.protocol.messages.api_versions import ApiVersionsRequest
from millstream.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from millstream.protocol.messages.create_partitions import CreatePartitionsRequest
from millstream.protocol.messages.create_topics import CreateTopicsRequest
from millstream.protocol.messages.delete_records import DeleteRecordsRequest
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest
from millstream.protocol.messages.describe_cluster import DescribeClusterRequest
from millstream.protocol.messages.describe_configs import DescribeConfigsRequest
from millstream.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from millstream.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from millstream.protocol.messages.fetch import FetchRequest
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest
from millstream.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from millstream.protocol.messages.list_offsets import ListOffsetsRequest
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from millstream.protocol.messages.produce import ProduceRequest
from millstream.protocol.messages.stop_replica import StopReplicaRequest
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest
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
        FindCoordinatorRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        DescribeConfigsRequest,
        AlterConfigsRequest,
        DescribeLogDirsRequest,
        CreatePartitionsRequest,
        IncrementalAlterConfigsRequest,
        AlterPartitionRequest,
        DescribeClusterRequest,
        DescribeTopicPartitionsRequest,
    )
}
