"""The records of a small micro-batch, read by the driver while Spark writes down where it ends, and plans.

That takes Spark some 20 ms, and a task that reads as long again, in a Python process of its own; a stream that keeps up
has few records each time. They are handed to Spark with the plan then, and its task has nothing left to read.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
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
#: How long reading waits at most for the word to go on: who has to answer Spark meanwhile would wait for it.
_HOLD_S = 0.005


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

    def __init__(self, wait_s: float = _WAIT_S, word: Callable[[], threading.Event] = threading.Event) -> None:
        self._wait_s = wait_s
        self._word = word
        self._reading: _Reading | None = None
        #: About how large a record is, by the last that were read.
        self._record_bytes = 0.0

    def begin(self, tasks: Sequence[Task]) -> None:
        """Read the ranges of these tasks, if they are likely to be small; not while another reading is under way."""
        if self._reading is not None and self._reading.is_alive():
            return
        self._reading = None
        if tasks and self._record_bytes * _records(tasks) <= BYTES_MAX:
            self._reading = _Reading(tasks, self._word())
            self._reading.start()
        else:
            self._record_bytes *= _FORGETTING

    def go_on(self) -> None:
        """Spark plans now, and asks for nothing until it has."""
        if self._reading is not None:
            self._reading.may_go_on.set()

    def taken(self, tasks: Sequence[Task]) -> pa.RecordBatch | None:
        """What was read, if it is all that these tasks would read, and is small."""
        reading = self._reading
        if reading is None or [task.range for task in reading.tasks] != [task.range for task in tasks]:
            return None
        reading.may_go_on.set()
        reading.join(self._wait_s)
        if reading.found is None:
            return None
        self._reading = None
        self._record_bytes = reading.found.nbytes / _records(tasks)
        return reading.found if reading.is_whole and reading.found.nbytes <= BYTES_MAX else None


class _Reading(threading.Thread):
    def __init__(self, tasks: Sequence[Task], may_go_on: threading.Event) -> None:
        super().__init__(name="look-ahead", daemon=True)
        self.tasks = tasks
        self.found: pa.RecordBatch | None = None
        self.is_whole = False
        self.may_go_on = may_go_on

    def run(self) -> None:
        self.may_go_on.wait(_HOLD_S)
        batches = read_together(self.tasks)
        try:
            found = next(batches, None)
            self.is_whole = next(batches, None) is None
            self.found = found
        except Exception as error:
            _log.debug("nothing was read ahead: %s", error)
        finally:
            batches.close()


def _records(tasks: Sequence[Task]) -> int:
    return sum(len(task.range) for task in tasks)
