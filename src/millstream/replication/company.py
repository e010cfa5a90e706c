"""Whether somebody is waiting on this broker: what nobody waits for then leaves room.  Pure."""

from collections.abc import Callable

#: For how long whoever asked is taken to be there still.
LINGER_S = 0.1


class Company:
    """Clients that ask, and leaders whose writers wait for this broker to follow."""

    __slots__ = ("_came_s", "_now_s")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._came_s = -LINGER_S

    def came(self, now_s: float) -> None:
        """Somebody asked, or was answered."""
        self._came_s = now_s

    def is_here(self) -> bool:
        return self._now_s() < self._came_s + LINGER_S
