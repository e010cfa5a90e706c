"""Time, given and never reached for."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for measuring."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_s = staticmethod(time.monotonic)  # Asked for with every request, so without a call of our own.
