"""UpdateMetadata (API 6): the controller tells a broker who is alive and who leads what.

v1 allows several endpoints; v2 adds racks; v3 listeners; v4 offline replicas; v5 the broker epoch, grouped by topic;
v6 is flexible; v7 adds topic ids; v8 says whether the controller is KRaft's.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, Int64, String, Uuid


@struct
class UpdateMetadataPartitionState:
    topic_name: str = field(String, "0-4")
    partition_index: int = field(Int32)
    controller_epoch: int = field(Int32)
    leader: int = field(Int32)
    leader_epoch: int = field(Int32)
    isr: list[int] = field(Array(Int32))
    zk_version: int = field(Int32)  # the version of the partition's node in the registry
    replicas: list[int] = field(Array(Int32))
    offline_replicas: list[int] = field(Array(Int32), "4+")


@struct
class UpdateMetadataTopicState:
    topic_name: str = field(String)
    topic_id: bytes = field(Uuid, "7+")
    partition_states: list[UpdateMetadataPartitionState] = field(Array(UpdateMetadataPartitionState))


@struct
class UpdateMetadataEndpoint:
    port: int = field(Int32)
    host: str = field(String)
    listener: str = field(String, "3+")
    security_protocol: int = field(Int16)


@struct
class UpdateMetadataBroker:
    id: int = field(Int32)
    v0_host: str = field(String, "0")
    v0_port: int = field(Int32, "0")
    endpoints: list[UpdateMetadataEndpoint] = field(Array(UpdateMetadataEndpoint), "1+")
    rack: str | None = field(String, "2+", nullable="2+")


@request(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest(Request):
    controller_id: int = field(Int32)
    is_kraft_controller: bool = field(Bool, "8+")
    type: int = field(Int8, "8+", tag=0)  # 0: unknown, 1: incremental, 2: full
    controller_epoch: int = field(Int32)
    broker_epoch: int = field(Int64, "5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(Array(UpdateMetadataPartitionState), "0-4")
    topic_states: list[UpdateMetadataTopicState] = field(Array(UpdateMetadataTopicState), "5+")
    live_brokers: list[UpdateMetadataBroker] = field(Array(UpdateMetadataBroker))


@response(to=UpdateMetadataRequest)
class UpdateMetadataResponse(Response):
    error_code: int = field(Int16)
