"""DescribeLogDirs (API 35): the log directories of a broker and what lies in them.

v2 is flexible; v3 has an error of its own; v4 adds the volume's size; v5 says which directories take nothing new.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, Int64, String


@struct
class DescribableLogDirTopic:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@request(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest(Request):
    # topics: None: all of them
    topics: list[DescribableLogDirTopic] | None = field(Array(DescribableLogDirTopic), nullable="0+")


@struct
class DescribeLogDirsPartition:
    partition_index: int = field(Int32)
    partition_size: int = field(Int64)
    offset_lag: int = field(Int64)
    is_future_key: bool = field(Bool)


@struct
class DescribeLogDirsTopic:
    name: str = field(String)
    partitions: list[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    error_code: int = field(Int16)
    log_dir: str = field(String)
    topics: list[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic))
    total_bytes: int = field(Int64, "4+", default=-1)
    usable_bytes: int = field(Int64, "4+", default=-1)
    is_cordoned: bool = field(Bool, "5+")


@response(to=DescribeLogDirsRequest)
class DescribeLogDirsResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, "3+")
    results: list[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult))
