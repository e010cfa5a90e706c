"""Sending the same frames as fast as they are answered, or at a steady rate."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from millstream.cli.perf.ending import new_end
from millstream.cli.perf.figures import Latencies
from millstream.client.cluster import error_of
from millstream.client.frames import ProduceFrame
from millstream.client.wire import Connection, ConnectionLost
from millstream.model.errors import ProtocolError

PACE_S = 0.001
#: With acks 0 nothing comes back to wait for; sending pauses while this much has not left.
UNSENT_BYTES_MAX = 4 * 1024 * 1024


class Run:
    """What all senders of a measurement share: how much is left, what came back, and when it is over."""

    def __init__(self, requests: int, *, seconds: float | None, requests_per_s: float | None) -> None:
        self.acknowledged = 0
        #: Senders that wait for no answers and have not yet heard that everything arrived.
        self.pouring = 0
        self.latencies = Latencies()
        self.over = new_end()
        self.taken_s = 0.0
        self._left = requests
        self._sent = 0
        self._seconds = seconds
        self._requests_per_s = requests_per_s
        self._started_s = time.perf_counter()

    @property
    def is_paced(self) -> bool:
        return self._requests_per_s is not None

    def begin(self) -> None:
        self._started_s = time.perf_counter()

    def take(self) -> bool:
        """Whether one more request may be sent now; it then counts as sent."""
        if self._seconds is not None and time.perf_counter() - self._started_s >= self._seconds:
            self._left = 0
        if self._left <= 0:
            return False
        if self._requests_per_s is not None:
            due = (time.perf_counter() - self._started_s) * self._requests_per_s
            if self._sent > due:
                return False
        self._left -= 1
        self._sent += 1
        return True

    def acknowledge(self) -> None:
        self.acknowledged += 1
        self.end_if_all_came()

    def has_more(self) -> bool:
        return self._left > 0

    def end_if_all_came(self) -> None:
        """It is over once nothing is left to send, everything sent is acknowledged, and nobody still pours."""
        if self._left <= 0 and self.acknowledged == self._sent and not self.pouring and not self.over.done():
            self.taken_s = time.perf_counter() - self._started_s
            self.over.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)


class Sender:
    """One connection that keeps ``window`` requests on their way, its partitions in turns."""

    def __init__(self, connection: Connection, frames: Sequence[ProduceFrame], run: Run, window: int) -> None:
        self.connection = connection
        self._frames = frames
        self._run = run
        self._window = window
        self._turn = 0
        self._on_way: deque[tuple[int, ProduceFrame]] = deque()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        if self._frames[0].acks == 0:
            self._run.pouring += 1
            self._pour()
        elif self._run.is_paced:
            self._pace()
        else:
            self._fill()

    def _next(self) -> ProduceFrame:
        frame = self._frames[self._turn]
        self._turn = (self._turn + 1) % len(self._frames)
        return frame

    def _fill(self) -> None:
        on_way, window, run = self._on_way, self._window, self._run
        while len(on_way) < window and run.take():
            frame = self._next()
            on_way.append((time.perf_counter_ns(), frame))
            self.connection.send_frame(frame.frame, self._answered)

    def _pace(self) -> None:
        """Look a thousand times a second whether more is due."""
        if self._run.over.done() or self.connection.is_closed:
            return
        self._fill()
        if self._run.has_more():
            self._loop.call_later(PACE_S, self._pace)
        else:
            self._run.end_if_all_came()

    def _pour(self) -> None:
        """Send without waiting for answers, as far as the socket takes it; a last question tells when all arrived."""
        run = self._run
        if self.connection.is_closed:
            run.fail(ConnectionLost(f"{self.connection.broker} closed the connection, as it does to refuse acks 0"))
            return
        while self.connection.unsent_bytes < UNSENT_BYTES_MAX:
            if not run.take():
                break
            self.connection.send_frame(self._next().frame, None)
            run.acknowledged += 1
        if run.has_more():
            self._loop.call_later(PACE_S, self._pour)
        else:
            asked = self._loop.create_task(self.connection.negotiate())
            asked.add_done_callback(self._poured)

    def _poured(self, asked: asyncio.Task[None]) -> None:
        error = asked.exception()
        if isinstance(error, Exception):
            self._run.fail(error)
        else:
            self._run.pouring -= 1
            self._run.end_if_all_came()

    def _answered(self, view: memoryview | None) -> None:
        if view is None:
            self._run.fail(ConnectionLost(f"the connection to {self.connection.broker} was closed"))
            return
        sent_ns, frame = self._on_way.popleft()
        self._run.latencies.add(time.perf_counter_ns() - sent_ns)
        if code := frame.error_code(view):
            self._run.fail(ProtocolError(error_of(code), "the broker refused a batch"))
            return
        if not self._run.over.done():
            self._fill()
            self._run.acknowledge()
