"""ElectLeaders (API 43): have preferred replicas lead again, or any replica where none in sync is left.

v1 names the kind of election, and has an error for the whole; v2 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int8, Int16, Int32, String


@struct
class TopicPartitions:
    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@request(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest(Request):
    election_type: int = field(Int8, "1+")  # 0: the preferred replica; 1: any live one.
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), nullable="0+")  # None: all of them.
    timeout_ms: int = field(Int32, default=60_000)


@struct
class PartitionResult:
    partition_id: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")


@struct
class ReplicaElectionResult:
    topic: str = field(String)
    partition_result: list[PartitionResult] = field(Array(PartitionResult))


@response(to=ElectLeadersRequest)
class ElectLeadersResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, "1+")
    replica_election_results: list[ReplicaElectionResult] = field(Array(ReplicaElectionResult))
