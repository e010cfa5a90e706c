"""Single records at a steady rate, each carrying the moment it was sent, and a reader that waits for them."""

import asyncio
import math
import os
import struct
import time

from fastcrc.crc32 import iscsi as crc32c

from millstream.cli.perf.ending import new_end
from millstream.cli.perf.figures import Latencies
from millstream.client.cluster import check, error_of
from millstream.client.frames import FetchFrame, ProduceFrame
from millstream.client.reader import whole_batches
from millstream.client.wire import Connection, ConnectionLost
from millstream.model.batch import ATTRIBUTES_AT, CRC_AT, HEADER_BYTES
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition, Uuid
from millstream.model.records import Record, encode_batch
from millstream.protocol.messages.fetch import FetchResponse

PACE_S = 0.001
#: How long the last records may take to arrive before the measurement is given up.
ARRIVAL_S = 10.0
_MARK = struct.Struct(">qq")
_CRC = struct.Struct(">I")


class Pings:
    """One partition's producer and reader; ``over`` is done once every record counted has come back."""

    def __init__(
        self,
        writer: Connection,
        reader: Connection,
        tp: TopicPartition,
        topic_id: Uuid,
        *,
        value_bytes: int,
        acks: int,
    ) -> None:
        self.produced = Latencies()
        self.end_to_end = Latencies()
        self.sent = 0
        self._loop = asyncio.get_running_loop()
        self.over = new_end()
        self._writer, self._reader = writer, reader
        self._partition = tp.partition
        self._run = int.from_bytes(os.urandom(7), "big")
        value = _MARK.pack(self._run, 0) + b"x" * (value_bytes - _MARK.size)
        self._batch = encode_batch([Record(timestamp=time.time_ns() // 1_000_000, value=value)])
        self._mark_at = self._batch.index(_MARK.pack(self._run, 0), HEADER_BYTES)
        self._produce = ProduceFrame(writer, tp, topic_id, self._batch, acks=acks)
        self._frame = bytearray(self._produce.frame)
        self._batch_at = self._frame.index(self._batch)
        self._fetch = FetchFrame(
            reader, tp.topic, topic_id, [tp.partition], partition_bytes_max=1 << 20, bytes_max=1 << 20
        )
        self._offset = 0
        self._counted = 0
        self._counted_from_ns = 0
        #: When the first that is counted was sent; those before it are not.
        self._first_sent_ns = math.inf
        self._counting_ends_ns = 0
        self._interval_ns = 0
        self._due_ns = 0

    def start(self, end_offset: int, rate: int, warm_up_s: float, seconds: float) -> None:
        """Send from now on; what is due during the warm-up is not counted, however late it is sent."""
        now_ns = time.perf_counter_ns()
        self._offset = end_offset
        self._interval_ns = 1_000_000_000 // rate
        self._counted_from_ns = now_ns + int(warm_up_s * 1e9)
        self._counting_ends_ns = self._counted_from_ns + int(seconds * 1e9)
        self._due_ns = now_ns
        self._ask()
        self._tick()

    def close(self) -> None:
        self._writer.close()
        self._reader.close()

    def _tick(self) -> None:
        now_ns = time.perf_counter_ns()
        if self.over.done():
            return
        while self._due_ns <= now_ns and self._due_ns < self._counting_ends_ns:
            self._send()
            self._due_ns += self._interval_ns
        if self._due_ns < self._counting_ends_ns:
            self._loop.call_later(PACE_S, self._tick)
        else:
            self._loop.call_later(ARRIVAL_S, self._fail, TimeoutError(f"records did not arrive within {ARRIVAL_S} s"))

    def _send(self) -> None:
        sent_ns = time.perf_counter_ns()
        start = self._batch_at
        _MARK.pack_into(self._frame, start + self._mark_at, self._run, sent_ns)
        with memoryview(self._frame) as frame:
            _CRC.pack_into(frame, start + CRC_AT, crc32c(frame[start + ATTRIBUTES_AT : start + len(self._batch)]))
        self.sent += 1
        is_counted = self._due_ns >= self._counted_from_ns
        self._counted += is_counted
        if self._counted == 1:
            self._first_sent_ns = sent_ns

        def answered(view: memoryview | None) -> None:
            if view is None:
                self._fail(ConnectionLost(f"the connection to {self._writer.broker} was closed"))
            elif code := self._produce.error_code(view):
                self._fail(ProtocolError(error_of(code), "the broker refused a record"))
            elif is_counted:
                self.produced.add(time.perf_counter_ns() - sent_ns)
                self._end_if_all_came()

        self._writer.send_frame(bytes(self._frame), answered)

    def _ask(self) -> None:
        self._reader.send_frame(self._fetch.at({self._partition: self._offset}), self._fetched)

    def _fetched(self, view: memoryview | None) -> None:
        now_ns = time.perf_counter_ns()
        if view is None:
            self._fail(ConnectionLost(f"the connection to {self._reader.broker} was closed"))
            return
        try:
            answer = self._reader.answer_of(FetchResponse, view, self._fetch.version)
            check(answer.error_code)
            for topic in answer.responses:
                for row in topic.partitions:
                    check(row.error_code)
                    if row.records:
                        self._note(memoryview(row.records), now_ns)
        except Exception as error:
            self._fail(error)
            return
        if not self.over.done():
            self._ask()
            self._end_if_all_came()

    def _note(self, records: memoryview, now_ns: int) -> None:
        """Find our own records among whatever the topic has."""
        for at, header in whole_batches(records):
            self._offset = header.next_offset
            if header.size == len(self._batch):
                run, sent_ns = _MARK.unpack_from(records, at + self._mark_at)
                if run == self._run and sent_ns >= self._first_sent_ns:
                    self.end_to_end.add(now_ns - sent_ns)

    def _end_if_all_came(self) -> None:
        is_all_sent = self._due_ns >= self._counting_ends_ns
        is_all_here = len(self.produced.all_ns) == len(self.end_to_end.all_ns) == self._counted
        if is_all_sent and is_all_here and not self.over.done():
            self.over.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)
