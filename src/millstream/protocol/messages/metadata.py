"""Metadata (API 3): which brokers there are, and who leads which partition.

v1 names the controller and marks internal topics; v2 adds the cluster id; v4 lets the client forbid auto-creation; v5
lists offline replicas; v7 adds leader epochs; v8 to v10 authorized operations of the cluster, v8 on those of topics;
v9 is flexible; v10 adds topic ids and v12 answers questions by id; v13 has an error of its own.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import NOT_ASKED, Array, Bool, Int16, Int32, String, Uuid


@struct
class MetadataRequestTopic:
    topic_id: bytes = field(Uuid, "10+")
    name: str | None = field(String, nullable="10+")


@request(key=3, versions="0-13", flexible="9+")
class MetadataRequest(Request):
    # topics: None: all of them; at v0 an empty list says so
    topics: list[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(Bool, "4+", default=True)
    include_cluster_authorized_operations: bool = field(Bool, "8-10")
    include_topic_authorized_operations: bool = field(Bool, "8+")


@struct
class MetadataResponseBroker:
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, "1+", nullable="1+")


@struct
class MetadataResponsePartition:
    error_code: int = field(Int16)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, "7+", default=-1)
    replica_nodes: list[int] = field(Array(Int32))
    isr_nodes: list[int] = field(Array(Int32))
    offline_replicas: list[int] = field(Array(Int32), "5+")


@struct
class MetadataResponseTopic:
    error_code: int = field(Int16)
    name: str | None = field(String, nullable="12+")
    topic_id: bytes = field(Uuid, "10+")
    is_internal: bool = field(Bool, "1+")
    partitions: list[MetadataResponsePartition] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(Int32, "8+", default=NOT_ASKED)


@response(to=MetadataRequest)
class MetadataResponse(Response):
    throttle_time_ms: int = field(Int32, "3+")
    brokers: list[MetadataResponseBroker] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(String, "2+", nullable="2+")
    controller_id: int = field(Int32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = field(Array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(Int32, "8-10", default=NOT_ASKED)
    error_code: int = field(Int16, "13+")
