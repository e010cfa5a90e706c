"""AlterReplicaLogDirs (API 34): move a broker's replicas between its log directories.

v2 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String


@struct
class AlterReplicaLogDirTopic:
    name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class AlterReplicaLogDir:
    path: str = field(String)
    topics: list[AlterReplicaLogDirTopic] = field(Array(AlterReplicaLogDirTopic))


@request(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest(Request):
    dirs: list[AlterReplicaLogDir] = field(Array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = field(String)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(Array(AlterReplicaLogDirPartitionResult))


@response(to=AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: int = field(Int32)
    results: list[AlterReplicaLogDirTopicResult] = field(Array(AlterReplicaLogDirTopicResult))
