"""Produce (API 0): append record batches to partitions this broker leads.

Served from v3, the first to carry magic-2 batches.  v5 answers the log's start offset; v7 allows zstd; v8 says which
records were refused and why; v9 made it flexible; v10 tells a lost client the new leader; v12 also adds the
partition to a transaction; v13 names topics by id.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, Payload, Records, String, Uuid


@struct
class PartitionProduceData:
    index: int = field(Int32)
    records: Payload | None = field(Records, nullable="0+")


@struct
class TopicProduceData:
    name: str = field(String, "0-12")
    topic_id: bytes = field(Uuid, "13+")
    partition_data: list[PartitionProduceData] = field(Array(PartitionProduceData))


@request(key=0, versions="3-13", flexible="9+")
class ProduceRequest(Request):
    transactional_id: str | None = field(String, nullable="0+")
    acks: int = field(Int16)  # -1: the full ISR, 0: no answer, 1: the leader alone
    timeout_ms: int = field(Int32)
    topic_data: list[TopicProduceData] = field(Array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = field(Int32)
    batch_index_error_message: str | None = field(String, nullable="0+")


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)


@struct
class PartitionProduceResponse:
    index: int = field(Int32)
    error_code: int = field(Int16)
    base_offset: int = field(Int64)
    log_append_time_ms: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(Array(BatchIndexAndErrorMessage), "8+")
    error_message: str | None = field(String, "8+", nullable="8+")
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = field(String, "0-12")
    topic_id: bytes = field(Uuid, "13+")
    partition_responses: list[PartitionProduceResponse] = field(Array(PartitionProduceResponse))


@struct
class NodeEndpoint:
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="0+")


@response(to=ProduceRequest)
class ProduceResponse(Response):
    responses: list[TopicProduceResponse] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(Int32)
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), "10+", tag=0)
