"""A line on standard error that says how far long work has come."""

import sys
import time
from collections.abc import Callable

EACH_S = 1.0


class Progress:
    """Shown once a second while ``tell`` is called, on a terminal in place, elsewhere (when wanted) line by line."""

    def __init__(
        self, *, always: bool = False, quiet: bool = False, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._in_place = sys.stderr.isatty()
        self._is_shown = not quiet and (always or self._in_place)
        self._monotonic_s = monotonic_s
        self.started_s = monotonic_s()
        self._told_s = self.started_s
        self._is_line_open = False

    def elapsed_s(self) -> float:
        return self._monotonic_s() - self.started_s

    def tell(self, line: Callable[[float], str]) -> None:
        """Print ``line(seconds since the last one)`` if a second has passed; cheap when it has not."""
        now_s = self._monotonic_s()
        if now_s - self._told_s < EACH_S:
            return
        passed_s, self._told_s = now_s - self._told_s, now_s
        if self._is_shown:
            self._write(line(passed_s))

    def done(self) -> None:
        """Leave the last line standing and go to the next."""
        if self._is_line_open:
            sys.stderr.write("\n")
            self._is_line_open = False

    def clear(self) -> None:
        """Take the last line away, where it stands on a terminal."""
        if self._is_line_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_line_open = False

    def _write(self, text: str) -> None:
        if self._in_place:
            sys.stderr.write(f"\r\x1b[K{text}")
            self._is_line_open = True
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
