"""Whether somebody is waiting on this broker: what nobody waits for then leaves room.  Pure."""

from collections.abc import Callable

#: For how long whoever asked is taken to be there still.
LINGER_S = 0.1
#: For how long somebody must have been asking to be company.  Who only looks in is not: every reader of history does,
#: for metadata and where the log starts, and would be kept waiting by itself.
STAY_S = 0.1


class Company:
    """Clients that ask again and again, and leaders whose writers wait for this broker to follow."""

    __slots__ = ("_came_s", "_now_s", "_others_came_s", "_since_s", "_who")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._came_s = self._others_came_s = -LINGER_S
        self._since_s = 0.0
        self._who: object = None

    def came(self, now_s: float, who: object = None) -> None:
        """Somebody asked, or was answered."""
        if who is not self._who:
            self._who, self._others_came_s = who, self._came_s
        if now_s >= self._came_s + LINGER_S:
            self._since_s = now_s
        self._came_s = now_s

    def has_others(self, than: object) -> bool:
        """Whether somebody else than this one has asked a moment ago."""
        came_s = self._came_s if self._who is not than else self._others_came_s
        return self._now_s() < came_s + LINGER_S

    def is_here(self) -> bool:
        return self._came_s - self._since_s >= STAY_S and self._now_s() < self._came_s + LINGER_S
