"""What a driver asks of a cluster: which partitions there are, and where their offsets begin and end."""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from millstream.client.cluster import Cluster
from millstream.client.partitions import EARLIEST, LATEST, NO_OFFSET, READ_UNCOMMITTED, list_offsets
from millstream.client.wire import parse_addresses
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.options import Selection, SourceOptions
from millstream.pipelines.spark.origin import Aborted
from millstream.pipelines.spark.planning import Offsets

T = TypeVar("T")

#: How long a broker that has just started may take to know what there is.
REST_S = 0.5


class BlockingCluster:
    """A cluster for code that waits: a loop that runs only while something is asked. Connections outlive questions."""

    def __init__(self, bootstrap: str, client_id: str, timeout_ms: int) -> None:
        self.bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self.cluster = Cluster(parse_addresses(bootstrap), client_id=client_id, timeout_s=timeout_ms / 1000)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do ``work`` to its end; what else is under way goes on meanwhile, and stands still otherwise."""
        return self._loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin ``work``, as far as it goes without waiting."""
        task = self._loop.create_task(work)
        self._loop.run_until_complete(asyncio.sleep(0))
        return task

    def close(self) -> None:
        self.cluster.close()
        self._loop.run_until_complete(asyncio.sleep(0))  # Lets the sockets go.
        self._loop.close()


class ClusterOrigin:
    """A cluster as the source of records."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._blocking: BlockingCluster | None = None
        #: The partitions whose bounds were asked for last.
        self._seen: list[TopicPartition] = []

    @property
    def _here(self) -> BlockingCluster:
        if self._blocking is None:
            options = self._options
            self._blocking = BlockingCluster(options.bootstrap, options.client_id, options.timeout_ms)
        return self._blocking

    def close(self) -> None:
        if self._blocking is not None:
            self._blocking.close()
            self._blocking = None

    def rest(self) -> None:
        self._here.run(asyncio.sleep(REST_S))

    def partitions(self, selection: Selection, *, must_exist: bool) -> list[TopicPartition]:
        return self._here.run(self._partitions(selection, must_exist))

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(partitions, EARLIEST), READ_UNCOMMITTED)

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._ask(dict.fromkeys(partitions, LATEST), self._options.isolation)

    def bounds(self, selection: Selection) -> tuple[Offsets, Offsets]:
        return self._here.run(self._bounds_now(selection))

    def by_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        return self._ask(timestamps_ms, self._options.isolation)

    def aborted(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Sequence[Aborted]]:
        return {}  # Each fetch says what it holds.

    def _ask(self, asked: Mapping[TopicPartition, int], isolation: int) -> Offsets:
        if not asked:
            return {}
        return self._here.run(self._offsets(asked, isolation))

    async def _offsets(self, asked: Mapping[TopicPartition, int], isolation: int) -> Offsets:
        found = await list_offsets(self._here.cluster, asked, isolation=isolation)
        return {tp: answer.offset for tp, answer in found.items() if answer.offset != NO_OFFSET}

    async def _bounds_now(self, selection: Selection) -> tuple[Offsets, Offsets]:
        """Asked while it is looked which partitions there are: as a rule they are those that were there before."""
        expected = self._seen
        asking = asyncio.create_task(self._bounds(expected))
        try:
            there = self._seen = await self._partitions(selection, must_exist=False)
        except BaseException:
            await _let_go(asking)
            raise
        if there == expected:
            return await asking
        await _let_go(asking)
        return await self._bounds(there)

    async def _bounds(self, partitions: list[TopicPartition]) -> tuple[Offsets, Offsets]:
        if not partitions:
            return {}, {}
        earliest, latest = await asyncio.gather(
            self._offsets(dict.fromkeys(partitions, EARLIEST), READ_UNCOMMITTED),
            self._offsets(dict.fromkeys(partitions, LATEST), self._options.isolation),
        )
        return earliest, latest

    async def _partitions(self, selection: Selection, must_exist: bool) -> list[TopicPartition]:
        cluster = self._here.cluster
        wanted = selection.topics or tuple({tp.topic for tp in selection.partitions})
        if must_exist:  # The first question: whoever misspelt the address should not have to wait.
            faults = await cluster.refresh(wanted or None)
            for topic in wanted:
                self._check(selection, topic, faults.get(topic, ErrorCode.NONE))
        else:
            await cluster.retrying(wanted, lambda: cluster.refresh(wanted or None))
        if selection.pattern:
            wanted = tuple(
                name for name, topic in cluster.topics.items() if not topic.is_internal and selection.matches(name)
            )
        found = [
            TopicPartition(name, partition.index)
            for name in sorted(wanted)
            if name in cluster.topics
            for partition in cluster.topics[name].partitions
        ]
        if not selection.partitions:
            return found
        missing = set(selection.partitions) - set(found)
        if missing and must_exist:
            selection.refuse(f"there is no partition {', '.join(map(str, sorted(missing)))} at {self._here.bootstrap}")
        return [tp for tp in found if tp in selection.partitions]

    def _check(self, selection: Selection, topic: str, fault: ErrorCode) -> None:
        if topic in self._here.cluster.topics:
            return
        if fault in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            selection.refuse(f"there is no topic {topic!r} at {self._here.bootstrap}")
        if fault is ErrorCode.INVALID_TOPIC_EXCEPTION:
            selection.refuse(f"{topic!r} cannot be a topic's name")
        raise ProtocolError(fault, f"{selection.option}={selection.value}: topic {topic!r}")


async def _let_go(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
