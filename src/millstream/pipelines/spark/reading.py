"""A task: one range of a partition, fetched piece by piece and handed to Spark as Arrow.

One piece is under way while the one before it is decoded, so what a task holds is bounded by two fetches, whatever
the length of its range.
"""

import asyncio
import itertools
import logging
from collections.abc import Generator, Iterator, Mapping, Sequence

import pyarrow as pa

from millstream.client.cluster import RETRY_PAUSE_S, STALE, Cluster, StaleMetadata
from millstream.client.partitions import EARLIEST, Fetched, by_leader, fetch, list_offsets
from millstream.client.wire import Connection, ConnectionLost, Unreachable
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.arrow import Part, decode_together
from millstream.pipelines.spark.cluster import BlockingCluster
from millstream.pipelines.spark.options import SourceOptions
from millstream.pipelines.spark.planning import DataLost
from millstream.pipelines.spark.task import Task

_log = logging.getLogger(__name__)

#: A worker process serves many tasks, and keeps its connections from one to the next.
_clusters: dict[tuple[str, str, int], BlockingCluster] = {}

_BYTES_MAX = 1 << 30
_WAIT_MS = 500
#: For how long a topic is looked for before it is taken for gone.
_GONE_AFTER_S = 1.5
#: Small batches are joined until there is so much of them: each costs Spark as much as many rows.
_HELD_BYTES = 1 << 20
#: What is asked for at a time is not less than this, however many share it.
_SHARE_BYTES_MIN = 1 << 16


def read_from_brokers(task: Task) -> Iterator[pa.RecordBatch]:
    """The records of the task's range, in order."""
    return _Fetcher(task).batches()


def read_together(tasks: Sequence[Task]) -> Generator[pa.RecordBatch, None, None]:
    """The records of several small ranges: asked for at once, each leader by one fetch, and handed over together."""
    fetchers = [_Fetcher(task, share=len(tasks)) for task in tasks]
    held: list[pa.RecordBatch] = []
    try:
        for batch in itertools.chain(_first_pieces(fetchers), *(fetcher.batches() for fetcher in fetchers)):
            held.append(batch)
            if sum(each.nbytes for each in held) >= _HELD_BYTES:
                yield _joined(held)
                held.clear()
        if held:
            yield _joined(held)
    finally:
        for fetcher in fetchers:
            fetcher.cancel()


def _first_pieces(fetchers: "Sequence[_Fetcher]") -> Iterator[pa.RecordBatch]:
    """What one fetch from each leader brings of all their ranges; as a rule that is everything.

    Fetchers without a piece, whatever the reason, ask for themselves.
    """
    by_partition: dict[TopicPartition, _Fetcher] = {}
    for fetcher in fetchers:
        by_partition.setdefault(fetcher.partition, fetcher)
    blocking = fetchers[0].blocking
    found = [by_partition[row.partition].part_of(row) for row in blocking.run(_fetch_together(by_partition))]
    for fetcher in fetchers:
        fetcher.begin()
    parts = [part for part in found if part is not None]
    is_little = sum(len(part.fetched) for part in parts) <= _HELD_BYTES
    for each in [parts] if is_little else [[part] for part in parts]:
        batch = decode_together(each)
        if batch is not None:
            yield batch


async def _fetch_together(fetchers: "Mapping[TopicPartition, _Fetcher]") -> list[Fetched]:
    """The next pieces of these partitions, by one fetch from each leader; none of those that cannot give them now.

    What took all the time there is to wait fails here: whoever asked again would wait as long again.
    """
    some = next(iter(fetchers.values()))
    cluster = some.blocking.cluster
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + cluster.timeout_s

    async def ask(connection: Connection, led: Sequence[TopicPartition]) -> list[Fetched]:
        return await fetch(
            cluster,
            connection,
            {tp: fetchers[tp].position for tp in led},
            bytes_max=some.bytes_max * len(led),
            partition_bytes_max=some.bytes_max,
            wait_ms=_WAIT_MS,
            isolation=some.isolation,
        )

    try:
        leaders = await by_leader(cluster, fetchers)
    except (ProtocolError, ConnectionError):
        if loop.time() >= deadline_s:
            raise
        return []
    found: list[Fetched] = []
    for answer in await asyncio.gather(*(ask(*each) for each in leaders.items()), return_exceptions=True):
        if isinstance(answer, list):
            found += answer
        elif not isinstance(answer, (ProtocolError, ConnectionError)):
            raise answer  # A time-out, or our own mistake.
    return found


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _cluster_of(options: SourceOptions) -> BlockingCluster:
    key = (options.bootstrap, options.client_id, options.timeout_ms)
    if key not in _clusters:
        _clusters[key] = BlockingCluster(*key)
    return _clusters[key]


