"""Producers and consumers that hold the cluster to its word."""

import asyncio
import random
from collections import deque
from collections.abc import Callable

from millstream.broker.handlers.produce import LARGE_BYTES
from millstream.model.batch import HEADER_BYTES, header_at
from millstream.model.errors import ErrorCode
from millstream.model.records import Record, decode_batch, encode_batch
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.simulation.cluster.clients import LATER, PAUSE_S, Way
from tests.simulation.cluster.ledger import Ledger
from tests.simulation.loop import EPOCH_MS

#: How often a batch is large, so that a thread writes it beside others; and what fills it then.
LARGE_CHANCE = 0.1
FILLING = bytes(2 * LARGE_BYTES)
PRODUCE_VERSION = 11
FETCH_VERSION = 12


class Producer:
    """Sends batches to one partition in order, a few at a time, until it is stopped; then until all are answered.

    With ``is_safe`` it is idempotent and waits for all in-sync replicas: each of its records is there once, in order.
    Otherwise it is content with the leader's word, and sends each batch once.
    """

    def __init__(
        self,
        way: Way,
        ledger: Ledger,
        rng: random.Random,
        name: str,
        place: tuple[str, int],
        newest_epoch: Callable[[str, int], int],
        *,
        is_safe: bool,
        has_large: bool = False,
    ) -> None:
        """``newest_epoch`` is a partition's, as the registry has it; ``has_large``: some of its batches are large."""
        self._way = way
        self._newest_epoch = newest_epoch
        self._ledger = ledger
        self._rng = rng
        self.name = name
        self.place = place
        self.is_safe = is_safe
        self._large_chance = LARGE_CHANCE if has_large else 0.0
        self.is_stopped = False
        self.sent: list[bytes] = []
        self._window = rng.choice((1, 1, 3)) if is_safe else 1
        self._pause_s = rng.choice((0.2, 0.5, 1.0))
        self._duplicates = rng.choice((0.0, 0.05)) if is_safe else 0.0
        self._producer_id = -1
        #: Batches not yet answered well: their first sequence and values.
        self._open: deque[tuple[int, list[bytes]]] = deque()

    async def run(self) -> None:
        """Produce; returns when it was stopped and nothing is open."""
        if self.is_safe:
            await self._begin()
        while not (self.is_stopped and not self._open):
            while not self.is_stopped and len(self._open) < self._window:
                self._open.append(self._next())
            await self._send_open()
            if not self.is_safe:
                self._open.clear()
            await asyncio.sleep(self._rng.uniform(0, self._pause_s))

    async def _begin(self) -> None:
        while self._producer_id < 0:
            try:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                answer = await self._way.call(await self._way.anybody(), request, InitProducerIdResponse, 4)
                if not answer.error_code:
                    self._producer_id = answer.producer_id
                    return
            except OSError:
                self._way.forget()
            await asyncio.sleep(self._rng.uniform(0.01, PAUSE_S))

    def _next(self) -> tuple[int, list[bytes]]:
        sequence = len(self.sent)
        values = [f"{self.name}.{sequence + number}".encode() for number in range(self._rng.randint(1, 3))]
        if self._rng.random() < self._large_chance:
            values[-1] += FILLING
        self.sent += values
        return sequence, values

    async def _send_open(self) -> None:
        """Send everything that is open, in order, and take what was answered well off; the rest is sent again."""
        try:
            leader, epoch = await self._way.leader(*self.place)
            connection = await self._way.to(leader)
            batches = list(self._open)
            if self._rng.random() < self._duplicates:
                batches.insert(0, batches[0])
            calls = [
                asyncio.ensure_future(
                    self._way.call(connection, self._request(*batch), ProduceResponse, PRODUCE_VERSION)
                )
                for batch in batches
            ]
            await asyncio.wait(calls)
            for batch, call in zip(batches, calls, strict=True):
                if call.cancelled() or call.exception() is not None:
                    self._way.forget()
                    await asyncio.sleep(self._rng.uniform(0.01, PAUSE_S))
                    return
                if not self._answered(batch, call.result().responses[0].partition_responses[0], epoch):
                    self._way.forget()
                    await asyncio.sleep(self._rng.uniform(0.01, PAUSE_S))
                    return
        except OSError:
            self._way.forget()
            await asyncio.sleep(self._rng.uniform(0.01, PAUSE_S))

    def _request(self, sequence: int, values: list[bytes]) -> ProduceRequest:
        batch = encode_batch(
            [Record(number, EPOCH_MS, None, value) for number, value in enumerate(values)],
            producer_id=self._producer_id,
            producer_epoch=0 if self.is_safe else -1,
            base_sequence=sequence if self.is_safe else -1,
        )
        topic, partition = self.place
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))]
        )
        return ProduceRequest(acks=-1 if self.is_safe else 1, timeout_ms=3_000, topic_data=[data])

    def _answered(self, batch: tuple[int, list[bytes]], row: PartitionProduceResponse, leader_epoch: int) -> bool:
        """Take note of the answer of a leader under this epoch; says whether the batch is done with."""
        code = ErrorCode(row.error_code)
        is_open = bool(self._open) and self._open[0] == batch
        if code in LATER:
            return False
        if not self.is_safe:
            return True
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._close(batch)
            return True
        if code is ErrorCode.NONE:
            if row.base_offset >= 0:
                for number, value in enumerate(batch[1]):
                    self._ledger.acknowledge(self.place, row.base_offset + number, value)
            self._close(batch)
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and leader_epoch < self._newest_epoch(*self.place):
            return False  # It was left behind and does not know: much is missing there that another has.
        # Everything before an open batch was acknowledged, so that nothing can be missing.
        if is_open or code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise self._ledger.violate(f"{self.name} was refused {batch[0]} in {self.place}: {code.name}")
        return False

    def _close(self, batch: tuple[int, list[bytes]]) -> None:
        if self._open and self._open[0] == batch:
            self._open.popleft()


