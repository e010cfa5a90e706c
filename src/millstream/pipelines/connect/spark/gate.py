"""How a query is ended between two batches: no more is planned, and whoever plans says so."""

import os
from contextlib import suppress


class Gate:
    """Two files in a folder, for Spark plans in a process of its own: one asks, the other answers.

    Planning comes after a batch has ended and before the next begins, so that an answer means: nothing is under way.
    """

    def __init__(self, folder: str) -> None:
        self._closing = os.path.join(folder, "closing")
        self._closed = os.path.join(folder, "closed")

    def open(self) -> None:
        """Let batches be planned."""
        for file in (self._closing, self._closed):
            with suppress(FileNotFoundError):
                os.remove(file)

    def close(self) -> None:
        """Ask that no further batch be planned."""
        _touch(self._closing)

    def is_closed(self) -> bool:
        """Whether nothing is under way, and nothing will be."""
        return os.path.exists(self._closed)

    def may_plan(self) -> bool:
        """Whether a batch may be planned now; asked by whoever plans."""
        if not os.path.exists(self._closing):
            return True
        _touch(self._closed)
        return False


def _touch(file: str) -> None:
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o644))
