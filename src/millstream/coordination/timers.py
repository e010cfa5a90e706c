"""Events that come after a while.

A member's every heartbeat moves its time-out, so moving one must cost next to nothing: the deadline is noted, and the
loop's own timer, when it goes off too early, is set again for what is left.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

from millstream.coordination.decision import Timer


class Timers:
    """Timers by key; ``tell`` is called with the event of one that is due."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._due: dict[Hashable, tuple[float, Any]] = {}
        #: The loop's own timer for each, and what it was set for.
        self._handles: dict[Hashable, tuple[asyncio.TimerHandle, float]] = {}
        self._loop = asyncio.get_running_loop()

    def set(self, timer: Timer) -> None:
        """Set, move or call off the timer of that key."""
        key, after_ms, event = timer
        if after_ms is None:
            if self._due.pop(key, None) is not None:
                self._handles.pop(key)[0].cancel()
            return
        due_s = self._loop.time() + after_ms / 1000
        self._due[key] = (due_s, event)
        armed = self._handles.get(key)
        if armed is not None:
            handle, for_s = armed
            if for_s <= due_s:
                return
            handle.cancel()
        self._arm(key, due_s)

    def clear(self) -> None:
        """Call every timer off."""
        for handle, _ in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._due.clear()

    def _arm(self, key: Hashable, due_s: float) -> None:
        self._handles[key] = (self._loop.call_at(due_s, self._go_off, key), due_s)

    def _go_off(self, key: Hashable) -> None:
        due_s, event = self._due[key]
        _, for_s = self._handles[key]
        if due_s > for_s:
            self._arm(key, due_s)
            return
        del self._due[key], self._handles[key]
        self._tell(event)
