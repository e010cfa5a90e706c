"""DescribeTransactions (API 65): where transactions stand."""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@request(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Request):
    transactional_ids: list[str] = field(Array(String))


@struct
class TopicData:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class TransactionState:
    error_code: int = field(Int16)
    transactional_id: str = field(String)
    transaction_state: str = field(String)
    transaction_timeout_ms: int = field(Int32)
    transaction_start_time_ms: int = field(Int64)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    topics: list[TopicData] = field(Array(TopicData))


@response(to=DescribeTransactionsRequest)
class DescribeTransactionsResponse(Response):
    throttle_time_ms: int = field(Int32)
    transaction_states: list[TransactionState] = field(Array(TransactionState))
