"""ControlledShutdown (API 7): a broker about to stop asks the controller to move its leaderships away.

v0 has a request header without client id; v2 adds the broker epoch; v3 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@request(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest(Request):
    broker_id: int = field(Int32)
    broker_epoch: int = field(Int64, "2+", default=-1)


@struct
class RemainingPartition:
    topic_name: str = field(String)
    partition_index: int = field(Int32)


@response(to=ControlledShutdownRequest)
class ControlledShutdownResponse(Response):
    error_code: int = field(Int16)
    remaining_partitions: list[RemainingPartition] = field(Array(RemainingPartition))
