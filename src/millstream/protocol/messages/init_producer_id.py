"""InitProducerId (API 22): a producer's id and epoch, for idempotence and transactions.

v2 is flexible; v3 lets a producer come back with the id it had; v4 and v5 allow new errors; v6 brings two-phase
commit.
"""

from millstream.protocol.schema import Request, Response, field, request, response
from millstream.protocol.types import Bool, Int16, Int32, Int64, String


@request(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Request):
    transactional_id: str | None = field(String, nullable="0+")
    transaction_timeout_ms: int = field(Int32)
    producer_id: int = field(Int64, "3+", default=-1)
    producer_epoch: int = field(Int16, "3+", default=-1)
    enable_2pc: bool = field(Bool, "6+")
    keep_prepared_txn: bool = field(Bool, "6+")


@response(to=InitProducerIdRequest)
class InitProducerIdResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    producer_id: int = field(Int64, default=-1)
    producer_epoch: int = field(Int16)
    ongoing_txn_producer_id: int = field(Int64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = field(Int16, "6+", default=-1)
