"""StopReplica (API 5): the controller tells a broker to stop replicas, and perhaps to delete them.

v1 adds the broker epoch and groups by topic; v2 is flexible; v3 adds leader epochs and decides deletion for each
partition; v4 says whether the controller is KRaft's.  Ours alone is ``topic_id``: a topic that has its name since is
not meant.
"""

from millstream.protocol.schema import OWN_TAGS, Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, Int64, String, Uuid


@struct
class StopReplicaPartitionV0:
    topic_name: str = field(String, "0")
    partition_index: int = field(Int32, "0")


@struct
class StopReplicaTopicV1:
    name: str = field(String, "1-2")
    partition_indexes: list[int] = field(Array(Int32), "1-2")


@struct
class StopReplicaPartitionState:
    partition_index: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    delete_partition: bool = field(Bool)


@struct
class StopReplicaTopicState:
    topic_name: str = field(String)
    partition_states: list[StopReplicaPartitionState] = field(Array(StopReplicaPartitionState))
    topic_id: bytes = field(Uuid, "3+", tag=OWN_TAGS)


@request(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest(Request):
    controller_id: int = field(Int32)
    is_kraft_controller: bool = field(Bool, "4+")
    controller_epoch: int = field(Int32)
    broker_epoch: int = field(Int64, "1+", default=-1)
    delete_partitions: bool = field(Bool, "0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = field(Array(StopReplicaPartitionV0), "0")
    topics: list[StopReplicaTopicV1] = field(Array(StopReplicaTopicV1), "1-2")
    topic_states: list[StopReplicaTopicState] = field(Array(StopReplicaTopicState), "3+")


@struct
class StopReplicaPartitionError:
    topic_name: str = field(String)
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@response(to=StopReplicaRequest)
class StopReplicaResponse(Response):
    error_code: int = field(Int16)
    partition_errors: list[StopReplicaPartitionError] = field(Array(StopReplicaPartitionError))
