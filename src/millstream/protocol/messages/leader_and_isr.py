"""LeaderAndIsr (API 4): the controller tells a broker which partitions it leads and which it follows.

v1 marks new partitions; v2 adds the broker epoch and groups by topic; v3 lists replicas being added and removed; v4 is
flexible; v5 adds topic ids; v6 tells an unclean election; v7 says whether the controller is KRaft's.  Ours alone is
``eligible_replicas``: who may lead without being in sync, for nothing was committed since it was.
"""

from millstream.protocol.schema import OWN_TAGS, Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, Int64, String, Uuid


@struct
class LeaderAndIsrPartitionState:
    topic_name: str = field(String, "0-1")
    partition_index: int = field(Int32)
    controller_epoch: int = field(Int32)
    leader: int = field(Int32)
    leader_epoch: int = field(Int32)
    isr: list[int] = field(Array(Int32))
    partition_epoch: int = field(Int32)  # the version of the partition's node in the registry
    replicas: list[int] = field(Array(Int32))
    adding_replicas: list[int] = field(Array(Int32), "3+")
    removing_replicas: list[int] = field(Array(Int32), "3+")
    is_new: bool = field(Bool, "1+")
    leader_recovery_state: int = field(Int8, "6+")  # 0: recovered, 1: elected uncleanly
    eligible_replicas: list[int] = field(Array(Int32), "4+", tag=OWN_TAGS)


@struct
class LeaderAndIsrTopicState:
    topic_name: str = field(String)
    topic_id: bytes = field(Uuid, "5+")
    partition_states: list[LeaderAndIsrPartitionState] = field(Array(LeaderAndIsrPartitionState))


@struct
class LeaderAndIsrLiveLeader:
    broker_id: int = field(Int32)
    host_name: str = field(String)
    port: int = field(Int32)


@request(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest(Request):
    controller_id: int = field(Int32)
    is_kraft_controller: bool = field(Bool, "7+")
    controller_epoch: int = field(Int32)
    broker_epoch: int = field(Int64, "2+", default=-1)
    type: int = field(Int8, "5+")  # 0: unknown, 1: incremental, 2: full
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field(Array(LeaderAndIsrPartitionState), "0-1")
    topic_states: list[LeaderAndIsrTopicState] = field(Array(LeaderAndIsrTopicState), "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = field(Array(LeaderAndIsrLiveLeader))


@struct
class LeaderAndIsrPartitionError:
    topic_name: str = field(String, "0-4")
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class LeaderAndIsrTopicError:
    topic_id: bytes = field(Uuid)
    partition_errors: list[LeaderAndIsrPartitionError] = field(Array(LeaderAndIsrPartitionError))


@response(to=LeaderAndIsrRequest)
class LeaderAndIsrResponse(Response):
    error_code: int = field(Int16)
    partition_errors: list[LeaderAndIsrPartitionError] = field(Array(LeaderAndIsrPartitionError), "0-4")
    topics: list[LeaderAndIsrTopicError] = field(Array(LeaderAndIsrTopicError), "5+")
