"""AlterPartition (API 56): a leader asks the controller to change the ISR.  Flexible from the start.

v2 names topics by id; v3 carries each replica's broker epoch, so that a stale one cannot join.  Ours alone are
``min_in_sync``: how many must be in sync for the leader to commit anything, as it has heard; and
``eligible_replicas``: who may lead besides those in sync, for as long as nothing is committed.
"""

from millstream.protocol.schema import OWN_TAGS, Request, Response, field, request, response, struct
from millstream.protocol.types import INT32_MAX, Array, Int8, Int16, Int32, Int64, Uuid


@struct
class BrokerState:
    broker_id: int = field(Int32)
    broker_epoch: int = field(Int64, default=-1)


@struct
class AlterPartitionPartition:
    partition_index: int = field(Int32)
    leader_epoch: int = field(Int32)
    new_isr: list[int] = field(Array(Int32), "0-2")
    new_isr_with_epochs: list[BrokerState] = field(Array(BrokerState), "3+")
    leader_recovery_state: int = field(Int8)  # 0: recovered, 1: elected uncleanly
    partition_epoch: int = field(Int32)
    min_in_sync: int = field(Int32, default=INT32_MAX, tag=OWN_TAGS)


@struct
class AlterPartitionTopic:
    topic_id: bytes = field(Uuid)
    partitions: list[AlterPartitionPartition] = field(Array(AlterPartitionPartition))


@request(key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest(Request):
    broker_id: int = field(Int32)
    broker_epoch: int = field(Int64, default=-1)
    topics: list[AlterPartitionTopic] = field(Array(AlterPartitionTopic))


@struct
class AlterPartitionPartitionResult:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32)
    isr: list[int] = field(Array(Int32))
    leader_recovery_state: int = field(Int8)  # 0: recovered, 1: elected uncleanly
    partition_epoch: int = field(Int32)
    eligible_replicas: list[int] = field(Array(Int32), tag=OWN_TAGS)


@struct
class AlterPartitionTopicResult:
    topic_id: bytes = field(Uuid)
    partitions: list[AlterPartitionPartitionResult] = field(Array(AlterPartitionPartitionResult))


@response(to=AlterPartitionRequest)
class AlterPartitionResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    topics: list[AlterPartitionTopicResult] = field(Array(AlterPartitionTopicResult))
