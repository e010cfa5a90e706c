"""The records of a small micro-batch, read by the driver while Spark writes down where it ends, and plans.

That takes Spark some 20 ms, and a task that reads as long again, in a Python process of its own; a stream that keeps up
has few records each time. They are handed to Spark with the plan then, and its task has nothing left to read.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

from millstream.pipelines.spark.reading import read_together
from millstream.pipelines.spark.task import Task

_log = logging.getLogger(__name__)

#: More than this is not handed over: tasks are better at reading it.
BYTES_MAX = 256 * 1024
#: For how long what is almost there is waited for.
_WAIT_S = 0.05
#: What is left of the known size of records with each micro-batch that is not read for it: they may be smaller by now.
_FORGETTING = 0.9


class HandsOver:
    """A stream's reader that may give Spark the records of a micro-batch when it is asked for its partitions.

    Spark has that for its simple readers alone, and asks ``isinstance`` whether this is one. As far as ``isinstance``
    can tell it is, from when it has records ``in_hand`` until Spark has taken them. Should Spark lose them, it has the
    one partition read that it was given.
    """

    in_hand: pa.RecordBatch | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self) if self.in_hand is None else _SimpleStreamReaderWrapper

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """The records, as Spark asks for them."""
        batch, self.in_hand = self.in_hand, None
        assert batch is not None, "Spark asks only who has something in hand"
        return iter([batch])


class Ahead:
    """One micro-batch at a time, read in a thread. Whatever goes wrong there, tasks find out for themselves."""

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        self._reading: _Reading | None = None
        self._reader = _Reader()
        #: About how large a record is, by the last that were read.
        self._record_bytes = 0.0

    def plan(self, tasks: Sequence[Task]) -> None:
        """These tasks are what is to be read next, if they are likely to be small; not while another is being read."""
        if self._reading is not None and self._reading.is_under_way:
            return
        self._reading = None
        if tasks and self._record_bytes * _records(tasks) <= BYTES_MAX:
            self._reading = _Reading(tasks)
        else:
            self._record_bytes *= _FORGETTING

    def begin(self) -> None:
        """Read what was planned: Spark has nothing to ask for a while, and would wait for whoever reads."""
        if self._reading is not None and not self._reading.is_begun:
            self._reading.is_begun = True
            self._reader.begin(self._reading)

    def taken(self, tasks: Sequence[Task]) -> pa.RecordBatch | None:
        """What was read, if it is all that these tasks would read, and is small."""
        reading = self._reading
        if reading is None or [task.range for task in reading.tasks] != [task.range for task in tasks]:
            return None
        if not reading.is_begun or not reading.is_done.wait(self._wait_s) or reading.found is None:
            return None
        self._reading = None
        self._record_bytes = reading.found.nbytes / _records(tasks)
        return reading.found if reading.is_whole and reading.found.nbytes <= BYTES_MAX else None

    def close(self) -> None:
        """Read nothing any more."""
        self._reader.close()

    def __reduce__(self) -> tuple[type["Ahead"], tuple[float]]:
        """In another process it begins anew."""
        return Ahead, (self._wait_s,)


class _Reading:
    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.found: pa.RecordBatch | None = None
        self.is_whole = False
        self.is_begun = False
        self.is_done = threading.Event()

    @property
    def is_under_way(self) -> bool:
        return self.is_begun and not self.is_done.is_set()

    def run(self) -> None:
        try:
            with closing(read_together(self.tasks)) as batches:
                found = next(batches, None)
                self.is_whole = next(batches, None) is None
                self.found = found
        except Exception as error:
            _log.debug("nothing was read ahead: %s", error)
        finally:
            self.is_done.set()


class _Reader:
    """The thread, from when there is something to read; a new one for each micro-batch would be waited for."""

    def __init__(self) -> None:
        self._readings: SimpleQueue[_Reading | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, reading: _Reading) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="look-ahead", daemon=True)
            self._thread.start()
        self._readings.put(reading)

    def close(self) -> None:
        if self._thread is not None:
            self._readings.put(None)

    def _run(self) -> None:
        for reading in iter(self._readings.get, None):
            reading.run()


def _records(tasks: Sequence[Task]) -> int:
    return sum(len(task.range) for task in tasks)
