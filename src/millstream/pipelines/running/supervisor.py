"""Keeps a pipeline running: its process started, listened to, ended in good order, and started again when it fell."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from millstream.metrics.prometheus import CONTENT_TYPE, lines
from millstream.model.clock import Clock
from millstream.net.http import HttpPeer, Page, pages_handler, plain
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.metrics import PipelineMetrics
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.reports import Batch, Failed, Started, decode
from millstream.pipelines.running.restarts import Restarts

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How long the micro-batch under way may take to end once we are told to stop.
STOP_TIMEOUT_S = 60.0
#: How long a process's last words are waited for once it has ended: its children may hold its pipes a little longer.
LAST_WORDS_S = 2.0
TURN_S = 60.0
LINE_BYTES_MAX = 1 << 24
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
    """One life of the pipeline's process."""

    process: asyncio.subprocess.Process
    #: The other end of its standard input, which it ends with; None once it was let go.
    leash: int | None
    is_started: bool = False
    failure: Failed | None = None
    #: The last lines of its standard error, for when it dies without a report.
    said: list[str] = field(default_factory=list)

    def let_go(self) -> None:
        """Tell the process to end in good order."""
        if self.leash is not None:
            os.close(self.leash)
            self.leash = None


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
        self._run: Run | None = None
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
        if self._stops > 1 and self._run is not None:
            _kill(self._run.process)

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
        reports, its_reports = os.pipe()
        errors, its_errors = os.pipe()
        its_input, leash = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(*self._command, self.job.to_text(), str(its_reports)),
                stdin=its_input,
                stderr=its_errors,
                pass_fds=(its_reports,),
                env=environment(os.environ, self.job, self._log_level),
                # Ctrl-C is for us alone, and whatever it leaves can be ended together.
                start_new_session=True,
            )
        finally:
            for end in (its_reports, its_errors, its_input):
                os.close(end)
        run = self._run = Run(process, leash)
        listening = [asyncio.create_task(self._hear(run, reports)), asyncio.create_task(self._pass_on(run, errors))]
        ending = asyncio.create_task(self._end_when_told(run))
        try:
            code = await process.wait()
        finally:
            ending.cancel()
            # Java and the workers, should they have outlived the driver: they must not write beside the next one.
            _kill(process)
            run.let_go()
            self._run = None
        await asyncio.wait(listening, timeout=LAST_WORDS_S)
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        if run.failure or code == 0:
            return run.failure
        return Failed(_obituary(code, run.said), is_final=False)

    async def _end_when_told(self, run: Run) -> None:
        """Let the process go once we are told to stop; end it if it does not."""
        await self._stopping.wait()
        if run.is_started:
            run.let_go()
            self._display.say("stopping behind the micro-batch under way; once more stops it at once")
            await asyncio.sleep(STOP_TIMEOUT_S)
        _kill(run.process)  # Nothing was under way, or it takes too long; a replay is harmless.

    async def _hear(self, run: Run, reader: int) -> None:
        """What the process reports."""
        async for line in _lines(reader):
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

    async def _pass_on(self, run: Run, reader: int) -> None:
        """What the process and its children write to standard error."""
        async for raw in _lines(reader):
            line = raw.decode(errors="replace").rstrip("\n")
            run.said = [*run.said[-9:], line]
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


def _kill(process: asyncio.subprocess.Process) -> None:
    """The process and whatever of its session is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _lines(reader: int) -> AsyncIterator[bytes]:
    """What comes over a pipe, line by line, until its last writer is gone."""
    stream = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb")
    )
    try:
        async for line in stream:
            yield line
    finally:
        transport.close()


def _obituary(code: int, said: list[str]) -> str:
    """How a process ended that did not say it itself."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    return f"the pipeline's process {how}" + (f" ({last})" if last and code > 0 else "")
