"""Staying awake for a moment after an answer, for whoever asks again at once.

Being woken costs a loop as much as a small request does, and a client that waits for each answer before it asks again
pays for it every time.  So the loop looks for the next request for a moment before it sleeps, as long as that has
paid lately.  Where it does not, because clients take their time or because this very process keeps them from running,
it sleeps at once.
"""

import asyncio
from collections.abc import Callable

#: For how long the loop stays awake: what it takes a client on the same machine to be woken and to ask again.
WATCH_S = 60e-6
#: How often it looks in that time at most: simulated time stands still while it does.
LOOKS_MAX = 100
#: How many watches may come to nothing, beyond those that found somebody, before the loop sleeps at once.
PATIENCE = 8
#: How many answers go unwatched then until it is tried again.
RETRY_AFTER = 1000


class Vigil:
    """One loop's watch for the next request; it is kept while at least every other one finds somebody."""

    __slots__ = ("_credit", "_is_kept", "_looks", "_loop", "_now_s", "_since_s", "_unwatched", "asked_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, now_s: Callable[[], float]) -> None:
        self._loop = loop
        self._now_s = now_s
        self._credit = PATIENCE
        self._unwatched = 0
        self._is_kept = False
        self._since_s = 0.0
        self._looks = 0
        #: When the last request came; whoever takes it says so.
        self.asked_s = 0.0

    def answered(self) -> None:
        """An answer has left, and its client may ask again.

        A watch has found somebody when a request came in it.  An answer alone is none: it may be one of several that
        a single request set free, as when followers are told of a record.
        """
        if self._is_kept:
            if self.asked_s > self._since_s and self._credit < PATIENCE:
                self._credit += 1
        elif self._credit or self._is_tried_again():
            self._is_kept = True
            self._loop.call_soon(self._look)
        else:
            return
        self._looks = 0
        self._since_s = self._now_s()

    def _is_tried_again(self) -> bool:
        self._unwatched += 1
        if self._unwatched < RETRY_AFTER:
            return False
        self._unwatched = 0
        self._credit = 1
        return True

    def _look(self) -> None:
        """The loop has just seen what there is to read: go round once more, or let it sleep."""
        self._looks += 1
        if self._looks < LOOKS_MAX and self._now_s() < self._since_s + WATCH_S:
            self._loop.call_soon(self._look)
        else:
            self._is_kept = False
            self._credit -= 1
