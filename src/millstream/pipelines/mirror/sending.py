"""Raw batches into the target: many requests under way, one batch of each partition in a request, order kept.

What is refused, or was on a connection that broke, is sent again in its order, one at a time, until it is there: each
batch has its sequence number, so it is there once.
"""

import asyncio
import functools
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

from millstream.client.coordinators import Coordinators
from millstream.client.partitions import ACKS_ALL, NO_OFFSET, version_by_name_or_id
from millstream.client.producing import IMPLICIT_FROM, ProducerId, add_partition, produce_as
from millstream.client.wire import Connection
from millstream.model.batch import SEQUENCE_MASK
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition, Uuid
from millstream.pipelines.mirror.rewriting import Outgoing, halves, sign
from millstream.pipelines.mirror.translation import Run, joined
from millstream.pipelines.spark.sink.routing import RowError
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

#: A broker remembers a producer's last five batches of a partition; more must not be under way.
UNDER_WAY_MAX = 5
#: Requests to one broker that wait for their answers; while they do, batches gather for the next.
REQUESTS_MAX = 4
REQUEST_BYTES = 1024 * 1024
#: What is held of one partition that is not acknowledged.
LANE_BYTES = 4 * 1024 * 1024
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_THERE = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


@dataclass(slots=True)
class _Parcel:
    """A batch with its sequence number, and where it went once that is known."""

    outgoing: Outgoing
    sequence: int
    base_offset: int | None = None
    is_answered: bool = False


@dataclass(slots=True)
class _Lane:
    """The batches of one partition, in order."""

    tp: TopicPartition
    topic_id: Uuid = b""
    connection: Connection | None = None
    sequence: int = 0
    waiting: deque[_Parcel] = field(default_factory=deque)
    under_way: deque[_Parcel] = field(default_factory=deque)
    is_recovering: bool = False
    held_bytes: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_ready(self) -> bool:
        return bool(self.waiting) and not self.is_recovering and len(self.under_way) < UNDER_WAY_MAX


