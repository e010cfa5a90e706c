"""Progress of work that blocks: a thread asks how far it has come and tells so."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from millstream.cli.progress import EACH_S, Progress


class Watching:
    """While the block runs, ``line(seconds since it began)`` is shown once a second on a terminal; none elsewhere."""

    def __init__(self, line: Callable[[float], str]) -> None:
        self.line = line
        self._progress = Progress()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Tell no more, and leave nothing on the terminal."""
        if not self._has_ended.is_set():
            self._has_ended.set()
            self._thread.join()
            self._progress.clear()

    def _tell(self) -> None:
        while not self._has_ended.wait(EACH_S):
            self._progress.tell(lambda _: self.line(self._progress.elapsed_s()))
