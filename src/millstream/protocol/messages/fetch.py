"""Fetch (API 1): read batches from partitions, as a consumer or as a follower.

v4 brings isolation levels; v5 the log's start offset; v7 incremental sessions; v9 fences by leader epoch; v10 allows
zstd; v11 lets a consumer read from a near replica; v12 is flexible and reports diverging epochs; v13 names topics by
id; v15 moves the replica's id beside its epoch; v16 tells a lost client the new leader; v17 and v18 serve KRaft.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import (
    INT32_MAX,
    INT64_MAX,
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Payload,
    Records,
    String,
    Uuid,
)


@struct
class ReplicaState:
    replica_id: int = field(Int32, default=-1)
    replica_epoch: int = field(Int64, default=-1)


@struct
class FetchPartition:
    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, "9+", default=-1)
    fetch_offset: int = field(Int64)
    last_fetched_epoch: int = field(Int32, "12+", default=-1)
    log_start_offset: int = field(Int64, "5+", default=-1)
    partition_max_bytes: int = field(Int32)
    replica_directory_id: bytes = field(Uuid, "17+", tag=0)
    high_watermark: int = field(Int64, "18+", default=INT64_MAX, tag=1)


@struct
class FetchTopic:
    topic: str = field(String, "0-12")
    topic_id: bytes = field(Uuid, "13+")
    partitions: list[FetchPartition] = field(Array(FetchPartition))


@struct
class ForgottenTopic:
    topic: str = field(String, "7-12")
    topic_id: bytes = field(Uuid, "13+")
    partitions: list[int] = field(Array(Int32))


@request(key=1, versions="4-18", flexible="12+")
class FetchRequest(Request):
    cluster_id: str | None = field(String, "12+", nullable="12+", tag=0)
    replica_id: int = field(Int32, "0-14", default=-1)  # -1: a consumer; from v15 see replica_state
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1)
    max_wait_ms: int = field(Int32)
    min_bytes: int = field(Int32)
    max_bytes: int = field(Int32, default=INT32_MAX)
    isolation_level: int = field(Int8)  # 0: read uncommitted, 1: read committed
    session_id: int = field(Int32, "7+")
    session_epoch: int = field(Int32, "7+", default=-1)
    topics: list[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(Array(ForgottenTopic), "7+")
    rack_id: str = field(String, "11+")


@struct
class EpochEndOffset:
    epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32, default=-1)


@struct
class SnapshotId:
    end_offset: int = field(Int64, default=-1)
    epoch: int = field(Int32, default=-1)


@struct
class AbortedTransaction:
    producer_id: int = field(Int64)
    first_offset: int = field(Int64)


@struct
class PartitionData:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    high_watermark: int = field(Int64)
    last_stable_offset: int = field(Int64, default=-1)
    log_start_offset: int = field(Int64, "5+", default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = field(SnapshotId, "12+", tag=2)
    # None: not asked for.
    aborted_transactions: list[AbortedTransaction] | None = field(Array(AbortedTransaction), nullable="0+")
    preferred_read_replica: int = field(Int32, "11+", default=-1)
    records: Payload | None = field(Records, nullable="0+")


@struct
class FetchableTopicResponse:
    topic: str = field(String, "0-12")
    topic_id: bytes = field(Uuid, "13+")
    partitions: list[PartitionData] = field(Array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = field(Int32)
    host: str = field(String)
    port: int = field(Int32)
    rack: str | None = field(String, nullable="0+")


@response(to=FetchRequest)
class FetchResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16, "7+")
    session_id: int = field(Int32, "7+")
    responses: list[FetchableTopicResponse] = field(Array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), "16+", tag=0)
