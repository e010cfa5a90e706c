"""ListTransactions (API 66): the transactional ids a broker coordinates.

v1 filters by age; v2 by a pattern.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@request(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Request):
    state_filters: list[str] = field(Array(String))
    producer_id_filters: list[int] = field(Array(Int64))
    duration_filter: int = field(Int64, "1+", default=-1)  # in ms; -1: of any age
    transactional_id_pattern: str | None = field(String, "2+", nullable="2+")


@struct
class TransactionState:
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    transaction_state: str = field(String)


@response(to=ListTransactionsRequest)
class ListTransactionsResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    unknown_state_filters: list[str] = field(Array(String))
    transaction_states: list[TransactionState] = field(Array(TransactionState))
