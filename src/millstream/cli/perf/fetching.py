"""Fetching as fast as a broker answers; of what comes only the batch headers are looked at."""

import time

from millstream.cli.perf.ending import new_end
from millstream.cli.perf.figures import Latencies
from millstream.client.cluster import check, error_of
from millstream.client.frames import FetchFrame
from millstream.client.reader import whole_batches
from millstream.client.wire import Connection, ConnectionLost
from millstream.model.errors import ProtocolError
from millstream.protocol.messages.fetch import FetchResponse


class Drain:
    """What all fetchers of a measurement share: what came, and when it is over."""

    def __init__(self, records_max: int | None) -> None:
        self.records = 0
        self.size_bytes = 0
        self.latencies = Latencies()
        self.over = new_end()
        self.taken_s = 0.0
        self._records_max = records_max
        self._fetchers = 0
        self._started_s = 0.0

    def begin(self, fetchers: int) -> None:
        self._fetchers = fetchers
        self._started_s = time.perf_counter()

    def count(self, records: int, size_bytes: int) -> None:
        self.records += records
        self.size_bytes += size_bytes
        if self._records_max is not None and self.records >= self._records_max:
            self._end()

    def fetcher_done(self) -> None:
        self._fetchers -= 1
        if not self._fetchers:
            self._end()

    def fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)

    def _end(self) -> None:
        if not self.over.done():
            self.taken_s = time.perf_counter() - self._started_s
            self.over.set_result(None)


class Fetcher:
    """One connection that reads its partitions from start to end, ``times`` over."""

    def __init__(
        self, connection: Connection, frame: FetchFrame, ranges: dict[int, tuple[int, int]], drain: Drain, times: int
    ) -> None:
        self.connection = connection
        self._frame = frame
        self._ranges = ranges
        self._drain = drain
        self._times_left = times
        self._offsets: dict[int, int] = {}
        self._sent_ns = 0

    def start(self) -> None:
        self._offsets = {partition: start for partition, (start, _) in self._ranges.items()}
        self._go_on()

    def _go_on(self) -> None:
        while all(self._offsets[partition] >= end for partition, (_, end) in self._ranges.items()):
            self._times_left -= 1
            if self._times_left <= 0:
                self._drain.fetcher_done()
                return
            self._offsets = {partition: start for partition, (start, _) in self._ranges.items()}
        self._sent_ns = time.perf_counter_ns()
        self.connection.send_frame(self._frame.at(self._offsets), self._answered)

    def _answered(self, view: memoryview | None) -> None:
        if view is None:
            self._drain.fail(ConnectionLost(f"the connection to {self.connection.broker} was closed"))
            return
        self._drain.latencies.add(time.perf_counter_ns() - self._sent_ns)
        try:
            self._count(self.connection.answer_of(FetchResponse, view, self._frame.version))
        except Exception as error:
            self._drain.fail(error)
            return
        if not self._drain.over.done():
            self._go_on()

    def _count(self, answer: FetchResponse) -> None:
        check(answer.error_code)
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code:
                    raise ProtocolError(error_of(row.error_code), f"partition {row.partition_index}")
                if not row.records:
                    continue
                records = 0
                next_offset = self._offsets[row.partition_index]
                for _, header in whole_batches(memoryview(row.records)):
                    records += header.record_count
                    next_offset = header.next_offset
                self._offsets[row.partition_index] = next_offset
                self._drain.count(records, len(row.records))
