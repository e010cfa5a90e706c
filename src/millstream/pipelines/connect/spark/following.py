"""What is told of a connector's batches, from Spark's own progress of them."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from millstream.model.errors import ProtocolError
from millstream.pipelines.connect.job import Job, Place
from millstream.pipelines.connect.places import Document, moved, places_of
from millstream.pipelines.connect.reports import Batch, Offsets, Report, Started
from millstream.pipelines.connect.spark.queries import commit_group
from millstream.pipelines.connect.spark.source import topics_of
from millstream.pipelines.running.reports import batch_of
from millstream.pipelines.spark import planning
from millstream.pipelines.spark.sink.process import SinkProcess

_log = logging.getLogger("millstream.connect")


class Following(Protocol):
    """Follows a query from batch to batch."""

    def begin(self) -> list[Report]:
        """What is to be told once it runs."""
        ...

    def advance(self, progress: Mapping[str, Any]) -> list[Report]:
        """What is to be told of a batch that was committed."""
        ...


class _Tasks:
    """How many tasks a connector has: as many as partitions, up to ``tasks.max``; they only become more."""

    def __init__(self, job: Job, partitions: int) -> None:
        self._max = job.tasks_max
        self.count = min(self._max, max(1, partitions))

    def grown(self, partitions: int) -> list[Report]:
        """What is to be told with so many partitions."""
        if min(self._max, partitions) <= self.count:
            return []
        self.count = min(self._max, partitions)
        return [Started(self.count)]


class SourceFollowing:
    """How far a source is."""

    def __init__(self, job: Job, document: Document, partitions: int) -> None:
        self._job = job
        self._document = document
        self._tasks = _Tasks(job, partitions)

    def begin(self) -> list[Report]:
        return [Started(self._tasks.count), Offsets(tuple(places_of(self._document)))]

    def advance(self, progress: Mapping[str, Any]) -> list[Report]:
        before, self._document = self._document, _end_of(progress) or self._document
        places = moved(before, self._document)
        batch = batch_of(dict(progress))
        # Each partition that moved wrote a record of its own to the topic of offsets.
        records = batch.rows_in - (len(places) if self._job.offsets_topic else 0)
        told = Batch(batch.number, max(records, 0), batch.took_ms, tuple(topics_of(self._job)))
        grown = self._tasks.grown(len(self._document))
        return [*grown, *([Offsets(tuple(places))] if places else []), told]


class SinkFollowing:
    """How far a sink is; shown to others as its group's offsets."""

    def __init__(self, here: SinkProcess, job: Job, offsets: planning.Offsets, partitions: int) -> None:
        self._here = here
        self._job = job
        self._offsets = offsets
        self._tasks = _Tasks(job, partitions)

    def begin(self) -> list[Report]:
        return [Started(self._tasks.count), *self._show(self._offsets)]

    def advance(self, progress: Mapping[str, Any]) -> list[Report]:
        before, self._offsets = self._offsets, planning.from_document(_end_of(progress)) or self._offsets
        changed = {tp: offset for tp, offset in self._offsets.items() if before.get(tp) != offset}
        batch = batch_of(dict(progress))
        topics = tuple(sorted({tp.topic for tp in changed}))
        told = Batch(batch.number, batch.rows_in, batch.took_ms, topics, batch.lag)
        return [*self._tasks.grown(len(self._offsets)), *self._show(changed), told]

    def _show(self, changed: planning.Offsets) -> list[Report]:
        try:
            commit_group(self._here, self._job, changed)
        except (ProtocolError, OSError, TimeoutError) as error:
            # The checkpoint says where to go on; the group only shows it, and does so with the next batch.
            _log.warning("the group's offsets were not committed: %s", error)
        places: list[Place] = [
            {
                "partition": {"kafka_topic": tp.topic, "kafka_partition": tp.partition},
                "offset": {"kafka_offset": offset},
            }
            for tp, offset in sorted(changed.items())
        ]
        return [Offsets(tuple(places))] if places else []


def _end_of(progress: Mapping[str, Any]) -> Document:
    [source] = progress["sources"]
    found = source["endOffset"]
    document = json.loads(found) if isinstance(found, str) else found
    return document or {}
