"""DescribeCluster (API 60): the brokers, the controller and the cluster's id.  Flexible from the start.

v1 can ask for controllers; v2 for fenced brokers too.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import NOT_ASKED, Array, Bool, Int8, Int16, Int32, String


@request(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Request):
    include_cluster_authorized_operations: bool = field(Bool)
    endpoint_type: int = field(Int8, "1+", default=1)  # 1: brokers, 2: controllers
    include_fenced_brokers: bool = field(Bool, "2+")


@struct
class DescribeClusterBroker:
    broker_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="0+")
    is_fenced: bool = field(Bool, "2+")


@response(to=DescribeClusterRequest)
class DescribeClusterResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    endpoint_type: int = field(Int8, "1+", default=1)
    cluster_id: str = field(String)
    controller_id: int = field(Int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(Int32, default=NOT_ASKED)
