"""The flow's stream as Spark sees it: which stretches of which partitions come next, and never a record."""

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from millstream.client.admin import partition_sizes
from millstream.client.cluster import NO_NODE, StaleMetadata, Topic
from millstream.client.partitions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from millstream.model.clock import Clock, SystemClock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.passing import CLIENT_ID, FIRST, Stretch
from millstream.pipelines.mirror.topic_names import full_name, has_id, id_text, is_same, name_of
from millstream.pipelines.spark import planning
from millstream.pipelines.spark.cluster import BlockingCluster
from millstream.pipelines.spark.planning import Offsets

SCHEMA = "topic string, partition int, start bigint, stop bigint, remote string, id string"
NAME = "millstream_mirror"
#: How old the list of topics may be; asking for it is cheap, and new ones are made by somebody else.
TOPICS_AGE_MAX_S = 5.0
SIZES_AGE_MAX_S = 30.0
#: A broker that is away is waited for no longer before others have their turn.
TIMEOUT_MS_MAX = 10_000
#: How long a topic that nobody knows keeps its place: brokers that have just started may not know what there is.
ABSENT_S_MAX = 600.0
#: Heartbeats alone are mirrored no more often than this.
HEARTBEATS_EVERY_S = 5.0
#: What a record takes where nobody tells.
GUESSED_BYTES = 1024.0
#: No fewer records than this are asked for by their size.
SMALL = 1_000
_PASSING = (ConnectionError, TimeoutError, StaleMetadata)


class Stretches(InputPartition):
    """What one task passes on."""

    def __init__(self, stretches: list[Stretch]) -> None:
        self.stretches = stretches


