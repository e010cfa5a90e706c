"""EndTxn (API 26): commit or abort a transaction.

v3 is flexible; v4 allows a new error; v5 answers the producer's id and epoch for its next transaction.
"""

from millstream.protocol.schema import Request, Response, field, request, response
from millstream.protocol.types import Bool, Int16, Int32, Int64, String


@request(key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Request):
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    committed: bool = field(Bool)  # False: abort


@response(to=EndTxnRequest)
class EndTxnResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    producer_id: int = field(Int64, "5+", default=-1)
    producer_epoch: int = field(Int16, "5+", default=-1)
