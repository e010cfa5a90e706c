"""The records of a small micro-batch, read by the driver while Spark writes down where it ends, and plans.

That takes Spark some 20 ms, and starting a task as long again; a stream that keeps up has few records each time. They
travel with their task then, which has nothing left to read.
"""

import logging
import threading
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from millstream.pipelines.spark.reading import read_together
from millstream.pipelines.spark.task import Task

_log = logging.getLogger(__name__)

#: More than this does not travel: tasks are better at reading it.
BYTES_MAX = 256 * 1024
#: For how long what is almost there is waited for.
_WAIT_S = 0.05
#: How long whoever asked gets to give Spark its answer, before there are two who want to run.
_HEAD_START_S = 0.001


class Ready(InputPartition):
    """Records that a task has only to hand over, as an Arrow stream."""

    def __init__(self, stream: bytes) -> None:
        self.stream = stream

    def batches(self) -> Sequence[pa.RecordBatch]:
        return list(pa.ipc.open_stream(self.stream))


class Ahead:
    """One micro-batch at a time, read in a thread. Whatever goes wrong there, tasks find out for themselves."""

    def __init__(self, wait_s: float = _WAIT_S) -> None:
        self._wait_s = wait_s
        self._reading: _Reading | None = None
        #: About how large a record is, by the last that were read.
        self._record_bytes = 0.0

    def begin(self, tasks: Sequence[Task]) -> None:
        """Read the ranges of these tasks, if they are likely to be small; not while another reading is under way."""
        if self._reading is not None and self._reading.is_alive():
            return
        self._reading = None
        if tasks and self._record_bytes * _records(tasks) <= BYTES_MAX:
            self._reading = _Reading(tasks)
            self._reading.start()

    def taken(self, tasks: Sequence[Task]) -> Ready | None:
        """What was read, if it is all that these tasks would read, and is small enough to travel."""
        reading = self._reading
        if reading is None or [task.range for task in reading.tasks] != [task.range for task in tasks]:
            return None
        reading.join(self._wait_s)
        if reading.found is None:
            return None
        self._reading = None
        self._record_bytes = reading.found.nbytes / _records(tasks)
        return _ready(reading.found) if reading.is_whole and reading.found.nbytes <= BYTES_MAX else None


class _Reading(threading.Thread):
    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__(name="look-ahead", daemon=True)
        self.tasks = tasks
        self.found: pa.RecordBatch | None = None
        self.is_whole = False

    def run(self) -> None:
        threading.Event().wait(_HEAD_START_S)
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


def _ready(batch: pa.RecordBatch) -> Ready:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return Ready(sink.getvalue().to_pybytes())