class MirrorSource(DataSource):
    """``format("millstream_mirror")`` with the option ``flow``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._flow = Flow.from_text(options["flow"])

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return MirrorReader(self._flow)


class MirrorReader(DataSourceStreamReader):
    """Offsets of the source's partitions, kept as Spark's Kafka source keeps them, by the full names of topics."""

    def __init__(self, flow: Flow, clock: Clock | None = None) -> None:
        self._flow = flow
        self._clock = clock or SystemClock()
        self._clusters: tuple[BlockingCluster, BlockingCluster] | None = None
        self._mirrored: list[TopicPartition] = []
        #: Full names of the source's topics by their names, those that cannot be read now, and since when others miss.
        self._listed: dict[str, str] = {}
        self._faulty: set[str] = set()
        self._absent_s: dict[str, float] = {}
        self._looked_s: float | None = None
        self._away_s: float | None = None
        self._sizes: Mapping[TopicPartition, int] = {}
        self._weighed_s: float | None = None
        self._seen: Offsets = {}
        self._last_s: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return planning.to_document(self._seen) if self._seen else None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next micro-batch goes; no further than ``start`` while there is nothing, or nobody answers.

        Who does not answer for as long as an answer is waited for is an error: somebody should hear of it.
        """
        try:
            found = self._next(start)
        except (*_PASSING, ProtocolError) as fault:
            self._looked_s = None  # A topic may be gone: look again.
            now_s = self._clock.monotonic_s()
            self._away_s = now_s if self._away_s is None else self._away_s
            is_gone = isinstance(fault, ProtocolError) and fault.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not (is_gone or isinstance(fault, _PASSING)) or now_s - self._away_s >= self._flow[s.TIMEOUT_MS] / 1000:
                raise
            return start
        self._away_s = None
        return found

    def _next(self, start: dict[str, Any]) -> dict[str, Any]:
        latest = self._latest()
        before = _adopted(planning.from_document(start), latest)
        resting = {tp: offset for tp, offset in before.items() if tp not in latest and self._may_return(tp.topic)}
        self._seen = {**latest, **resting}
        if self._seen == before or self._can_wait(before, latest):
            return start
        starts = begins(before, self._earliest(latest), latest)
        admitted = self._admitted(starts, latest)
        self._last_s = self._clock.monotonic_s()
        return planning.to_document({**admitted, **resting})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What lies between; nothing of topics that are no longer wanted, for something may be wrong with them."""
        stops = planning.from_document(end)
        starts = _adopted(planning.from_document(start), stops)
        policy, alias, choice = self._flow.policy, self._flow.source, self._flow.topics()
        stretches = []
        for tp, stop in sorted(stops.items()):
            name, begin = name_of(tp.topic), starts.get(tp, FIRST)
            if begin > stop and not has_id(tp.topic):
                begin = FIRST  # Made anew, for all we can know.
            if begin != stop and (begin, stop) != (FIRST, 0) and name in choice:
                remote = policy.remote_topic(alias, name)
                stretches.append(Stretch(name, tp.partition, begin, stop, remote, id_text(tp.topic)))
        return [
            Stretches(group)
            for group in shared(stretches, self._flow[s.TASKS_MAX] or max(1, (os.cpu_count() or 1) // 2))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Stretches):
            rows = [each._asdict() for each in partition.stretches]
            types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.string()]
            yield pa.RecordBatch.from_pylist(rows, pa.schema(list(zip(Stretch._fields, types, strict=True))))

    def stop(self) -> None:
        for blocking in self._clusters or ():
            blocking.close()
        self._clusters = None

    @property
    def _here(self) -> tuple[BlockingCluster, BlockingCluster]:
        """Source and target."""
        if self._clusters is None:
            timeout_ms = min(self._flow[s.TIMEOUT_MS], TIMEOUT_MS_MAX)
            bootstraps = (self._flow.source_bootstrap, self._flow.target_bootstrap)
            one, other = (BlockingCluster(each, CLIENT_ID, timeout_ms) for each in bootstraps)
            self._clusters = one, other
        return self._clusters

    def _latest(self) -> Offsets:
        return self._ask(self._partitions(), LATEST, READ_COMMITTED)

    def _earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._ask(partitions, EARLIEST, READ_UNCOMMITTED)

    def _ask(self, partitions: Iterable[TopicPartition], place: int, isolation: int) -> Offsets:
        asked = {TopicPartition(name_of(tp.topic), tp.partition): tp for tp in partitions}
        if not asked:
            return {}
        source, _ = self._here
        found = source.run(list_offsets(source.cluster, dict.fromkeys(asked, place), isolation=isolation))
        return {asked[tp]: answer.offset for tp, answer in found.items()}

    def _partitions(self) -> list[TopicPartition]:
        """Those to be mirrored that the target has, too."""
        now_s = self._clock.monotonic_s()
        age_max_s = min(TOPICS_AGE_MAX_S, self._flow[s.REFRESH_TOPICS_S])
        if self._looked_s is None or now_s - self._looked_s >= age_max_s:
            self._look()
            self._looked_s = now_s
        return self._mirrored

    def _look(self) -> None:
        source, target = self._here
        self._faulty = set(source.run(source.cluster.refresh(None)))
        target.run(target.cluster.refresh(None))
        choice, policy, alias = self._flow.topics(), self._flow.policy, self._flow.source
        topics = source.cluster.topics
        self._listed = {name: full_name(topic) for name, topic in topics.items()}
        self._mirrored = []
        for name, topic in sorted(topics.items()):
            if not topic.is_internal and name in choice:
                there = led(target.cluster.topics.get(policy.remote_topic(alias, name)))
                self._mirrored += [TopicPartition(self._listed[name], index) for index in sorted(led(topic) & there)]

    def _may_return(self, full: str) -> bool:
        """Whether a topic that is not to be read now may come back, and keeps its place so long.

        One that was made again, under another id, is another.
        """
        name = name_of(full)
        if name in self._listed or name in self._faulty:
            self._absent_s.pop(name, None)
            return is_same(self._listed.get(name, full), full)
        now_s = self._clock.monotonic_s()
        return now_s - self._absent_s.setdefault(name, now_s) < ABSENT_S_MAX

    def _can_wait(self, before: Offsets, latest: Offsets) -> bool:
        """Whether there are only heartbeats to mirror, and some were lately: a flow at rest should rest."""
        if self._last_s is None or self._clock.monotonic_s() - self._last_s >= HEARTBEATS_EVERY_S:
            return False
        policy = self._flow.policy
        return all(policy.is_heartbeats(name_of(tp.topic)) for tp, offset in latest.items() if before.get(tp) != offset)

    def _admitted(self, starts: Offsets, latest: Offsets) -> Offsets:
        """As much as a micro-batch should pass on, by what its records take on disk."""
        waiting = {tp: latest[tp] - starts[tp] for tp in latest}
        records = sum(waiting.values())
        if records <= SMALL:
            return latest
        sizes = self._record_sizes(latest)
        size = sum(count * sizes.get(tp, GUESSED_BYTES) for tp, count in waiting.items())
        share = self._flow[s.BATCH_BYTES] / max(size, 1.0)
        return latest if share >= 1 else planning.admit(starts, latest, max(int(records * share), SMALL))

    def _record_sizes(self, latest: Offsets) -> dict[TopicPartition, float]:
        now_s = self._clock.monotonic_s()
        source, _ = self._here
        if self._weighed_s is None or now_s - self._weighed_s >= SIZES_AGE_MAX_S:
            try:
                self._sizes = source.run(partition_sizes(source.cluster))
            except ProtocolError:
                self._sizes = {}  # Not everyone may ask.
            self._weighed_s = now_s
        earliest = self._earliest(latest)
        sizes = {tp: self._sizes.get(TopicPartition(name_of(tp.topic), tp.partition), 0) for tp in latest}
        return {
            tp: size / (latest[tp] - earliest[tp]) for tp, size in sizes.items() if size and latest[tp] > earliest[tp]
        }

    def __getstate__(self) -> dict[str, Any]:
        """Workers get the flow and no connection."""
        return {**self.__dict__, "_clusters": None}


def led(topic: Topic | None) -> set[int]:
    """The partitions of a topic that somebody leads; those without a leader wait, and hold up no others."""
    return {part.index for part in topic.partitions if part.leader != NO_NODE} if topic else set()


def begins(before: Offsets, earliest: Offsets, latest: Offsets) -> Offsets:
    """Where to go on in each partition that can be read: where reading stopped, else where its records begin.

    A log that ends before that was cut, and goes on from there; without ids it may as well be another.
    """
    return {
        tp: (end if has_id(tp.topic) else earliest[tp])
        if before.get(tp, 0) > end
        else max(before.get(tp, 0), earliest[tp])
        for tp, end in latest.items()
    }


def _adopted(before: Offsets, now: Iterable[TopicPartition]) -> Offsets:
    """The same offsets under the full names of now, where a cluster gave no ids before, or gives none any more."""
    there = {(name_of(tp.topic), tp.partition): tp for tp in now}
    found = {}
    for tp, offset in before.items():
        other = there.get((name_of(tp.topic), tp.partition), tp)
        found[other if is_same(tp.topic, other.topic) else tp] = offset
    return found


def shared(stretches: Sequence[Stretch], tasks: int) -> list[list[Stretch]]:
    """The stretches for so many tasks, each with about as much to do; the longest are given away first."""
    groups: list[list[Stretch]] = [[] for _ in range(min(tasks, len(stretches)))]
    loads = [0] * len(groups)
    for stretch in sorted(stretches, key=lambda each: each.start - each.stop):
        lightest = loads.index(min(loads))
        groups[lightest].append(stretch)
        loads[lightest] += max(0, stretch.stop - stretch.start)
    return groups
