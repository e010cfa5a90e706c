"""A large batch that a thread writes behind a log's end, and that the log takes in once it is there.

To write a megabyte takes as long as dozens of small requests, which the loop answers meanwhile.  The log knows of the
batch when all its bytes are in the file, and not before: then it is appended in one turn of the loop, like any other.

Invariant: the end of a log with a batch under way is left alone.  Whoever wants to append, cut, roll, close or hand on
the log has the batch taken in first (``settle``), and waits for the thread if it must.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from millstream.model.batch import HEADER_BYTES
from millstream.storage.files import File

if TYPE_CHECKING:
    from millstream.storage.log import Log


class WriteAhead:
    """One batch on its way; ``run`` in a thread, everything else on the loop."""

    __slots__ = (
        "_file",
        "_head",
        "_is_begun",
        "_is_placed",
        "_is_settled",
        "_lock",
        "_log",
        "_take_in",
        "over",
        "records",
    )

    def __init__(self, log: "Log", file: File, records: memoryview, take_in: Callable[[], None]) -> None:
        """``take_in`` appends the batch to the log, or finds that it may not be any more."""
        self.records = records
        self._log = log
        self._file = file
        self._head = bytes(records[:HEADER_BYTES])
        self._take_in = take_in
        self._lock = Lock()
        self._is_begun = False
        #: Whether all of it lies behind the end of the file.
        self._is_placed = False
        self._is_settled = False
        #: Set when the log is free again.
        self.over = asyncio.Event()

    def run(self) -> None:
        """Write the batch, unless somebody else has, or does: then return when that is done."""
        with self._lock:
            if not self._is_begun:
                self._is_begun = True
                with suppress(OSError):  # The append meets the same, and says what becomes of it.
                    self._file.append(self.records, counts=False)
                    self._is_placed = True

    def counts_in(self, file: File, records: memoryview) -> bool:
        """Whether just these bytes lie behind the end of this file, and are now counted in; else nothing lies there."""
        if not self._is_placed:
            return False
        self._is_placed = False
        # It may be another place in the log by now, or the file may have been opened anew.
        if file is self._file and records is self.records and records[:HEADER_BYTES] == self._head:
            file.size += len(records)
            return True
        self._drop()
        return False

    def settle(self) -> None:
        """Have the batch in the log, or refused, when this returns."""
        if self._is_settled:
            return
        self._is_settled = True
        try:
            self.run()
            self._take_in()
        finally:
            self._log.ahead = None
            self.over.set()
            if self._is_placed:
                try:
                    self._drop()
                except OSError as error:
                    self._log.directory.fail(error)

    def _drop(self) -> None:
        """Remove what was written in vain.

        It is gone for good when this returns: a loss of power could bring it back in the place of what is written next.
        """
        self._file.truncate(self._file.size)
        self._file.flush()


def write_all(batches: Iterable[WriteAhead]) -> None:
    """Write them one after the other; for a thread."""
    for batch in batches:
        batch.run()
