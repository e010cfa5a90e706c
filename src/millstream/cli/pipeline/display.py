"""How a pipeline goes, on standard error: on a terminal one line in place, elsewhere a line now and then."""

import sys
from typing import TextIO

from millstream.pipelines.running.progress import Progress

IN_PLACE_EVERY_S = 1.0


class Terminal:
    """The last line is the pipeline's; everything else scrolls above it."""

    def __init__(self, name: str, *, every_s: float, quiet: bool, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._name = name
        self._is_quiet = quiet
        self._in_place = self._out.isatty()
        self._line = ""
        self.every_s = IN_PLACE_EVERY_S if self._in_place else every_s

    def show(self, progress: Progress, passed_s: float) -> None:
        if self._is_quiet:
            return
        if self._in_place:
            self._line = progress.line(passed_s)
            self._out.write(f"\r\x1b[K{self._line}")
            self._out.flush()
        else:
            for line in progress.lines(passed_s):
                self._write(line)

    def say(self, line: str) -> None:
        if not self._is_quiet:
            self._write(f"{self._name}: {line}")

    def error(self, line: str) -> None:
        self._write(line)

    def done(self) -> None:
        """Leave the last line standing and go to the next."""
        if self._line:
            self._out.write("\n")
            self._line = ""

    def _write(self, line: str) -> None:
        self._out.write(f"\r\x1b[K{line}\n{self._line}" if self._line else f"{line}\n")
        self._out.flush()
