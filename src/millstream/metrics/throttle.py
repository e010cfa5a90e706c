"""A flow of bytes, kept to a rate."""

from collections.abc import Callable


class Throttle:
    """After each piece it pauses for as long as the piece should have taken.

    The rate, in bytes a second, may change at any time.
    """

    def __init__(self, rate: Callable[[], int]) -> None:
        self._rate = rate
        self._owed = 0.0  #: bytes that flowed too early
        self._at_ms = 0

    def spend(self, count: int, now_ms: int) -> None:
        """So many bytes have flowed."""
        self._settle(now_ms)
        self._owed += count

    def wait_ms(self, now_ms: int) -> int:
        """How long nothing more may flow; 0 when it may now."""
        self._settle(now_ms)
        return -int(-self._owed * 1000 // max(self._rate(), 1)) if self._owed > 0 else 0

    def _settle(self, now_ms: int) -> None:
        self._owed = max(0.0, self._owed - self._rate() * (now_ms - self._at_ms) / 1000)
        self._at_ms = now_ms
