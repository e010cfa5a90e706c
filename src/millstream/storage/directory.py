"""One log directory: what its partitions share, and whether its disk can still be trusted."""

import logging
from collections.abc import Callable
from random import Random

from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.storage.files import Files
from millstream.storage.open_files import OpenFiles

_log = logging.getLogger(__name__)


class LogDirectory:
    """A folder of partition folders; the first error of its disk takes it, and nothing else, offline."""

    __slots__ = (
        "_doomed",
        "clock",
        "failure",
        "files",
        "is_start_moved",
        "on_failure",
        "on_rollback",
        "open_files",
        "path",
        "random",
    )

    def __init__(self, path: str, files: Files, clock: Clock, random: Random) -> None:
        self.path = path
        self.files = files
        self.clock = clock
        self.random = random
        self.open_files = OpenFiles(files)
        #: Files and folders to be removed, and when.
        self._doomed: list[tuple[int, str]] = []
        #: Whether a log's start went up since the starts were written down.
        self.is_start_moved = False
        #: Why the directory is offline; None while it is not.
        self.failure: str | None = None
        #: Told once, when the directory goes offline.
        self.on_failure: Callable[[LogDirectory], None] = _ignore
        #: Told when a log's recovery point went back, which must be on disk before the log grows again.
        self.on_rollback: Callable[[LogDirectory], None] = _ignore

    def fail(self, error: OSError) -> ProtocolError:
        """Take the directory offline; the refusal to raise."""
        if self.failure is None:
            self.failure = str(error)
            _log.error("log directory %s is offline, its partitions with it: %s", self.path, error)
            self.on_failure(self)
        return self.refusal()

    def doom(self, path: str, delay_ms: int) -> None:
        """Have the file or folder at ``path`` removed once ``delay_ms`` have passed."""
        self._doomed.append((self.clock.now_ms() + delay_ms, path))

    def due(self, now_ms: int) -> list[str]:
        """Take the paths whose time has come; the caller removes them."""
        due = [path for at_ms, path in self._doomed if at_ms <= now_ms]
        if due:
            self._doomed = [(at_ms, path) for at_ms, path in self._doomed if at_ms > now_ms]
        return due

    def refusal(self) -> ProtocolError:
        return ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline: {self.failure}")


def _ignore(directory: LogDirectory) -> None:
    """Nobody wants to know."""
