"""Looking after a cluster: its topics, their settings and records, and its consumer groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import (
    OFFSET_END,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as WirePartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Its typing forgets to export them.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from millstream.client.application import arguments, open_transactions
from millstream.client.application.committed import committed
from millstream.client.application.errors import BadUse, Refused, TopicExists, UnknownGroup, UnknownTopic, translated
from millstream.client.application.open_transactions import TransactionInfo
from millstream.client.application.reach import asked, waited
from millstream.client.application.settings import made, merged
from millstream.client.application.start import Start, checked, moment_ms
from millstream.client.application.topics import (
    Broker,
    ClusterInfo,
    GroupInfo,
    GroupSummary,
    Member,
    PartitionInfo,
    Setting,
    TopicInfo,
)
from millstream.client.application.unread import first_unread
from millstream.model.ids import TopicPartition

TIMEOUT_S = 30.0
#: What a broker answers that does not coordinate the group yet, or no longer does.
MOVING = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
AGAIN_AFTER_S = 0.1
#: Leaves a count to the broker's settings.
BROKER_DEFAULT = -1
Answer = TypeVar("Answer")
READ_COMMITTED, READ_UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


class Admin:
    """Asks a cluster and changes it; every call waits for its answer, at most ``timeout_s``."""

    def __init__(
        self, bootstrap: str | None = None, *, timeout_s: float = TIMEOUT_S, config: Mapping[str, Any] | None = None
    ) -> None:
        settings = merged(bootstrap, {}, {}, config)
        self._settings = settings
        self._bootstrap = str(settings["bootstrap.servers"])
        self._wire: Any = made(AdminClient, settings)
        self._timeout_s = timeout_s
        self._is_closed = False

    # The cluster

    def cluster(self) -> ClusterInfo:
        """The cluster's id, its controller and its brokers."""
        found = self._ask("asking for the cluster", self._client.describe_cluster(request_timeout=self._timeout_s))
        brokers = [Broker(node.id, node.host, node.port, node.rack) for node in found.nodes]
        controller = found.controller.id if found.controller is not None else None
        return ClusterInfo(found.cluster_id, controller, sorted(brokers, key=lambda broker: broker.id))

    # Topics

    def topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, Kafka's internal ones only if asked for."""
        wire = self._client
        found = asked(
            self._bootstrap,
            self._timeout_s,
            lambda left_s: wire.list_topics(timeout=left_s).topics,
            "asking for the topics",
        )
        return sorted(name for name in found if internal or not name.startswith("__"))

    def describe_topic(self, name: str) -> TopicInfo:
        """A topic's partitions, with their leaders and replicas."""
        arguments.name("topic", name)
        asked = self._client.describe_topics(TopicCollection([name]), request_timeout=self._timeout_s)
        found = self._ask(f"describing topic {name!r}", asked[name])
        partitions = [
            PartitionInfo(
                index=row.id,
                leader=row.leader.id if row.leader is not None and row.leader.id >= 0 else None,
                replicas=[node.id for node in row.replicas],
                in_sync=[node.id for node in row.isr],
            )
            for row in found.partitions
        ]
        return TopicInfo(found.name, _id_text(found.topic_id), found.is_internal, partitions)

    def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        *,
        replicas: int = BROKER_DEFAULT,
        config: Mapping[str, str | int] | None = None,
        exist_ok: bool = False,
    ) -> bool:
        """Make a topic; False when it was there and ``exist_ok``.  Settings are Kafka's, as ``retention.ms``."""
        arguments.name("topic", name)
        for what, given in (("partitions", partitions), ("replicas", replicas)):
            if given != BROKER_DEFAULT:
                arguments.count(what, given, 1)
        settings = {key: str(value) for key, value in (config or {}).items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=settings)
        asked = self._client.create_topics([new], request_timeout=self._timeout_s)
        try:
            self._ask(f"creating topic {name!r}", asked[name])
        except TopicExists:
            if not exist_ok:
                raise
            return False
        return True

    def delete_topic(self, name: str, *, missing_ok: bool = False) -> bool:
        """Delete a topic and its records; False when there was none and ``missing_ok``."""
        arguments.name("topic", name)
        asked = self._client.delete_topics([name], request_timeout=self._timeout_s)
        try:
            self._ask(f"deleting topic {name!r}", asked[name])
        except UnknownTopic:
            if not missing_ok:
                raise
            return False
        return True

    def add_partitions(self, name: str, total: int) -> None:
        """Let a topic have so many partitions in all; keys may go to other partitions from then on."""
        arguments.count("total", total, 1)
        arguments.name("topic", name)
        asked = self._client.create_partitions([NewPartitions(name, total)], request_timeout=self._timeout_s)
        self._ask(f"adding partitions to {name!r}", asked[name])

    # Settings

    def topic_config(self, name: str) -> dict[str, Setting]:
        """Every setting of a topic, by name."""
        return self._config(ConfigResource.Type.TOPIC, name)

    def set_topic_config(self, name: str, changes: Mapping[str, str | int | None]) -> None:
        """Change some settings of a topic and leave the others; None takes one back to its default."""
        self._set_config(ConfigResource.Type.TOPIC, name, changes)

    def broker_config(self, broker: int) -> dict[str, Setting]:
        """Every setting of a broker, by name."""
        return self._config(ConfigResource.Type.BROKER, str(broker))

    def set_broker_config(self, broker: int, changes: Mapping[str, str | int | None]) -> None:
        """The same for a broker, as far as its settings can be changed while it runs."""
        self._set_config(ConfigResource.Type.BROKER, str(broker), changes)

    # Records

    def offsets(self, topic: str, at: Start = "latest") -> dict[TopicPartition, int]:
        """Offsets of every partition: its first, the one to come, or the first at or after a time (else the end)."""
        indexes = [row.index for row in self.describe_topic(topic).partitions]
        return self._offsets([TopicPartition(topic, index) for index in indexes], at)

    def delete_records(self, before: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        """Delete what lies before an offset (None: everything) in each partition; where each now starts."""
        for tp in before:
            arguments.name("topic", tp.topic)
        wanted = [WirePartition(*tp, OFFSET_END if offset is None else offset) for tp, offset in before.items()]
        asked = self._client.delete_records(wanted, request_timeout=self._timeout_s)
        return {
            TopicPartition(p.topic, p.partition): self._ask(f"deleting records of {p.topic!r}", future).low_watermark
            for p, future in asked.items()
        }

    # Groups

    def groups(self) -> list[GroupSummary]:
        """All consumer groups."""
        asked = self._client.list_consumer_groups(request_timeout=self._timeout_s)
        found = self._ask("asking for the groups", asked)
        rows = [GroupSummary(row.group_id, _word(row.state), _word(row.type)) for row in found.valid]
        return sorted(rows, key=lambda row: row.name)

    def describe_group(self, group: str) -> GroupInfo:
        """A group's state and its members; UnknownGroup when there is none."""
        arguments.name("group", group)
        found = self._ask_coordinator(
            f"describing group {group!r}", group, self._client.describe_consumer_groups, group
        )
        members = [
            Member(
                id=row.member_id,
                instance=row.group_instance_id,
                client_id=row.client_id,
                host=row.host,
                partitions=[TopicPartition(p.topic, p.partition) for p in row.assignment.topic_partitions],
            )
            for row in found.members
        ]
        if _word(found.state) == "dead":  # Brokers said this before they had an error for it.
            raise UnknownGroup(f"there is no group {group!r}; Admin().groups() lists them", code="GROUP_ID_NOT_FOUND")
        coordinator = found.coordinator.id if found.coordinator is not None else None
        return GroupInfo(group, _word(found.state), _word(found.type), found.partition_assignor, coordinator, members)

    def group_offsets(self, group: str) -> dict[TopicPartition, int]:
        """What a group has committed."""
        arguments.name("group", group)
        self._check_open()
        doing = f"asking for the offsets of group {group!r}"
        return self._until_settled(lambda: committed(self._settings, group, self._timeout_s, doing))

    def group_lag(self, group: str) -> dict[TopicPartition, int]:
        """How many records a group has still to read in each partition where it has committed an offset.

        Markers of transactions count only between two records: a group that has read all there is has no lag.
        """
        offsets = self.group_offsets(group)
        ends = self._offsets(offsets, "latest")
        behind = {tp: offset for tp, offset in offsets.items() if offset < ends[tp]}
        firsts = first_unread(self._settings, behind, self._timeout_s) if behind else {}
        # Nothing to be read and nothing stable there yet: what is open may still be committed.
        stable = self._offsets([tp for tp, first in firsts.items() if first is None], "latest", READ_COMMITTED)
        lags = {}
        for tp, offset in offsets.items():
            first = firsts.get(tp, offset)
            lags[tp] = max(0, ends[tp] - (max(offset, stable[tp]) if first is None else first))
        return lags

    def reset_offsets(
        self, group: str, topic: str, to: Start = "earliest", *, partitions: Iterable[int] | None = None
    ) -> dict[TopicPartition, int]:
        """Let a group without members go on elsewhere in a topic, or in some of its partitions; where it then is."""
        indexes = [row.index for row in self.describe_topic(topic).partitions] if partitions is None else partitions
        found = self._offsets([TopicPartition(topic, index) for index in indexes], to)
        arguments.name("group", group)
        wanted = ConsumerGroupTopicPartitions(group, [WirePartition(*tp, offset) for tp, offset in found.items()])
        doing = f"resetting the offsets of group {group!r}"
        outcome = self._ask_coordinator(doing, group, self._client.alter_consumer_group_offsets, wanted)
        for row in outcome.topic_partitions:
            if row.error is not None:
                raise translated(KafkaException(row.error), f"resetting {row.topic}-{row.partition} of group {group!r}")
        return found

    def delete_group(self, group: str) -> None:
        """Delete a group without members, and with it what it has committed."""
        arguments.name("group", group)
        self._ask_coordinator(f"deleting group {group!r}", group, self._client.delete_consumer_groups, group)

    # Transactions

    def transactions(self) -> list[TransactionInfo]:
        """Every transactional id of the cluster, and what it has open."""
        return open_transactions.listed(self._bootstrap, self._timeout_s)

    def describe_transaction(self, transactional_id: str) -> TransactionInfo:
        """Where a transactional id stands."""
        return open_transactions.described(self._bootstrap, self._timeout_s, transactional_id)

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort what an id has open, and fence its producer: the way out when one hangs and readers wait for it."""
        open_transactions.aborted(self._bootstrap, self._timeout_s, transactional_id)

    # Ending

    def close(self) -> None:
        """Let go of the connections."""
        self._is_closed = True
        self._wire = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Within

    @property
    def _client(self) -> Any:
        self._check_open()
        return self._wire

    def _check_open(self) -> None:
        if self._is_closed:
            raise BadUse("the admin client is closed")

    def _ask(self, doing: str, future: Future[Any]) -> Any:
        return waited(self._bootstrap, future, doing)

    def _ask_coordinator(
        self, doing: str, group: str, ask: Callable[..., dict[str, Future[Any]]], wanted: object
    ) -> Any:
        """What a group's coordinator answers."""
        return self._until_settled(lambda: self._ask(doing, ask([wanted], request_timeout=self._timeout_s)[group]))

    def _until_settled(self, ask: Callable[[], Answer]) -> Answer:
        """Ask again while the group is on its way to another broker."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                return ask()
            except Refused as refusal:
                if refusal.code not in MOVING or time.monotonic() > deadline_s:
                    raise
            time.sleep(AGAIN_AFTER_S)

    def _offsets(
        self, partitions: Iterable[TopicPartition], at: Start, isolation: IsolationLevel = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        chosen = list(partitions)
        if isinstance(checked(at), int) or not chosen:
            return {tp: at for tp in chosen if isinstance(at, int)}
        asked = self._client.list_offsets(
            {WirePartition(*tp): _spec(at) for tp in chosen},
            request_timeout=self._timeout_s,
            isolation_level=isolation,
        )
        found = {
            TopicPartition(p.topic, p.partition): int(self._ask(f"asking for offsets of {p.topic!r}", future).offset)
            for p, future in asked.items()
        }
        if isinstance(at, datetime) and (late := [tp for tp, offset in found.items() if offset < 0]):
            found |= self._offsets(late, "latest")  # Nothing is as late as that.
        return found

    def _config(self, kind: Any, name: str) -> dict[str, Setting]:
        resource = ConfigResource(kind, arguments.name("name", name))
        asked = self._client.describe_configs([resource], request_timeout=self._timeout_s)
        found = self._ask(f"asking for the settings of {name!r}", asked[resource])
        return {
            key: Setting(row.value, ConfigSource(row.source).name.lower(), row.is_default, row.is_read_only)
            for key, row in sorted(found.items())
        }

    def _set_config(self, kind: Any, name: str, changes: Mapping[str, str | int | None]) -> None:
        entries = [
            ConfigEntry(
                key,
                None if value is None else str(value),
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in changes.items()
        ]
        resource = ConfigResource(kind, arguments.name("name", name), incremental_configs=entries)
        asked = self._client.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        self._ask(f"changing the settings of {name!r}", asked[resource])


def _id_text(topic_id: object) -> str:
    """As Kafka's tools and ours write it: base64 in its form for addresses."""
    return str(topic_id).rstrip("=").translate({ord("+"): "-", ord("/"): "_"})


def _word(of: Any) -> str:
    return str(of.name).lower()


def _spec(at: Start) -> Any:
    specs: Any = OffsetSpec
    if isinstance(at, datetime):
        return specs.for_timestamp(moment_ms(at))
    return specs.earliest() if at == "earliest" else specs.latest()
