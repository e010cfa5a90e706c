"""When a pipeline that fell is started again: later each time it falls soon, and from the beginning once it stood."""

from dataclasses import dataclass

FIRST_S = 1.0
CAP_S = 60.0
GROWTH = 2.0
#: A run that was well for so long has mended whatever made the one before it fall.
HEALTHY_S = 60.0


@dataclass
class Restarts:
    """The falls in a row so far. ``chance`` is a number from 0 to 1, drawn anew for each fall.

    Each wait is twice the one before, up to ``cap_s``; of it, chance leaves between a half and all, so that pipelines
    that one broken broker felled together do not come back together.
    """

    first_s: float = FIRST_S
    cap_s: float = CAP_S
    healthy_s: float = HEALTHY_S
    #: No more falls in a row than this; None for any number.
    falls_max: int | None = None
    falls: int = 0
    _well_since_s: float | None = None

    def started(self) -> None:
        """A new run begins; nothing speaks for it yet."""
        self._well_since_s = None

    def progressed(self, now_s: float) -> None:
        """The run got something done."""
        if self._well_since_s is None:
            self._well_since_s = now_s

    def fell(self, now_s: float, chance: float) -> float | None:
        """How long to wait before the next run, in seconds; None when enough is enough."""
        if self._well_since_s is not None and now_s - self._well_since_s >= self.healthy_s:
            self.falls = 0
        self.falls += 1
        if self.falls_max is not None and self.falls > self.falls_max:
            return None
        # Beyond some hundred doublings a float gives up; the cap is reached long before.
        whole_s = min(self.cap_s, self.first_s * GROWTH ** min(self.falls - 1, 100))
        return whole_s * (0.5 + 0.5 * chance)
