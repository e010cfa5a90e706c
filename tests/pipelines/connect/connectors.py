"""A connector's process as its worker starts it: told its job, listened to, stopped and killed."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from millstream.pipelines.connect.job import COMMAND, Job, Place
from millstream.pipelines.connect.places import document_of
from millstream.pipelines.connect.reports import Batch, Failed, Offsets, Report, Started, decode
from tests.pipelines.killing import is_python_worker
from tests.pipelines.processes import kill, kill_session, session_of

TIMEOUT_S = 240.0
#: Quicker to start and to look than what is set for many connectors on a machine.
CONF = {"spark.sql.streaming.pollingDelay": "20ms", "spark.log.level": "ERROR"}
STRINGS = "org.apache.kafka.connect.storage.StringConverter"

R = TypeVar("R", Started, Batch, Offsets, Failed)


class Connector:
    """A connector over all the lives of its process."""

    def __init__(
        self,
        address: str,
        data: Path,
        config: Mapping[str, str],
        *,
        offsets_topic: str = "",
        path: Path | None = None,
    ) -> None:
        self.job = Job(
            address,
            {"key.converter": STRINGS, "value.converter": STRINGS, **config},
            str(data),
            offsets_topic=offsets_topic,
            conf=CONF,
        )
        self.reports: list[Report] = []
        self._path = path
        self._log = data / f"{self.job.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def output(self) -> str:
        """What its processes printed."""
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, **changes: Any) -> None:
        """Start the process; the reports of an earlier one are forgotten."""
        assert not self.is_running
        if changes:
            self.job = Job(**{name: changes.get(name, getattr(self.job, name)) for name in Job.__dataclass_fields__})
        self.reports = []
        reading, writing = os.pipe()
        python = [str(self._path)] if self._path else []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*COMMAND, str(writing)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(writing,),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(python)},
            )
        os.close(writing)
        assert self._process.stdin is not None
        self._process.stdin.write(self.job.to_line())
        self._process.stdin.flush()
        self._listening = threading.Thread(target=self._listen, args=(reading, self.reports), daemon=True)
        self._listening.start()

    @staticmethod
    def _listen(reading: int, reports: list[Report]) -> None:
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                reports.append(decode(line))

    def told(self, kind: type[R]) -> list[R]:
        """What this life of the process reported of a kind."""
        return [report for report in self.reports if isinstance(report, kind)]

    @property
    def offsets(self) -> dict[str, Any]:
        """How far it is, as it told."""
        places: Sequence[Place] = [place for report in self.told(Offsets) for place in report.offsets]
        return document_of(places)

    @property
    def records(self) -> int:
        """How many it brought or was given in this life."""
        return sum(batch.records for batch in self.told(Batch))

    def wait(self, holds: Callable[[], bool], what: str, *, revives: bool = False) -> None:
        """Until it holds; a process that died is started again, or is a failure."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not holds():
            late = time.monotonic() >= deadline_s
            if late or not (self.is_running or revives):
                raise AssertionError(f"{what} did not come: {self.reports[-5:]}\n{self.output[-4000:]}")
            if not self.is_running:
                self.start()
            time.sleep(0.05)

    def stop(self) -> None:
        """Tell it to end behind the batch under way."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(TIMEOUT_S) == 0, f"{self.reports[-5:]}\n{self.output[-4000:]}"
        self._over()

    def fail(self) -> Failed:
        """Until it ends because it cannot go on; what it says of that."""
        assert self._process is not None
        assert self._process.wait(TIMEOUT_S) == 1, f"{self.reports[-5:]}\n{self.output[-4000:]}"
        self._over()
        return self.told(Failed)[-1]

    def kill(self) -> None:
        """Everything of it, at once."""
        if self._process is not None:
            kill_session(self._process)
            self._over()

    def kill_worker(self) -> bool:
        """One of its Python workers; false when there is none now."""
        assert self._process is not None
        return any(kill(pid) for pid in session_of(self._process.pid) if is_python_worker(pid))

    def _over(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        if self._listening is not None:
            self._listening.join(TIMEOUT_S)
