"""What every client must be able to do, said once, so that each behaviour is one test over all of them.

A driver is a thin coat over one real client. It hides spelling, never behaviour: no retries of its own, no second
client behind the first one's back. What a client cannot do, its driver does not define, and no test asks for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import ClassVar, Self

#: Kafka's own numbers for places in a log, as ListOffsets takes them.
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
NO_ACKS, LEADER_ACKS, ALL_ACKS = 0, 1, -1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_S = 20.0

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """What a producer is given; a timestamp of None leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Received:
    """What a consumer handed out."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int

    def same_as(self, sent: Record) -> bool:
        same_time = sent.timestamp_ms is None or sent.timestamp_ms == self.timestamp_ms
        return same_time and (self.key, self.value, self.headers) == (sent.key, sent.value, sent.headers)


@dataclass(frozen=True)
class At:
    """Start reading at the first record with this timestamp or a later one."""

    timestamp_ms: int


Start = int | At


@dataclass(frozen=True)
class Partition:
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Cluster:
    cluster_id: str | None
    controller: int
    brokers: Mapping[int, str] = field(hash=False)  # id -> host:port


@dataclass(frozen=True)
class Group:
    state: str  # as Kafka spells it: Stable, Empty, …
    assignor: str
    members: int


class Refused(Exception):
    """The broker's answer was an error code, as the client reported it."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code


class Reader(AbstractContextManager["Reader"]):
    """A consumer of one partition that stands where it was asked to start by the time it is handed out."""

    def poll(self, timeout_s: float) -> list[Received]:
        """What came first within this time, in order; nothing when nothing came."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def take(self, count: int, timeout_s: float = WAIT_S) -> list[Received]:
        """The next ``count`` records and not one more, or a failure that shows what came."""
        taken: list[Received] = []
        deadline = time.monotonic() + timeout_s
        while len(taken) < count and (left_s := deadline - time.monotonic()) > 0:
            taken += self.poll(left_s)
        assert len(taken) == count, f"wanted {count} records, got {len(taken)}: {taken[:20]}"
        return taken

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Driver:
    """One client against one broker, for a whole session. Calls raise ``Refused`` when the broker refuses."""

    name: ClassVar[str]
    #: What the client can write and read.
    codecs: ClassVar[tuple[str, ...]] = CODECS
    #: Whether a record's timestamp can be given.
    sets_timestamps: ClassVar[bool] = True
    #: Whether the application is told where each record went.
    tells_offsets: ClassVar[bool] = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @classmethod
    def missing(cls) -> str | None:
        """Why this client cannot run on this machine, or None when it can."""
        return None

    @classmethod
    def can(cls, *calls: str) -> bool:
        """Whether this client offers every one of these calls."""
        return all(getattr(cls, call) is not getattr(Driver, call) for call in calls)

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = ALL_ACKS,
        idempotent: bool = False,
    ) -> list[int]:
        """Send them all, wait for every answer, return their offsets (-1 where the client is not told)."""
        raise NotImplementedError

    def read(self, topic: str, start: Start, *, partition: int = 0) -> Reader:
        """Read by assignment, never through a group. A start out of range is refused, never reset."""
        raise NotImplementedError

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        """The offset ListOffsets gives for a timestamp or for LATEST, EARLIEST, MAX_TIMESTAMP; -1 for none."""
        raise NotImplementedError

    def max_timestamp_offset(self, topic: str) -> int:
        """The offset of the record with the highest timestamp: for the clients that know to ask."""
        raise NotImplementedError

    def create_topic(
        self, topic: str, *, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def create_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        """Remove the records before this offset (LATEST: all); the new start of the log."""
        raise NotImplementedError

    def list_topics(self) -> set[str]:
        raise NotImplementedError

    def describe_topic(self, topic: str) -> list[Partition]:
        raise NotImplementedError

    def describe_cluster(self) -> Cluster:
        raise NotImplementedError

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        """Bytes on disk of each partition."""
        raise NotImplementedError

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        raise NotImplementedError

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        raise NotImplementedError

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set these and leave the rest (IncrementalAlterConfigs); None takes a setting back to its default."""
        raise NotImplementedError

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set these and take all others back to their defaults (AlterConfigs)."""
        raise NotImplementedError

    def list_groups(self) -> set[str]:
        raise NotImplementedError

    def describe_group(self, group: str) -> Group:
        raise NotImplementedError

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """The offset committed for each partition that has one."""
        raise NotImplementedError

    def set_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        raise NotImplementedError

    def delete_group(self, group: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections, threads and processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
