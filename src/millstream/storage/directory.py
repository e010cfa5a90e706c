"""One log directory: what its partitions share, and whether its disk can still be trusted."""

import errno
import logging
import threading
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.storage.checkpoint import encode_offsets
from millstream.storage.files import Files, NotFlushed
from millstream.storage.meta import META_PROPERTIES, DamagedMeta, MetaProperties
from millstream.storage.open_files import OpenFiles

if TYPE_CHECKING:
    from millstream.storage.log import Log

LOCK = ".lock"
#: Errors of a disk that is full.
FULL = (errno.ENOSPC, errno.EDQUOT)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'
#: Holds the boot id of the machine, the broker's life and its directories, while what is written is known to be kept;
#: or that some was lost.
KEPT = ".millstream_kept"
_LOST = b"lost"

_log = logging.getLogger(__name__)


class DirectoryError(Exception):
    """A log directory that cannot be used, and what to do about it, in one line."""


class LogDirectory:
    """A folder of partition folders; the first error of its disk takes it, and nothing else, offline."""

    __slots__ = (
        "_doomed",
        "_lock",
        "_writing",
        "_written",
        "clock",
        "failure",
        "files",
        "has_lost",
        "is_open",
        "is_start_moved",
        "logs",
        "on_cut",
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
        self.open_files.relieve = self._give_back
        self.logs: dict[TopicPartition, Log] = {}
        #: Why the directory is offline; None while it is not.
        self.failure: str | None = None
        #: Whether the disk may have lost what it took before; one that is only full has not.
        self.has_lost = False
        #: Whether its partitions are loaded, and it is this broker's to close.
        self.is_open = False
        #: Whether a log's start went up since the starts were written down.
        self.is_start_moved = False
        #: Told once, when the directory goes offline.
        self.on_failure: Callable[[LogDirectory], None] = _ignore
        #: Told when a log lost records at its end.
        self.on_cut: Callable[[Log], None] = _ignore
        #: Told when a log's recovery point went back, which must be on disk before the log grows again.
        self.on_rollback: Callable[[LogDirectory], None] = _ignore
        #: Files and folders to be removed, and when.
        self._doomed: list[tuple[int, str]] = []
        self._lock: object | None = None
        #: One writes checkpoints at a time; an older state never replaces a newer one.
        self._writing = threading.Lock()
        self._written: dict[str, int] = {}

    def fail(self, error: OSError) -> ProtocolError:
        """Take the directory offline; the refusal to raise."""
        if self.failure is None:
            self.failure = str(error)
            self.has_lost |= error.errno not in FULL or isinstance(error, NotFlushed)
            _log.error("log directory %s is offline, its partitions with it: %s", self.path, error)
            self.on_failure(self)
        return self.refusal()

    def _give_back(self) -> None:
        """Close what is open for appending; the next append opens it again."""
        _log.warning("file descriptors ran out: raise the limit (ulimit -n) above two per partition")
        for log in self.logs.values():
            log.segments.active.release()

    def refusal(self) -> ProtocolError:
        return ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, f"log directory {self.path} is offline: {self.failure}")

    # Removal.

    def doom(self, path: str, delay_ms: int) -> None:
        """Have the file or folder at ``path`` removed once ``delay_ms`` have passed."""
        self._doomed.append((self.clock.now_ms() + delay_ms, path))

    def due(self, now_ms: int) -> list[str]:
        """Take the paths whose time has come; the caller removes them."""
        due = [path for at_ms, path in self._doomed if at_ms <= now_ms]
        if due:
            self._doomed = [(at_ms, path) for at_ms, path in self._doomed if at_ms > now_ms]
        return due

    # Whose it is.

    def lock(self) -> None:
        """Make the folder and hold its lock; DirectoryError when another broker does."""
        self.files.make_folder(self.path)
        self.files.sync_folder(self.path.rpartition("/")[0] or ("/" if self.path.startswith("/") else "."))
        self._lock = self.files.lock(f"{self.path}/{LOCK}")
        if self._lock is None:
            raise DirectoryError(f"{self.path} is in use by another broker: stop that one, or name another directory")

    def unlock(self) -> None:
        close = getattr(self._lock, "close", None)
        if close is not None:
            close()
        self._lock = None

    def meta(self) -> MetaProperties | None:
        """What ``meta.properties`` says, None when it is not there; DirectoryError when it cannot be read."""
        path = f"{self.path}/{META_PROPERTIES}"
        try:
            return MetaProperties.decode(self.files.read(path))
        except FileNotFoundError:
            return None
        except DamagedMeta as damage:
            raise DirectoryError(
                f"{path} is damaged: {damage}; restore it, or remove it to have it made anew"
            ) from damage

    def write_meta(self, meta: MetaProperties) -> None:
        self.files.replace(f"{self.path}/{META_PROPERTIES}", meta.encode())

    def remove_meta(self) -> None:
        """Let the directory be nobody's again."""
        self.files.remove(f"{self.path}/{META_PROPERTIES}")

    # Clean or not.

    def was_closed(self) -> bool:
        """Whether the last broker stopped cleanly."""
        return self.files.exists(f"{self.path}/{CLEAN_SHUTDOWN}")

    def mark_open(self) -> None:
        """From now on a stop without ``mark_closed`` is not clean."""
        self.files.remove(f"{self.path}/{CLEAN_SHUTDOWN}")
        self.files.sync_folder(self.path)
        self.is_open = True

    def mark_closed(self) -> None:
        self.files.replace(f"{self.path}/{CLEAN_SHUTDOWN}", _CLEAN_SHUTDOWN_CONTENT)

    def has_kept(self, together: str, last_life: int | None) -> bool:
        """Whether all that was written is here: the last broker stopped cleanly, or the machine runs ever since.

        ``together`` names all directories of the broker: where one was taken away, so were its records.  ``last_life``
        is the broker's last that is known, if any is: a copy of earlier days is of neither that one nor the next.
        """
        note = self._kept()
        if note is None:
            return last_life is None and self.was_closed()
        boot_id, _, rest = note.decode(errors="replace").partition("\n")
        *life, names = rest.split("\n")
        is_of_today = last_life is None or life in ([str(last_life)], [str(last_life + 1)])
        return is_of_today and names == together and (boot_id == self.files.boot_id() != "" or self.was_closed())

    def note_kept(self, together: str, life: int, *, is_lost: bool = False) -> None:
        """Write down that nothing is missing from here on; or that something is, until somebody has heard of it."""
        self._note(_LOST if is_lost else f"{self.files.boot_id()}\n{life}\n{together}".encode())

    def lose(self) -> None:
        """Records are missing here; that is on the disk when it returns, so that what shows it may go."""
        self.has_lost = True
        self._note(_LOST)

    def _note(self, note: bytes) -> None:
        if note != self._kept():
            self.files.replace(f"{self.path}/{KEPT}", note)

    def _kept(self) -> bytes | None:
        try:
            return self.files.read(f"{self.path}/{KEPT}")
        except FileNotFoundError:
            return None

    # Checkpoints.

    def write_offsets(self, name: str, offsets: Mapping[TopicPartition, int], version: int) -> None:
        """Write a checkpoint file, unless one of a later ``version`` is there; may be called in a thread."""
        with self._writing:
            if version >= self._written.get(name, 0):
                self.files.replace(f"{self.path}/{name}", encode_offsets(offsets))
                self._written[name] = version


def _ignore(_: object) -> None:
    """Nobody wants to know."""
