"""Keeps a pipeline running: its process started, listened to, ended in good order, and started again when it fell."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from millstream.metrics.prometheus import CONTENT_TYPE, lines
from millstream.model.clock import Clock
from millstream.net.http import HttpPeer, Page, pages_handler, plain
from millstream.pipelines.running.child import Child
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.metrics import PipelineMetrics
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.reports import Batch, Failed, Started, decode
from millstream.pipelines.running.restarts import Restarts

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How long the micro-batch under way may take to end once we are told to stop.
STOP_TIMEOUT_S = 60.0
TURN_S = 60.0
#: What Java and Spark say at each start, and nobody needs to know.
NOISE = ("WARNING: Using incubator modules", "Setting default log level to", "To adjust logging level use")
#: What runs a job; the job and the descriptor to report on are its arguments.
PROCESS = (sys.executable, "-m", "millstream.pipelines.running.process")
_LOGGING = Path(__file__).with_name("log4j2.properties")


class Display(Protocol):
    """Where a person, or a log, sees how it goes."""

    #: How often ``show`` wants to be called.
    every_s: float

    def show(self, progress: Progress, passed_s: float) -> None:
        """How far the queries are."""
        ...

    def say(self, line: str) -> None:
        """Something that happened."""
        ...

    def error(self, line: str) -> None:
        """A line that the pipeline wrote to standard error."""
        ...


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
    ) -> None:
        self.job = job
        self.progress = Progress()
        self.metrics = PipelineMetrics(job.name)
        self._display = display
        self._restarts = restarts
        self._clock = clock
        self._chance = chance
        self._log_level = log_level
        self._command = command
        self._child: Child | None = None
        self._stops = 0
        self._stopping = asyncio.Event()
        self._peers: set[HttpPeer] = set()

    async def run(self, metrics_at: tuple[str, int] | None = None) -> None:
        """Return when all queries have ended, or when told to stop; PipelineError when it cannot go on."""
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self.stop)
        server = await self._listen(*metrics_at) if metrics_at else None
        beside = [asyncio.create_task(self._show()), asyncio.create_task(self._turn())]
        try:
            await self._keep_running()
        finally:
            for task in beside:
                task.cancel()
            if server is not None:
                server.close()
            for peer in list(self._peers):
                peer.close()
            for number in STOPS:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """End it behind the micro-batch under way; told again, at once."""
        self._stops += 1
        self._stopping.set()
        if self._stops > 1 and self._child is not None:
            self._child.kill()

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            self._restarts.started()
            fall = await self._run_once()
            self.metrics.up.value = 0
            if fall is None or self._stopping.is_set():
                return
            if fall.is_final:
                raise PipelineError(fall.message)
            wait_s = self._restarts.fell(self._clock.monotonic_s(), self._chance())
            if wait_s is None:
                raise PipelineError(f"{fall.message}; it fell {self._restarts.falls} times in a row, which is enough")
            self._display.say(f"{fall.message}; it is started again in {wait_s:.1f} s")
            self.metrics.restarts.value += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait_s)

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
            self.progress.add(report)
            self.metrics.add(report, self.progress.queries[report.query])
            self._restarts.progressed(self._clock.monotonic_s())
        elif isinstance(report, Started):
            run.is_started = True
            self.metrics.up.value = 1
            self._display.say(f"running {', '.join(report.queries) or 'no query'}")
        else:
            run.failure = report

    def _pass_on(self, line: str) -> None:
        """What the process and its children write to standard error."""
        if not line.startswith(NOISE) and not self._stopping.is_set():
            self._display.error(line)

    async def _show(self) -> None:
        before_s = self._clock.monotonic_s()
        while True:
            await asyncio.sleep(self._display.every_s)
            now_s = self._clock.monotonic_s()
            if self.progress.queries:
                self._display.show(self.progress, now_s - before_s)
            before_s = now_s

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(TURN_S)
            self.metrics.metrics.turn()

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        """Show the metrics there."""
        pages: Mapping[str, Callable[[], Page]] = {
            "/metrics": lambda: Page(HTTPStatus.OK, CONTENT_TYPE, lines(self.metrics.metrics)),
            "/health/live": lambda: plain(HTTPStatus.OK),
            "/health/ready": lambda: plain(HTTPStatus.OK if self.metrics.up.value else HTTPStatus.SERVICE_UNAVAILABLE),
        }
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: HttpPeer(pages_handler(pages), self._peers), host, port)
        except OSError as error:
            raise PipelineError(f"--metrics-port {port}: {error.strerror}") from None
        self._display.say(f"metrics {host}:{server.sockets[0].getsockname()[1]}")
        return server


def environment(given: Mapping[str, str], job: Job, log_level: str) -> dict[str, str]:
    """What the process and its children find: the file's neighbours, and how much Spark logs."""
    folder = os.path.dirname(os.path.abspath(job.file))
    return {
        "LOG4J_CONFIGURATION_FILE": str(_LOGGING),
        **given,
        "MILLSTREAM_SPARK_LOG_LEVEL": log_level,
        "PYTHONPATH": os.pathsep.join(filter(None, (folder, given.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
    }
