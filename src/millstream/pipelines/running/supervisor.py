"""Keeps a pipeline running: its process started, listened to, ended in good order, and started again when it fell."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from millstream.metrics.metric import Metrics
from millstream.model.clock import Clock
from millstream.pipelines.running.child import Child, surroundings
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.front import Display, Front
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.metrics import PipelineMetrics
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.reports import Batch, Failed, Started, Unseen, decode
from millstream.pipelines.running.restarts import Restarts

#: How long the micro-batch under way may take to end once we are told to stop.
STOP_TIMEOUT_S = 60.0
#: What runs a job; the job and the descriptor to report on are its arguments.
PROCESS = (sys.executable, "-m", "millstream.pipelines.running.process")


@dataclass
class Run:
    """One life of the pipeline's process, as far as it was told."""

    is_started: bool = False
    failure: Failed | None = None


class Supervisor:
    """Runs a job until it is done, is told to stop, or cannot go on."""

    def __init__(
        self,
        job: Job,
        display: Display,
        restarts: Restarts,
        clock: Clock,
        chance: Callable[[], float],
        log_level: str = "fatal",
        command: Sequence[str] = PROCESS,
        progress: Progress | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """``progress`` and ``metrics`` are given where several share them."""
        self.job = job
        self.progress = progress or Progress()
        self.metrics = PipelineMetrics(job.name, metrics)
        self._display = display
        self._restarts = restarts
        self._clock = clock
        self._chance = chance
        self._log_level = log_level
        self._command = command
        self._child: Child | None = None
        self._queries: set[str] = set()
        self._next_try_s: float | None = None
        self._stops = 0
        self._stopping = asyncio.Event()

    async def run(self, metrics_at: tuple[str, int] | None = None) -> None:
        """Return when all queries have ended, or when told to stop; PipelineError when it cannot go on."""
        front = Front(self._display, self._clock, self.progress, self.metrics.metrics, lambda: self.is_up, self.stop)
        async with front.open(metrics_at):
            await self.keep_running()

    @property
    def is_up(self) -> bool:
        """Whether the queries run."""
        return bool(self.metrics.up.value)

    def stop(self) -> None:
        """End it behind the micro-batch under way; told again, at once."""
        self._stops += 1
        self._stopping.set()
        if self._stops > 1 and self._child is not None:
            self._child.kill()

    async def keep_running(self) -> None:
        """The same as ``run``, with nobody to look on: for one of several."""
        while not self._stopping.is_set():
            self._restarts.started()
            fall = await self._run_once()
            self.metrics.up.value = 0
            if fall is None or self._stopping.is_set():
                return
            self._tell_of_fall()
            if fall.is_final:
                raise PipelineError(fall.message)
            wait_s = self._restarts.fell(self._clock.monotonic_s(), self._chance())
            if wait_s is None:
                raise PipelineError(f"{fall.message}; it fell {self._restarts.falls} times in a row, which is enough")
            self._display.say(f"{fall.message}; it is started again in {wait_s:.1f} s")
            self.metrics.restarts.value += 1
            self._next_try_s = self._clock.monotonic_s() + wait_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_s)

    def _tell_of_fall(self) -> None:
        self._next_try_s = None
        self.metrics.unseen(self._queries)
        self.progress.fell(self.job.name, self._queries, self._standing)

    def _standing(self) -> str:
        """How it is with it while it is down."""
        if self._child is not None:
            return "down, being started again"
        if self._next_try_s is None:
            return "down"
        return f"down, next try in {max(0.0, self._next_try_s - self._clock.monotonic_s()):.0f} s"

    async def _run_once(self) -> Failed | None:
        """One life of the process, from start to end; why it fell, or None when it was done or told to stop."""
        run = Run()
        child = self._child = await Child.start(
            (*self._command, self.job.to_text()),
            environment(os.environ, self.job, self._log_level),
            lambda line: self._hear(run, line),
            self._pass_on,
        )
        ending = asyncio.create_task(self._end_when_told(run, child))
        try:
            code = await child.ended()
        finally:
            ending.cancel()
            self._child = None
        if run.failure or code == 0:
            return run.failure
        return Failed(f"the pipeline's process {child.obituary(code)}", is_final=False)

    async def _end_when_told(self, run: Run, child: Child) -> None:
        """Let the process go once we are told to stop; end it if it does not."""
        await self._stopping.wait()
        if run.is_started:
            child.let_go()
            self._display.say("stopping behind the micro-batch under way; once more stops it at once")
            await asyncio.sleep(STOP_TIMEOUT_S)
        child.kill()  # Nothing was under way, or it takes too long; a replay is harmless.

    def _hear(self, run: Run, line: bytes) -> None:
        """What the process reports."""
        report = decode(line)
        if isinstance(report, Batch):
            self._queries.add(report.query)
            self.progress.add(report)
            self.metrics.add(report, self.progress.queries[report.query])
            self._restarts.progressed(self._clock.monotonic_s())
        elif isinstance(report, Started):
            run.is_started = True
            self.metrics.up.value = 1
            self.progress.started(self.job.name)
            self._display.say(f"running {', '.join(report.queries) or 'no query'}")
        elif isinstance(report, Unseen):
            known = self._queries & {report.query}
            self.progress.unseen(known)
            self.metrics.unseen(known)
        else:
            run.failure = report

    def _pass_on(self, line: str) -> None:
        """What the process and its children write to standard error."""
        if not self._stopping.is_set():
            self._display.error(line)


def environment(given: Mapping[str, str], job: Job, log_level: str) -> dict[str, str]:
    """What the process and its children find: the file's neighbours, and how much Spark logs."""
    return surroundings(given, [os.path.dirname(os.path.abspath(job.file))], log_level)
