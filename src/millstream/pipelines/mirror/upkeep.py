"""What goes on beside the records: topics kept in step, heartbeats, offset syncs, checkpoints, groups' offsets.

None of it holds the records up: what fails is told, once, and tried again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from millstream.client.cluster import NO_NODE, Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.partitions import ACKS_ALL, EARLIEST, LATEST, list_offsets, produce
from millstream.client.reader import Reader
from millstream.client.wire import parse_addresses
from millstream.model.clock import Clock
from millstream.model.errors import CorruptFrame, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.formats import Encoded, Heartbeat, OffsetSync
from millstream.pipelines.mirror.groups import Groups
from millstream.pipelines.mirror.passing import CLIENT_ID
from millstream.pipelines.mirror.policy import HEARTBEATS
from millstream.pipelines.mirror.topics import TopicsInStep, ensure_compacted
from millstream.pipelines.mirror.translation import Run, Translations

#: Syncs of a partition are written no more often than this.
SYNCS_EVERY_S = 1.0
#: How often the clusters are asked whether they are there, and how long one may take to answer.
LOOK_EVERY_S = 5.0
LOOK_TIMEOUT_S = 5.0
#: How soon what failed is tried again, at the latest.
RETRY_S_MAX = 10.0
_FAULTS = (ProtocolError, CorruptFrame, OSError, TimeoutError)


class Upkeep:
    """The chores of one flow; all of it on one loop."""

    def __init__(
        self, flow: Flow, clock: Clock, tell: Callable[[str], None], is_away: Callable[[], None] = lambda: None
    ) -> None:
        """``is_away`` is called again and again while a cluster does not answer."""
        timeout_s = flow[s.TIMEOUT_MS] / 1000
        self._flow = flow
        self._clock = clock
        self._tell = tell
        self._is_away = is_away
        self._source, self._target = (
            Cluster(parse_addresses(each), client_id=CLIENT_ID, timeout_s=timeout_s)
            for each in (flow.source_bootstrap, flow.target_bootstrap)
        )
        self.translations = Translations()
        self._topics = TopicsInStep(flow, self._source, self._target)
        self.groups = Groups(flow, Coordinators(self._source), Coordinators(self._target), self.translations)
        #: What is not written of syncs: the first ever of a partition, and the last.
        self._firsts: list[OffsetSync] = []
        self._unwritten: dict[TopicPartition, OffsetSync] = {}

    async def prepare(self) -> None:
        """What must be there before the first record; whatever is in the way is raised."""
        for refused in await self._topics.refresh():
            self._tell(refused)
        flow, policy = self._flow, self._flow.policy
        if flow[s.EMIT_OFFSET_SYNCS]:
            await ensure_compacted(flow, self._syncs_home, self._syncs_topic, s.OFFSET_SYNCS_FACTOR)
            await self._read_syncs()
        if flow[s.EMIT_CHECKPOINTS]:
            name = policy.checkpoints_topic(flow.source)
            await ensure_compacted(flow, self._target, name, s.CHECKPOINTS_FACTOR)
        if flow[s.EMIT_HEARTBEATS]:
            for cluster in (self._source, self._target):
                await ensure_compacted(flow, cluster, HEARTBEATS, s.HEARTBEATS_FACTOR)
            for refused in await self._topics.refresh():  # The source's heartbeats are mirrored, too.
                self._tell(refused)

    async def tell_of_others(self) -> None:
        """For a flow that is new: say so where somebody has been before, under another checkpoint or by other means."""
        policy, wanted = self._flow.policy, await self._topics.mirrored()
        await self._target.refresh(None)
        there = [
            TopicPartition(remote, part.index)
            for name, remote in wanted.items()
            if remote in self._target.topics and not policy.is_heartbeats(name)
            for part in self._target.topics[remote].partitions
            if part.leader != NO_NODE
        ]
        ends = await list_offsets(self._target, dict.fromkeys(there, LATEST)) if there else {}
        filled = sorted({tp.topic for tp, end in ends.items() if end.offset})
        if filled:
            names = ", ".join(filled[:3]) + (", …" if len(filled) > 3 else "")
            self._tell(f"the checkpoint is new, and there are records in {names}: all are mirrored, behind those")

    async def run(self) -> None:
        """Do the chores for ever."""
        flow = self._flow
        chores = [
            (s.REFRESH_TOPICS, flow[s.REFRESH_TOPICS_S], "topics", self._refresh_topics),
            (s.SYNC_CONFIGS, flow[s.SYNC_CONFIGS_S], "settings of topics", self._topics.sync_configs),
            (s.EMIT_HEARTBEATS, flow[s.EMIT_HEARTBEATS_S], "heartbeats", self.beat),
            (s.EMIT_OFFSET_SYNCS, SYNCS_EVERY_S, "offset syncs", self.write_syncs),
            (s.REFRESH_GROUPS, flow[s.REFRESH_GROUPS_S], "groups", self.groups.refresh),
            (s.EMIT_CHECKPOINTS, flow[s.EMIT_CHECKPOINTS_S], "checkpoints", self.write_checkpoints),
            (s.SYNC_GROUP_OFFSETS, flow[s.SYNC_GROUP_OFFSETS_S], "offsets of groups", self.groups.sync),
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(LOOK_EVERY_S, "clusters", self.look))
            for setting, every_s, name, chore in chores:
                if flow[setting]:
                    group.create_task(self._repeat(every_s, name, chore))

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def learn(self, runs: Mapping[TopicPartition, Iterable[Run]]) -> None:
        """A micro-batch is committed, and this became of its offsets."""
        for tp, found in runs.items():
            for run in found:
                if (
                    tp not in self.translations
                ):  # Else a group that is within the first micro-batch had no sync before it.
                    self._firsts.append(OffsetSync(tp, run.upstream, run.downstream))
                self.translations.learn(tp, [run])
                self._unwritten[tp] = OffsetSync(tp, *run.last)

    async def write_syncs(self) -> None:
        """Write the last sync of every partition that has moved."""
        firsts, syncs = self._firsts, self._unwritten
        self._firsts, self._unwritten = [], {}
        encoded = [each.encode() for each in (*firsts, *syncs.values())]
        try:
            await self._write(self._syncs_home, self._syncs_topic, encoded)
        except BaseException:
            self._firsts, self._unwritten = firsts + self._firsts, {**syncs, **self._unwritten}
            raise

    @property
    def _is_syncs_at_source(self) -> bool:
        return bool(self._flow[s.OFFSET_SYNCS_LOCATION] == s.SOURCE)

    @property
    def _syncs_home(self) -> Cluster:
        return self._source if self._is_syncs_at_source else self._target

    @property
    def _syncs_topic(self) -> str:
        """The topic is named after the other cluster."""
        alias = self._flow.target if self._is_syncs_at_source else self._flow.source
        return self._flow.policy.offset_syncs_topic(alias)

    async def _read_syncs(self) -> None:
        """What was known before this process began."""
        tp = TopicPartition(self._syncs_topic, 0)
        home = self._syncs_home
        start = (await list_offsets(home, {tp: EARLIEST}))[tp].offset
        stop = (await list_offsets(home, {tp: LATEST}))[tp].offset
        async for read in Reader(home, {tp: start}, {tp: stop}).read():
            for record in read.records:
                if record.key is not None and record.value is not None:
                    try:
                        sync = OffsetSync.decode(record.key, record.value)
                    except CorruptFrame as fault:
                        self._tell(f"{tp}: passed over offset {record.offset}: {fault}")
                        continue
                    self.translations.learn(sync.partition, [Run(sync.upstream_offset, sync.offset, 1)])

    async def _repeat(self, every_s: float, name: str, chore: Callable[[], Awaitable[object]]) -> None:
        is_failing = False
        while True:
            try:
                await chore()
            except _FAULTS as fault:
                if not is_failing:
                    self._tell(f"{name}: {fault}; tried again until it is done")
                is_failing = True
                await asyncio.sleep(min(every_s, RETRY_S_MAX))
                continue
            if is_failing:
                self._tell(f"{name}: done again")
            is_failing = False
            await asyncio.sleep(every_s)

    async def _refresh_topics(self) -> None:
        for refused in await self._topics.refresh():
            self._tell(refused)

    async def look(self) -> None:
        """See whether both clusters are there; that one is not is told by whoever needs it."""
        try:
            for cluster in (self._source, self._target):
                async with asyncio.timeout(LOOK_TIMEOUT_S):
                    await cluster.refresh(())
        except _FAULTS:
            self._is_away()

    async def beat(self) -> None:
        """Into the target; into the source as well where no flow comes back, for there somebody must be heard."""
        source, target = self._flow.source, self._flow.target
        now_ms = self._clock.now_ms()
        await self._write(self._target, HEARTBEATS, [Heartbeat(source, target, now_ms).encode()])
        if not self._flow.is_both_ways:
            await self._write(self._source, HEARTBEATS, [Heartbeat(target, source, now_ms).encode()])

    async def write_checkpoints(self) -> None:
        """Write where the groups go on, for those that have moved."""
        if not self.groups.names:
            await self.groups.refresh()
        checkpoints = await self.groups.checkpoints()
        topic = self._flow.policy.checkpoints_topic(self._flow.source)
        await self._write(self._target, topic, [each.encode() for each in checkpoints])
        self.groups.told(checkpoints)
        self.groups.raise_refusal()

    async def _write(self, cluster: Cluster, topic: str, encoded: list[Encoded]) -> None:
        if encoded:
            now_ms = self._clock.now_ms()
            records = [Record(timestamp=now_ms, key=key, value=value) for key, value in encoded]
            await produce(cluster, TopicPartition(topic, 0), encode_batch(records), acks=ACKS_ALL)
