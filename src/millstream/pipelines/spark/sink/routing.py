"""Rows to the partitions they belong to, a chunk of them at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.sink.encoding import Rows, cuts, places_of, sizes_of
from millstream.pipelines.spark.sink.partitioning import partitions_of

Ints = npt.NDArray[np.int64]


class RowError(ValueError):
    """A row that cannot be written; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows of a task, in their order."""

    rows: Rows
    #: None where the option says where all rows go.
    topic: pa.Array | None = None
    partition: pa.Array | None = None

    def topics(self, default: str) -> list[str]:
        """Every topic that rows go to; RowError for a row without one."""
        if self.topic is None:
            return [default]
        if self.topic.null_count:
            row = int(np.argmax(np.asarray(self.topic.is_null())))
            raise RowError(f"row {row} of {len(self.topic)} has no topic: its column is null, and no option gives one")
        return sorted(pc.unique(self.topic).to_pylist())

    def last_partition(self) -> int:
        """The highest partition that a row names; -1 where none does."""
        highest = None if self.partition is None else pc.max(self.partition).as_py()
        return -1 if highest is None else int(highest)

    def of_topic(self, topic: str) -> "Chunk":
        """The rows of one topic."""
        if self.topic is None:
            return self
        is_there = pc.equal(self.topic, topic)
        if pc.all(is_there).as_py():
            return Chunk(self.rows, None, self.partition)
        indexes = pa.array(np.flatnonzero(np.asarray(is_there)))
        return Chunk(self.rows.take(indexes), None, None if self.partition is None else self.partition.take(indexes))


class Router:
    """Chooses partitions: the row's own, else its key's, else one after the other, a batch each."""

    def __init__(self, first: int, batch_bytes: int, record_bytes_max: int) -> None:
        self._first = first
        self._batch_bytes = batch_bytes
        self._record_bytes_max = record_bytes_max
        self._turns: dict[str, int] = {}

    def batches(self, chunk: Chunk, default: str, counts: Mapping[str, int]) -> Iterator[tuple[TopicPartition, Rows]]:
        """What goes where, batch by batch; ``counts`` are the topics' numbers of partitions."""
        for topic in chunk.topics(default):
            part = chunk.of_topic(topic)
            yield from self._of_topic(topic, part, counts[topic])

    def _of_topic(self, topic: str, chunk: Chunk, count: int) -> Iterator[tuple[TopicPartition, Rows]]:
        rows = chunk.rows
        sizes = sizes_of(rows)
        self._check_sizes(topic, sizes)
        wanted = self._wanted(topic, chunk, count)
        if wanted is None:
            yield from self._in_turn(topic, rows, sizes, count)
            return
        order = np.argsort(wanted, kind="stable")
        sorted_rows, sizes, wanted = rows.take(pa.array(order)), sizes[order], wanted[order]
        bounds = [0, *(np.flatnonzero(np.diff(wanted)) + 1).tolist(), len(wanted)]
        for start, end in pairwise(bounds):
            some, its_sizes = sorted_rows.slice(start, end - start), sizes[start:end]
            if wanted[start] < 0:
                yield from self._in_turn(topic, some, its_sizes, count)
                continue
            for at, stop in cuts(its_sizes, self._batch_bytes):
                yield TopicPartition(topic, int(wanted[start])), some.slice(at, stop - at)

    def _in_turn(self, topic: str, rows: Rows, sizes: Ints, count: int) -> Iterator[tuple[TopicPartition, Rows]]:
        """Rows that may go anywhere: whole batches, each to the next partition."""
        share = max(1, -(-int(sizes.sum()) // count))
        # With little to send one batch is cheaper than one for each partition; over many calls all have their turn.
        bytes_max = self._batch_bytes if share < self._batch_bytes // 8 else min(self._batch_bytes, share + share // 8)
        for at, stop in cuts(sizes, bytes_max):
            turn = self._turns.get(topic, self._first)
            self._turns[topic] = turn + 1
            yield TopicPartition(topic, turn % count), rows.slice(at, stop - at)

    def _wanted(self, topic: str, chunk: Chunk, count: int) -> Ints | None:
        """The partition of each row, -1 where any will do; None where any will do for all."""
        key, partition = chunk.rows.key, chunk.partition
        has_keys = key is not None and key.null_count < len(key)
        has_partitions = partition is not None and partition.null_count < len(partition)
        if not has_keys and not has_partitions:
            return None
        wanted = np.full(len(chunk.rows), -1, np.int64)
        if has_keys:
            assert key is not None
            data, starts, lengths = places_of(key)
            is_keyed = lengths >= 0
            wanted[is_keyed] = partitions_of(data, starts[is_keyed], lengths[is_keyed], count)
        if has_partitions:
            assert partition is not None
            is_given = ~np.asarray(partition.is_null())
            given = np.asarray(pc.fill_null(partition, 0)).astype(np.int64)[is_given]
            if wrong := given[(given < 0) | (given >= count)].tolist():
                raise RowError(f"partition {wrong[0]}: topic {topic!r} has partitions 0 to {count - 1}")
            wanted[is_given] = given
        return wanted

    def _check_sizes(self, topic: str, sizes: Ints) -> None:
        if len(sizes) and int(sizes.max()) > self._record_bytes_max:
            raise RowError(
                f"a record of {int(sizes.max())} bytes for topic {topic!r} is larger than "
                f"kafka.max.request.size={self._record_bytes_max}"
            )
