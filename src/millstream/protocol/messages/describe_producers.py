"""DescribeProducers (API 61): the producers a partition knows, and their open transactions."""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@struct
class TopicRequest:
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@request(key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Request):
    topics: list[TopicRequest] = field(Array(TopicRequest))


@struct
class ProducerState:
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int32)
    last_sequence: int = field(Int32, default=-1)
    last_timestamp: int = field(Int64, default=-1)
    coordinator_epoch: int = field(Int32)
    current_txn_start_offset: int = field(Int64, default=-1)


@struct
class PartitionResponse:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    active_producers: list[ProducerState] = field(Array(ProducerState))


@struct
class TopicResponse:
    name: str = field(String)
    partitions: list[PartitionResponse] = field(Array(PartitionResponse))


@response(to=DescribeProducersRequest)
class DescribeProducersResponse(Response):
    throttle_time_ms: int = field(Int32)
    topics: list[TopicResponse] = field(Array(TopicResponse))
