"""DeleteRecords (API 21): forget what lies before an offset.

v2 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@struct
class DeleteRecordsPartition:
    partition_index: int = field(Int32)
    offset: int = field(Int64)  # the first to keep; -1: the high watermark


@struct
class DeleteRecordsTopic:
    name: str = field(String)
    partitions: list[DeleteRecordsPartition] = field(Array(DeleteRecordsPartition))


@request(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Request):
    topics: list[DeleteRecordsTopic] = field(Array(DeleteRecordsTopic))
    timeout_ms: int = field(Int32)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = field(Int32)
    low_watermark: int = field(Int64)
    error_code: int = field(Int16)


@struct
class DeleteRecordsTopicResult:
    name: str = field(String)
    partitions: list[DeleteRecordsPartitionResult] = field(Array(DeleteRecordsPartitionResult))


@response(to=DeleteRecordsRequest)
class DeleteRecordsResponse(Response):
    throttle_time_ms: int = field(Int32)
    topics: list[DeleteRecordsTopicResult] = field(Array(DeleteRecordsTopicResult))
