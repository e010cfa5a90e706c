"""What an administrator is shown: the cluster, its topics, its groups."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the cluster."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Who is there."""

    id: str
    controller: int | None
    brokers: list[Broker]


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition; ``leader`` is None while it has none."""

    index: int
    leader: int | None
    replicas: list[int]
    in_sync: list[int]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic."""

    name: str
    id: str
    is_internal: bool
    partitions: list[PartitionInfo]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a topic or broker; the value of a sensitive one is None."""

    value: str | None
    source: str
    is_default: bool
    is_read_only: bool


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One consumer group in a list."""

    name: str
    state: str
    type: str


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group, and what it reads."""

    id: str
    instance: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One consumer group."""

    name: str
    state: str
    type: str
    assignor: str
    coordinator: int | None
    members: list[Member]
