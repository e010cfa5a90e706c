"""The flow's stream as Spark sees it: which stretches of which partitions come next, and never a record."""

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from millstream.client.admin import partition_sizes
from millstream.client.cluster import StaleMetadata
from millstream.client.partitions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from millstream.model.clock import Clock, SystemClock
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.passing import CLIENT_ID, Stretch
from millstream.pipelines.spark import planning
from millstream.pipelines.spark.cluster import BlockingCluster
from millstream.pipelines.spark.planning import Offsets

SCHEMA = "topic string, partition int, start bigint, stop bigint, remote string"
NAME = "millstream_mirror"
#: How old the list of topics may be; asking for it is cheap, and new ones are made by somebody else.
TOPICS_AGE_MAX_S = 5.0
SIZES_AGE_MAX_S = 30.0
#: A broker that is away is waited for no longer before others have their turn.
TIMEOUT_MS_MAX = 10_000
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
    """Offsets of the source's partitions, kept as Spark's Kafka source keeps them."""

    def __init__(self, flow: Flow, clock: Clock | None = None) -> None:
        self._flow = flow
        self._clock = clock or SystemClock()
        self._clusters: tuple[BlockingCluster, BlockingCluster] | None = None
        self._mirrored: list[TopicPartition] = []
        #: Topics of the source that may be read, or may come back: their positions are kept.
        self._alive: set[str] = set()
        self._looked_s: float | None = None
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
        """How far the next micro-batch goes; no further than ``start`` while there is nothing, or nobody answers."""
        try:
            before = planning.from_document(start)
            latest = self._latest()
            resting = {tp: offset for tp, offset in before.items() if tp not in latest and tp.topic in self._alive}
            self._seen = {**latest, **resting}
            if self._seen == before or self._can_wait(before, latest):
                return start
            starts = planning.resumed(before, self._earliest(latest), latest)
            admitted = self._admitted(starts, latest)
            self._last_s = self._clock.monotonic_s()
            return planning.to_document({**admitted, **resting})
        except _PASSING:
            self._looked_s = None
            return start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        starts, stops = planning.from_document(start), planning.from_document(end)
        fresh = {tp for tp in stops if tp not in starts or starts[tp] > stops[tp]}
        if fresh:  # New, or made anew: from its first record on.
            starts |= self._earliest(fresh)
        policy, alias = self._flow.policy, self._flow.source
        stretches = [
            Stretch(*piece.partition, piece.start, piece.stop, policy.remote_topic(alias, piece.partition.topic))
            for piece in planning.ranges(starts, stops)
        ]
        return [
            Stretches(group)
            for group in shared(stretches, self._flow[s.TASKS_MAX] or max(1, (os.cpu_count() or 1) // 2))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Stretches):
            rows = [each._asdict() for each in partition.stretches]
            types = [pa.string(), pa.int32(), pa.int64(), pa.int64(), pa.string()]
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
        asked = dict.fromkeys(partitions, place)
        if not asked:
            return {}
        source, _ = self._here
        try:
            found = source.run(list_offsets(source.cluster, asked, isolation=isolation))
        except ProtocolError:
            self._looked_s = None  # A topic may be gone: look again.
            raise
        return {tp: answer.offset for tp, answer in found.items()}

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
        faults = source.run(source.cluster.refresh(None))
        target.run(target.cluster.refresh(None))
        choice, policy, alias = self._flow.topics(), self._flow.policy, self._flow.source
        self._alive = {*source.cluster.topics, *faults}
        self._mirrored = []
        for name, topic in sorted(source.cluster.topics.items()):
            if topic.is_internal or name not in choice:
                continue
            there = target.cluster.topics.get(policy.remote_topic(alias, name))
            known = {partition.index for partition in there.partitions} if there else set()
            self._mirrored += [TopicPartition(name, part.index) for part in topic.partitions if part.index in known]

    def _can_wait(self, before: Offsets, latest: Offsets) -> bool:
        """Whether there are only heartbeats to mirror, and some were lately: a flow at rest should rest."""
        if self._last_s is None or self._clock.monotonic_s() - self._last_s >= HEARTBEATS_EVERY_S:
            return False
        policy = self._flow.policy
        return all(policy.is_heartbeats(tp.topic) for tp, offset in latest.items() if before.get(tp) != offset)

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
        return {
            tp: self._sizes[tp] / (latest[tp] - earliest[tp])
            for tp in latest
            if latest[tp] > earliest[tp] and self._sizes.get(tp)
        }

    def __getstate__(self) -> dict[str, Any]:
        """Workers get the flow and no connection."""
        return {**self.__dict__, "_clusters": None}


def shared(stretches: Sequence[Stretch], tasks: int) -> list[list[Stretch]]:
    """The stretches for so many tasks, each with about as much to do; the longest are given away first."""
    groups: list[list[Stretch]] = [[] for _ in range(min(tasks, len(stretches)))]
    loads = [0] * len(groups)
    for stretch in sorted(stretches, key=lambda each: each.start - each.stop):
        lightest = loads.index(min(loads))
        groups[lightest].append(stretch)
        loads[lightest] += stretch.stop - stretch.start
    return groups
