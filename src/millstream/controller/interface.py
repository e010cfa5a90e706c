"""What passes between the controller and the broker it runs in."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from millstream.model.errors import ErrorCode
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid

#: The client leaves the number of partitions or replicas to the broker's settings.
DEFAULT = -1
#: The leader of a partition that has none.
NO_LEADER = -1
#: The leader that UpdateMetadata names for a partition whose topic is being deleted.
LEADER_DURING_DELETE = -2
#: The leader epoch that StopReplica names for such a partition: above every other.
EPOCH_DURING_DELETE = -2


async def _nothing(*_: object) -> None:
    """There is nothing to catch up with."""


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The broker's settings that the controller obeys."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    #: Which of a broker's endpoints other brokers use; None for the first.
    inter_broker_listener_name: str | None = None
    #: Whether a replica outside the in-sync set may lead this topic when no other can.
    unclean_allowed: Callable[[str], bool] = field(default=lambda topic: False)
    #: How many replicas of this topic must be in sync for anything to be committed; None where its leader's own
    #: setting says it.
    min_in_sync: Callable[[str], int | None] = field(default=lambda topic: None)
    #: The least that leaders were told to go by since they registered; None where they were told nothing.
    min_in_sync_told: Callable[[], int | None] = field(default=lambda: None)
    #: Catches up with every change of settings that was made before the call: who leads is decided by those of the day.
    refresh: Callable[[], Awaitable[None]] = field(default=_nothing)
    #: Reads the settings of these topics, which came into being with them, unannounced.
    load: Callable[[list[str]], Awaitable[None]] = field(default=_nothing)
    #: How often brokers are given back what they should lead; None for never.
    balance_interval_ms: int | None = None
    #: Which part of that others may lead before it is given back.
    imbalance_percentage: int = 10
    #: How long a request that found no answer waits before it is sent again.
    retry_backoff_ms: int = 100


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created, as the client asked; ``assignments`` (partition -> replicas) excludes the counts.

    Whoever gives it an id may ask again: a topic that has this name and this id was created for the same asker.
    """

    name: str
    num_partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic to be widened to ``count`` partitions; ``assignments`` are the new ones' replicas, in order."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of one topic of a request."""

    name: str | None
    topic_id: Uuid = ZERO_UUID
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What became of one partition of a request."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
