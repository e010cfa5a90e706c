"""AddOffsetsToTxn (API 25): a transaction is about to commit a group's offsets.

v3 is flexible; v4 allows a new error.
"""

from millstream.protocol.schema import Request, Response, field, request, response
from millstream.protocol.types import Int16, Int32, Int64, String


@request(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Request):
    transactional_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    group_id: str = field(String)


@response(to=AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
