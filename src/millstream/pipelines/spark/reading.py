"""A task: one range of a partition, fetched piece by piece and handed to Spark as Arrow.

One piece is under way while the one before it is decoded, so what a task holds is bounded by two fetches, whatever
the length of its range.
"""

import asyncio
import logging
from collections.abc import Iterator

import pyarrow as pa

from millstream.client.cluster import RETRY_PAUSE_S, STALE, Cluster, StaleMetadata
from millstream.client.partitions import EARLIEST, Fetched, fetch, list_offsets
from millstream.client.wire import ConnectionLost, Unreachable
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.cluster import BlockingCluster
from millstream.pipelines.spark.options import SourceOptions
from millstream.pipelines.spark.planning import DataLost
from millstream.pipelines.spark.task import Task

_log = logging.getLogger(__name__)

#: A worker process serves many tasks, and keeps its connections from one to the next.
_clusters: dict[tuple[str, str, int], BlockingCluster] = {}

_BYTES_MAX = 1 << 30
_WAIT_MS = 500


def read_from_brokers(task: Task) -> Iterator[pa.RecordBatch]:
    """The records of the task's range, in order."""
    return _Fetcher(task).batches()


def _cluster_of(options: SourceOptions) -> BlockingCluster:
    key = (options.bootstrap, options.client_id, options.timeout_ms)
    if key not in _clusters:
        _clusters[key] = BlockingCluster(*key)
    return _clusters[key]


async def fetch_from(
    cluster: Cluster, tp: TopicPartition, offset: int, *, stop: int, bytes_max: int, isolation: int
) -> Fetched:
    """Batches from ``offset`` on, or the refusal OFFSET_OUT_OF_RANGE; whatever may pass is waited for."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + cluster.timeout_s
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
        if loop.time() >= deadline_s:
            raise fault
        cluster.forget([tp.topic])
        await asyncio.sleep(RETRY_PAUSE_S)


class _Fetcher:
    """The pieces of one task's range."""

    def __init__(self, task: Task) -> None:
        piece, options = task.range, task.options
        self._options = options
        self._tp: TopicPartition = piece.partition
        self._stop = piece.stop
        self._blocking = _cluster_of(options)
        self._bytes_max = options.partition_bytes_max
        self._decoder = task.decoder()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Fetch and decode up to the stop."""
        decoder, blocking = self._decoder, self._blocking
        under_way: asyncio.Task[Fetched] | None = None
        try:
            while not decoder.is_done:
                fetching = under_way or blocking.start(self._fetch(decoder.position))
                under_way = None
                fetched = blocking.run(_result(fetching))
                if fetched.error_code:
                    decoder.skip_to(self._after_loss(fetched))
                    continue
                before = decoder.position
                places = decoder.survey(fetched.records, fetched.aborted)
                if decoder.position == before:
                    self._bytes_max = min(2 * self._bytes_max, _BYTES_MAX)  # Not one whole batch fitted.
                if not decoder.is_done:
                    under_way = blocking.start(self._fetch(decoder.position))
                table = decoder.decode(fetched.records, places)
                if table is not None:
                    yield table
        finally:
            if under_way is not None:
                under_way.cancel()

    async def _fetch(self, offset: int) -> Fetched:
        return await fetch_from(
            self._blocking.cluster,
            self._tp,
            offset,
            stop=self._stop,
            bytes_max=self._bytes_max,
            isolation=self._options.isolation,
        )

    def _after_loss(self, refused: Fetched) -> int:
        """Where to go on after an offset that is not there, unless that is an error."""
        tp, offset = self._tp, self._decoder.position
        lost = DataLost(f"partition {tp} no longer has offset {offset}; the records up to {self._stop} were to be read")
        if self._options.fails_on_data_loss:
            raise lost
        earliest = self._blocking.run(list_offsets(self._blocking.cluster, {tp: EARLIEST}))[tp].offset
        _log.warning("partition %s: offsets from %d on are gone, it starts at %d", tp, offset, earliest)
        # Not before what is there but behind it: the log was cut, and the rest of the range with it.
        return min(earliest, self._stop) if earliest > offset else self._stop


async def _result(task: "asyncio.Task[Fetched]") -> Fetched:
    return await task
