"""CreateTopics (API 19): make topics, with partitions placed by the broker or by the caller.

v4 makes the counts optional; v5 is flexible and answers the configs; v6 may be throttled; v7 answers the topic id.
"""

from millstream.protocol.schema import OWN_TAGS, Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, String, Uuid


@struct
class CreatableReplicaAssignment:
    partition_index: int = field(Int32)
    broker_ids: list[int] = field(Array(Int32))


@struct
class CreatableTopicConfig:
    name: str = field(String)
    value: str | None = field(String, nullable="0+")


@struct
class CreatableTopic:
    name: str = field(String)
    num_partitions: int = field(Int32)  # -1: as assigned, or the broker's default
    replication_factor: int = field(Int16)  # -1: as assigned, or the broker's default
    assignments: list[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(Array(CreatableTopicConfig))
    # Ours: the id that a broker chose which passes this on, so that it is known again when an answer was lost.
    chosen_id: bytes = field(Uuid, "5+", tag=OWN_TAGS)


@request(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Request):
    topics: list[CreatableTopic] = field(Array(CreatableTopic))
    timeout_ms: int = field(Int32, default=60000)
    validate_only: bool = field(Bool)


@struct
class CreatableTopicConfigs:
    name: str = field(String)
    value: str | None = field(String, nullable="0+")
    read_only: bool = field(Bool)
    config_source: int = field(Int8, default=-1)
    is_sensitive: bool = field(Bool)


@struct
class CreatableTopicResult:
    name: str = field(String)
    topic_id: bytes = field(Uuid, "7+")
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    topic_config_error_code: int = field(Int16, "5+", tag=0)  # set when the configs below may not be seen
    num_partitions: int = field(Int32, "5+", default=-1)
    replication_factor: int = field(Int16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field(Array(CreatableTopicConfigs), "5+", nullable="5+")


@response(to=CreateTopicsRequest)
class CreateTopicsResponse(Response):
    throttle_time_ms: int = field(Int32)
    topics: list[CreatableTopicResult] = field(Array(CreatableTopicResult))