class Consumer:
    """Reads every record of a partition, and whatever the cluster goes through never has to go back."""

    def __init__(self, way: Way, ledger: Ledger, rng: random.Random, place: tuple[str, int]) -> None:
        self._way = way
        self._ledger = ledger
        self._rng = rng
        self.place = place
        self.is_stopped = False
        self.position = 0
        self._wait_ms = rng.choice((0, 200, 500))

    async def run(self) -> None:
        """Read until it is stopped."""
        while not self.is_stopped:
            try:
                leader, epoch = await self._way.leader(*self.place)
                answer = await self._way.call(
                    await self._way.to(leader), self._request(epoch), FetchResponse, FETCH_VERSION
                )
                self._read(answer)
            except OSError:
                self._way.forget()
                await asyncio.sleep(self._rng.uniform(0.01, PAUSE_S))
            await asyncio.sleep(self._rng.uniform(0.05, 0.6))

    def _request(self, epoch: int) -> FetchRequest:
        topic, partition = self.place
        row = FetchPartition(
            partition=partition, current_leader_epoch=epoch, fetch_offset=self.position, partition_max_bytes=1 << 16
        )
        return FetchRequest(
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[row])],
        )

    def _read(self, answer: FetchResponse) -> None:
        row = answer.responses[0].partitions[0]
        code = ErrorCode(row.error_code)
        if code in LATER:
            raise ConnectionError(code.name)
        if code is not ErrorCode.NONE:
            raise self._ledger.violate(f"a consumer of {self.place} at {self.position} was told {code.name}")
        records = memoryview(row.records or b"")
        at = 0
        while at + HEADER_BYTES <= len(records) and at + header_at(records, at).size <= len(records):
            header = header_at(records, at)
            if header.base_offset > self.position or header.last_offset < self.position:
                raise self._ledger.violate(f"{self.place} goes on at {header.base_offset}, not at {self.position}")
            if not header.is_control:
                for record in decode_batch(records, at):
                    if record.offset >= self.position:
                        self._ledger.see(self.place, record.offset, bytes(record.value or b""))
            self.position = header.next_offset
            at += header.size
        if at and self.position > row.high_watermark:
            raise self._ledger.violate(
                f"a consumer of {self.place} was given up to {self.position}, past the watermark {row.high_watermark}"
            )
