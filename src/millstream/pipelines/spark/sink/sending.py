"""Batches on their way: one at a time to each partition, so that order holds, and never more than fits the buffer."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from millstream.client.coordinators import Coordinators
from millstream.client.producing import ProducerId, produce_as
from millstream.model.batch import SEQUENCE_MASK
from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.sink.encoding import Rows, Stamp, encode_rows
from millstream.pipelines.spark.sink.routing import RowError


@dataclass(frozen=True, slots=True)
class Sending:
    """Under which name batches are sent; without a transactional id, outside of any transaction."""

    producer: ProducerId
    transactional_id: str | None
    compression: int


class Sender:
    """Sends batches as one producer. A failure comes out of the next call."""

    def __init__(self, coordinators: Coordinators, sending: Sending, clock: Clock, buffer_bytes: int) -> None:
        self.records = 0
        self.size_bytes = 0
        self._coordinators = coordinators
        self._sending = sending
        self._clock = clock
        self._room_bytes = buffer_bytes
        self._sequences: dict[TopicPartition, int] = {}
        self._last: dict[TopicPartition, asyncio.Task[None]] = {}
        self._under_way: dict[asyncio.Task[None], int] = {}

    async def send(self, tp: TopicPartition, rows: Rows) -> None:
        """Begin to send a batch, once there is room for it."""
        sequence = self._sequences.get(tp, 0)
        self._sequences[tp] = (sequence + len(rows)) & SEQUENCE_MASK
        batch = self._encoded(rows, sequence)
        self.records += len(rows)
        self.size_bytes += len(batch)
        while self._under_way and self._room_bytes < len(batch):
            await self._some_arrival()
        self._room_bytes -= len(batch)
        task = asyncio.create_task(self._arrive(tp, rows, batch, sequence, self._last.get(tp)))
        self._last[tp] = task
        self._under_way[task] = len(batch)
        await asyncio.sleep(0)  # It leaves now, not when the next is encoded.

    async def flush(self) -> None:
        """Return when all that was sent is acknowledged."""
        while self._under_way:
            await self._some_arrival()

    async def cancel(self) -> None:
        """Let go of what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _some_arrival(self) -> None:
        done = set(self._under_way)
        if len(done) == 1:  # As it is in a small micro-batch; to wait for several takes longer.
            with suppress(Exception):
                await next(iter(done))
        else:
            done, _ = await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            self._room_bytes += self._under_way.pop(task)
            task.result()

    async def _arrive(
        self, tp: TopicPartition, rows: Rows, batch: bytearray, sequence: int, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await before
        await self._produce(tp, rows, batch, sequence)

    async def _produce(self, tp: TopicPartition, rows: Rows, batch: bytearray, sequence: int) -> None:
        sending = self._sending
        try:
            await produce_as(self._coordinators, tp, batch, sending.producer, sending.transactional_id)
        except ProtocolError as refusal:
            if refusal.code not in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                raise
            if len(rows) == 1:
                raise RowError(
                    f"a record of {len(batch)} bytes is larger than topic {tp.topic!r} takes (max.message.bytes)"
                ) from refusal
            half = len(rows) // 2  # The topic takes less than we thought; records keep their sequence numbers.
            for part, number in (
                (rows.slice(0, half), sequence),
                (rows.slice(half, len(rows) - half), sequence + half),
            ):
                await self._produce(tp, part, self._encoded(part, number), number & SEQUENCE_MASK)

    def _encoded(self, rows: Rows, sequence: int) -> bytearray:
        sending = self._sending
        stamp = Stamp(
            sending.producer.id, sending.producer.epoch, sequence & SEQUENCE_MASK, sending.transactional_id is not None
        )
        return encode_rows(rows, timestamp_ms=self._clock.now_ms(), compression=sending.compression, stamp=stamp)