class Sender:
    """Sends batches in one transaction. A failure comes out of the next call."""

    def __init__(self, coordinators: Coordinators, producer: ProducerId, transactional_id: str) -> None:
        self.records = 0
        self.size_bytes = 0
        self._coordinators = coordinators
        self._producer = producer
        self._transactional_id = transactional_id
        self._held = 0
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._runs: dict[TopicPartition, list[Run]] = {}
        self._requests: dict[Connection, int] = {}
        self._woken: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._emptied = asyncio.Event()
        self._failure: BaseException | None = None

    def runs(self, tp: TopicPartition) -> list[Run]:
        """What became of the offsets of the batches that were acknowledged."""
        return joined(self._runs.get(tp, ()))

    async def send(self, tp: TopicPartition, outgoing: Outgoing) -> None:
        """Begin to send a batch, once there is room for it; those of one partition are given one after the other."""
        size = len(outgoing.batch)
        lane = self._lanes.setdefault(tp, _Lane(tp))
        if lane.held_bytes and lane.held_bytes + size > LANE_BYTES:
            while lane.held_bytes > LANE_BYTES // 2:  # Much at a time, for each time costs.
                await self._some_move(lane.moved)
        if lane.connection is None and not lane.is_recovering:
            await self._open(lane)
        sign(outgoing.batch, self._producer.id, self._producer.epoch, lane.sequence)
        lane.waiting.append(_Parcel(outgoing, lane.sequence))
        lane.sequence = (lane.sequence + outgoing.records) & SEQUENCE_MASK
        self.records += outgoing.records
        self.size_bytes += size
        lane.held_bytes += size
        self._held += 1
        if lane.connection is not None:
            self._wake(lane.connection)

    async def flush(self) -> None:
        """Return when all that was sent is acknowledged."""
        while self._held:
            await self._some_move(self._emptied)
        self._check()

    async def cancel(self) -> None:
        """Let go of what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _some_move(self, moved: asyncio.Event) -> None:
        """Return when it is set; connections that are silent for too long are given up."""
        self._check()
        moved.clear()
        timeout_s = self._coordinators.cluster.timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await moved.wait()
        except TimeoutError:
            silent = [connection for connection, count in self._requests.items() if count and not connection.is_closed]
            if not silent and not self._tasks:
                raise TimeoutError(f"nothing was acknowledged within {timeout_s:g} s") from None
            for connection in silent:
                connection.close()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _open(self, lane: _Lane) -> None:
        """Find who takes the partition's batches."""
        cluster = self._coordinators.cluster

        async def attempt() -> None:
            connection = await cluster.leader(lane.tp)
            lane.topic_id = (await cluster.topic(lane.tp.topic)).id
            if version_by_name_or_id(connection, ProduceRequest, lane.topic_id) < IMPLICIT_FROM:
                await add_partition(self._coordinators, self._transactional_id, self._producer, lane.tp)
            lane.connection = connection

        await cluster.retrying([lane.tp.topic], attempt)

    def _wake(self, connection: Connection) -> None:
        """Send in a moment: what comes until then goes along."""
        if connection not in self._woken:
            self._woken.add(connection)
            connection.loop.call_soon(self._pump, connection)

    def _pump(self, connection: Connection) -> None:
        """Send what may be sent to a broker now."""
        self._woken.discard(connection)
        frames = []
        while self._requests.get(connection, 0) < REQUESTS_MAX and (taken := self._take(connection)):
            self._requests[connection] = self._requests.get(connection, 0) + 1
            version = min(version_by_name_or_id(connection, ProduceRequest, lane.topic_id) for lane, _ in taken)
            request = ProduceRequest(
                transactional_id=self._transactional_id,
                acks=ACKS_ALL,
                timeout_ms=int(self._coordinators.cluster.timeout_s * 1000),
                topic_data=_topics(taken),
            )
            answered = functools.partial(self._answered, connection, version, taken)
            frames.append((connection.frame_of(request, version), answered))
        if frames and connection.is_closed:
            for _, answered in frames:
                answered(None)
        elif frames:
            connection.send_frames(frames)

    def _take(self, connection: Connection) -> list[tuple[_Lane, _Parcel]]:
        taken = []
        size = 0
        for lane in self._lanes.values():
            if lane.connection is connection and lane.is_ready and size < REQUEST_BYTES:
                parcel = lane.waiting.popleft()
                lane.under_way.append(parcel)
                taken.append((lane, parcel))
                size += len(parcel.outgoing.batch)
        return taken

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            for moved in (self._emptied, *(lane.moved for lane in self._lanes.values())):
                moved.set()

    def _answered(
        self, connection: Connection, version: int, taken: list[tuple[_Lane, _Parcel]], frame: memoryview | None
    ) -> None:
        """A broker has answered, or its connection was lost."""
        self._requests[connection] -= 1
        places: dict[tuple[str | Uuid, int], int] = {}
        if frame is not None:
            for topic in connection.answer_of(ProduceResponse, frame, version).responses:
                for row in topic.partition_responses:
                    if row.error_code in _THERE:
                        places[topic.name or topic.topic_id, row.index] = row.base_offset
        for lane, parcel in taken:
            parcel.is_answered = True
            by_name = places.get((lane.tp.topic, lane.tp.partition))
            parcel.base_offset = places.get((lane.topic_id, lane.tp.partition), by_name)
        for lane, _ in taken:
            self._settle(lane)
        self._wake(connection)

    def _settle(self, lane: _Lane) -> None:
        """Let go of what is there; see to what is not, once nothing of its partition is under way any more."""
        while lane.under_way and lane.under_way[0].base_offset is not None:
            parcel = lane.under_way.popleft()
            self._arrived(lane, parcel, parcel.outgoing.runs(parcel.base_offset or 0))
        if lane.under_way and not lane.is_recovering and all(parcel.is_answered for parcel in lane.under_way):
            lane.is_recovering = True
            lane.connection = None
            self._start(self._recover(lane))

    def _arrived(self, lane: _Lane, parcel: _Parcel, runs: Iterable[Run]) -> None:
        lane.held_bytes -= len(parcel.outgoing.batch)
        self._held -= 1
        if parcel.base_offset != NO_OFFSET:
            self._runs.setdefault(lane.tp, []).extend(runs)
        if lane.held_bytes <= LANE_BYTES // 2:
            lane.moved.set()
        if not self._held:
            self._emptied.set()

    async def _recover(self, lane: _Lane) -> None:
        """Send what was refused or lost again, one batch after the other."""
        while lane.under_way:
            parcel = lane.under_way[0]
            runs = await self._again(lane.tp, parcel.outgoing, parcel.sequence)
            lane.under_way.popleft()
            self._arrived(lane, parcel, runs)
        await self._open(lane)
        lane.is_recovering = False
        if lane.connection is not None:
            self._wake(lane.connection)

    async def _again(self, tp: TopicPartition, outgoing: Outgoing, sequence: int) -> list[Run]:
        try:
            produced = await produce_as(
                self._coordinators, tp, bytes(outgoing.batch), self._producer, self._transactional_id
            )
        except ProtocolError as refusal:
            if refusal.code not in _TOO_LARGE:
                raise
            if outgoing.records == 1:
                raise RowError(
                    f"a record of {len(outgoing.batch)} bytes is larger than topic {tp.topic!r} takes "
                    f"(max.message.bytes)"
                ) from refusal
            found = []
            for half in halves(outgoing):  # Records keep their sequence numbers.
                sign(half.batch, self._producer.id, self._producer.epoch, sequence)
                found += await self._again(tp, half, sequence)
                sequence = (sequence + half.records) & SEQUENCE_MASK
            return found
        return [] if produced.base_offset == NO_OFFSET else list(outgoing.runs(produced.base_offset))


def _topics(taken: list[tuple[_Lane, _Parcel]]) -> list[TopicProduceData]:
    found: dict[str, TopicProduceData] = {}
    for lane, parcel in taken:
        topic = found.setdefault(
            lane.tp.topic, TopicProduceData(name=lane.tp.topic, topic_id=lane.topic_id, partition_data=[])
        )
        topic.partition_data.append(PartitionProduceData(index=lane.tp.partition, records=parcel.outgoing.batch))
    return list(found.values())
