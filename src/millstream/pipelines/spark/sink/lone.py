"""A task that is all of its batch: its rows and the decision for them are one transaction, which it commits."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from millstream.client.producing import ProducerId
from millstream.pipelines.spark.sink.coordinator import Held
from millstream.pipelines.spark.sink.options import SinkOptions
from millstream.pipelines.spark.sink.process import SinkProcess
from millstream.pipelines.spark.sink.routing import Chunk, Router
from millstream.pipelines.spark.sink.sending import Sender, Sending
from millstream.pipelines.spark.sink.tasks import Done, partition_counts

#: No more than this is written with a decision, whose transaction is there for ten seconds at most.
BYTES_MAX = 1024 * 1024


def in_hand(
    rows: Iterator[pa.RecordBatch], bytes_max: int = BYTES_MAX
) -> tuple[list[pa.RecordBatch] | None, Iterator[pa.RecordBatch]]:
    """All rows, if they are no more than so many bytes, else None; and an iterator of all of them."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in rows:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > bytes_max:
            return None, chain(held, rows)
    return held, iter(held)


def can_go_with_decision(options: SinkOptions, chunk: Chunk) -> bool:
    """Not into the topic of decisions: there the record that decides is the first of its transaction."""
    return options.decisions_topic not in chunk.topics(options.topic)


def note_of(held: Held) -> list[int]:
    """A fence as a note to the next lone task."""
    return [*held.producer, held.batch, held.looked_ms]


def held_of(note: Any, attempt: int = 0) -> Held | None:
    """The fence of a note, for this attempt at a task; None where it is none, or not ours.

    An attempt before may have left something open. This one looks for it, however lately another batch's task looked:
    the next batch may be long in coming.
    """
    try:
        producer_id, epoch, batch, looked_ms = map(int, note)
    except (TypeError, ValueError):
        return None
    return Held(ProducerId(producer_id, epoch), batch, 0 if attempt else looked_ms)


class NotAlone(Exception):
    """The batch has other tasks: it is to be written the way of those, and nothing of it was decided here."""


class LoneTask:
    """Commits a batch that is nothing but ``chunk``; that is None where it has no rows.

    ``is_alone`` tells whether it is, and may wait for that: it is asked when the rows are written and do not count yet.
    """

    def __init__(
        self, here: SinkProcess, options: SinkOptions, chunk: Chunk | None, first: int, is_alone: Callable[[], bool]
    ) -> None:
        self._here = here
        self._options = options
        self._chunk = chunk
        self._first = first
        self._is_alone = is_alone
        self._sender: Sender | None = None

    async def commit(self, query: str, batch: int) -> Done:
        """Have the batch decided and carried out, with these rows or, if it was decided before, without them.

        NotAlone where that is not for this task to do.
        """
        counts = {} if self._chunk is None else await partition_counts(self._here, self._options, self._chunk)

        async def send(producer: ProducerId, transactional_id: str) -> None:
            await self._send(Sending(producer, transactional_id, self._options.compression), counts)
            self._check_alone()

        await self._here.driver(query).commit_with(batch, send)
        self._check_alone()  # Nothing was sent, perhaps.
        sender = self._sender
        return Done(None, sender.records if sender else 0, sender.size_bytes if sender else 0, is_settled=True)

    def _check_alone(self) -> None:
        if not self._is_alone():
            raise NotAlone

    async def _send(self, sending: Sending, counts: dict[str, int]) -> None:
        if self._chunk is None:
            return
        options = self._options
        router = Router(self._first, options.batch_bytes, options.record_bytes_max)
        sender = self._sender = Sender(self._here.coordinators, sending, self._here.clock, options.buffer_bytes)
        try:
            for tp, rows in router.batches(self._chunk, options.topic, counts):
                await sender.send(tp, rows)
            await sender.flush()
        except BaseException:
            await sender.cancel()
            raise