async def fetch_from(
    cluster: Cluster, tp: TopicPartition, offset: int, *, stop: int, bytes_max: int, isolation: int
) -> Fetched:
    """Batches from ``offset`` on, or the refusal OFFSET_OUT_OF_RANGE; whatever may pass is waited for.

    A topic that is gone is a ProtocolError, UNKNOWN_TOPIC_OR_PARTITION.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + cluster.timeout_s
    gone_s = loop.time() + _GONE_AFTER_S
    while True:
        fault: Exception
        try:
            connection = await cluster.leader(tp)
            (row,) = await fetch(
                cluster,
                connection,
                {tp: offset},
                bytes_max=bytes_max,
                partition_bytes_max=bytes_max,
                wait_ms=_WAIT_MS,
                isolation=isolation,
            )
            if row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE or (not row.error_code and len(row.records)):
                return row
            fault = ProtocolError(row.error_code, f"partition {tp}")
            if not row.error_code:
                fault = TimeoutError(f"partition {tp} gave nothing at offset {offset}, before {stop}")
            elif row.error_code not in STALE:
                raise fault
        except (StaleMetadata, Unreachable, ConnectionLost) as error:
            fault = error
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or loop.time() >= gone_s:
                raise
            fault = refusal  # A broker that has just started may not know yet what there is.
        if loop.time() >= deadline_s:
            raise fault
        cluster.forget([tp.topic])
        await asyncio.sleep(RETRY_PAUSE_S)


class _Fetcher:
    """The pieces of one task's range."""

    def __init__(self, task: Task, share: int = 1) -> None:
        piece, options = task.range, task.options
        self.partition: TopicPartition = piece.partition
        self.isolation = options.isolation
        self.blocking = _cluster_of(options)
        #: How much is asked for at a time.
        self.bytes_max = max(options.partition_bytes_max // share, min(_SHARE_BYTES_MIN, options.partition_bytes_max))
        self._options = options
        self._stop = piece.stop
        self._decoder = task.decoder()
        self._under_way: asyncio.Task[Fetched] | None = None

    @property
    def position(self) -> int:
        """The next offset to fetch."""
        return self._decoder.position

    def part_of(self, fetched: Fetched) -> Part | None:
        """What there is to decode of the first piece, which somebody else fetched; None where it is none."""
        if fetched.error_code:
            return None
        return Part(self._decoder, fetched.records, self._decoder.survey(fetched.records, fetched.aborted))

    def begin(self) -> None:
        """Ask for the next piece, if there is one, without waiting for it."""
        if not self._decoder.is_done:
            self._under_way = self.blocking.start(self._fetch(self._decoder.position))

    def cancel(self) -> None:
        """Let go of what was asked for."""
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Fetch and decode up to the stop."""
        decoder, blocking = self._decoder, self.blocking
        try:
            while not decoder.is_done:
                if self._under_way is None:
                    self.begin()
                assert self._under_way is not None
                try:
                    fetched = blocking.run(_result(self._under_way))
                except ProtocolError as refusal:
                    if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                        raise
                    self._under_way = None
                    decoder.skip_to(self._after_the_end())
                    continue
                self._under_way = None
                if fetched.error_code:
                    decoder.skip_to(self._after_loss())
                    continue
                before = decoder.position
                places = decoder.survey(fetched.records, fetched.aborted)
                if decoder.position == before:
                    self.bytes_max = min(2 * self.bytes_max, _BYTES_MAX)  # Not one whole batch fitted.
                self.begin()
                table = decoder.decode(fetched.records, places)
                if table is not None:
                    yield table
        finally:
            self.cancel()

    async def _fetch(self, offset: int) -> Fetched:
        return await fetch_from(
            self.blocking.cluster,
            self.partition,
            offset,
            stop=self._stop,
            bytes_max=self.bytes_max,
            isolation=self.isolation,
        )

    def _after_loss(self) -> int:
        """Where to go on after an offset that is not there, unless that is an error."""
        tp, offset = self.partition, self._decoder.position
        self._report(f"partition {tp} no longer has offset {offset}; the records up to {self._stop} were to be read")
        earliest = self.blocking.run(list_offsets(self.blocking.cluster, {tp: EARLIEST}))[tp].offset
        # Not before what is there but behind it: the log was cut, and the rest of the range with it.
        return min(earliest, self._stop) if earliest > offset else self._stop

    def _after_the_end(self) -> int:
        """Where to go on after a partition that is gone, unless that is an error."""
        tp, offset = self.partition, self._decoder.position
        self._report(f"partition {tp} is gone; its records from offset {offset} up to {self._stop} were to be read")
        return self._stop

    def _report(self, what: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLost(what)
        _log.warning("data was lost: %s", what)


async def _result(task: "asyncio.Task[Fetched]") -> Fetched:
    return await task
