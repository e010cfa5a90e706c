"""WriteTxnMarkers (API 27): a transaction's coordinator has leaders write its outcome.

v1 is flexible; v2 says under which version of transactions the marker is written.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, Int64, String


@struct
class WritableTxnMarkerTopic:
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@struct
class WritableTxnMarker:
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    transaction_result: bool = field(Bool)  # True: committed
    topics: list[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(Int32)
    transaction_version: int = field(Int8, "2+")


@request(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Request):
    markers: list[WritableTxnMarker] = field(Array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class WritableTxnMarkerTopicResult:
    name: str = field(String)
    partitions: list[WritableTxnMarkerPartitionResult] = field(Array(WritableTxnMarkerPartitionResult))


@struct
class WritableTxnMarkerResult:
    producer_id: int = field(Int64)
    topics: list[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult))


@response(to=WriteTxnMarkersRequest)
class WriteTxnMarkersResponse(Response):
    markers: list[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult))
