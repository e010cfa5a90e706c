"""What keeps a connector's process at work: the word of its worker, again and again, on its standard input.

A worker gives it for as long as it has its place in the group.  One that hangs, or is cut off, gives none, and its
processes end before another worker may take the place: their records would be beside the other's.
"""

import os
import select
import signal
from collections.abc import Callable
from functools import partial

from millstream.model.clock import Clock
from millstream.pipelines.connect import beside

#: Said before the input ends: whoever says so is there, and sees to the end.
STOP = b"stop\n"
_LOOK_S = 0.25
LAST_WORDS_S = 1.0


def alive(now_s: float) -> bytes:
    """The word, given at this moment of the machine's clock."""
    return f"alive {now_s:.3f}\n".encode()


class Lease:
    """For how long a process may work: so many seconds from the last word on; for ever, where it is none."""

    def __init__(self, lease_s: float, now_s: float) -> None:
        self.lease_s = lease_s
        self._is_bound = lease_s > 0
        self._alive_s = now_s

    def hear(self, line: bytes) -> None:
        """A line of the worker's."""
        word, _, moment = line.partition(b" ")
        if line == STOP.rstrip():
            self._is_bound = False
        elif word == b"alive":
            self._alive_s = max(self._alive_s, float(moment))

    def is_over(self, now_s: float) -> bool:
        """Whether the worker was silent for too long."""
        return self._is_bound and now_s - self._alive_s > self.lease_s


class Stops:
    """Whether the process was told to end: by a signal, or by the end of its standard input."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = beside.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._told.set())

    def wait(self, timeout_s: float) -> bool:
        """Whether it was told, now or within this time."""
        if self._told.is_set():
            select.select([], [], [], timeout_s)
            return True
        return self._told.wait(timeout_s)

    def listen(self, place: int, lease_s: float, last_words: Callable[[str], None]) -> None:
        """Hear what comes there from now on, beside everything else.

        Once the lease is over, ``last_words`` is given a line, and the process and all that it started are no more.
        """
        lease = Lease(lease_s, self._clock.monotonic_s())
        beside.begin("leash", lambda: self._listen(place, lease, last_words))

    def _listen(self, place: int, lease: Lease, last_words: Callable[[str], None]) -> None:
        places, rest = [place], b""
        while True:
            ready, _, _ = select.select(places, [], [], _LOOK_S)
            if ready:
                data = os.read(place, 4096)
                if not data:
                    places = []
                    self._told.set()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    lease.hear(line)
            if lease.is_over(self._clock.monotonic_s()):
                words = f"its worker was not heard of for {lease.lease_s:g} s; another may have its place"
                # Whoever does not speak may not listen either.
                beside.begin("last words", partial(last_words, words)).join(LAST_WORDS_S)
                os.killpg(0, signal.SIGKILL)
