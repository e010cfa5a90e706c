"""AddPartitionsToTxn (API 24): partitions a transaction is about to write to.

v3 is flexible; from v4 brokers ask, for several transactions at once, or only whether a partition is in one; v5
allows a new error.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, Int64, String


@struct
class AddPartitionsToTxnTopic:
    name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = field(String, "4+")
    producer_id: int = field(Int64, "4+")
    producer_epoch: int = field(Int16, "4+")
    verify_only: bool = field(Bool, "4+")
    topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), "4+")


@request(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Request):
    transactions: list[AddPartitionsToTxnTransaction] = field(Array(AddPartitionsToTxnTransaction), "4+")
    v3_and_below_transactional_id: str = field(String, "0-3")
    v3_and_below_producer_id: int = field(Int64, "0-3")
    v3_and_below_producer_epoch: int = field(Int16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), "0-3")


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = field(Int32)
    partition_error_code: int = field(Int16)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = field(String)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(Array(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = field(String, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(Array(AddPartitionsToTxnTopicResult), "4+")


@response(to=AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field(Array(AddPartitionsToTxnResult), "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), "0-3"
    )
