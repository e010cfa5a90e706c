"""All flows of a file kept running, each in a process of its own: one that falls disturbs no other."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from millstream.metrics.metric import Metrics
from millstream.model.clock import Clock
from millstream.pipelines.mirror.definition import Flow, Mirror
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.front import Display, Front
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.metrics import METRICS
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.restarts import Restarts
from millstream.pipelines.running.supervisor import Supervisor

PROCESS = (sys.executable, "-m", "millstream.pipelines.mirror.process")


def jobs_of(mirror: Mirror, file: str, folder: str, master: str, conf: Mapping[str, str]) -> list[Job]:
    """A job for each flow, with a checkpoint of its own in the folder."""
    return [
        Job(file, flow.name, checkpoint_of(flow, folder), flow.target_bootstrap, master, conf) for flow in mirror.flows
    ]


def checkpoint_of(flow: Flow, folder: str) -> str:
    """Where the progress of a flow is kept."""
    return os.path.join(os.path.abspath(folder), f"{flow.source}-to-{flow.target}")


class Flows:
    """The supervisors of a mirror's flows, with one display and one page of metrics."""

    def __init__(
        self,
        jobs: Sequence[Job],
        display: Display,
        restarts: Callable[[], Restarts],
        clock: Clock,
        chance: Callable[[], float],
        log_level: str = "fatal",
        command: Sequence[str] = PROCESS,
    ) -> None:
        self.progress = Progress()
        self._metrics = Metrics(METRICS)
        self._display = display
        self._clock = clock
        self._left = len(jobs)
        self._supervisors = [
            Supervisor(
                job,
                _Named(display, job.name),
                restarts(),
                clock,
                chance,
                log_level,
                command,
                self.progress,
                self._metrics,
            )
            for job in jobs
        ]

    async def run(self, metrics_at: tuple[str, int] | None = None) -> None:
        """Return when told to stop; PipelineError when a flow cannot go on, behind the end of all others."""
        front = Front(self._display, self._clock, self.progress, self._metrics, self._is_up, self.stop)
        async with front.open(metrics_at):
            ends = [asyncio.create_task(self._keep(each)) for each in self._supervisors]
            for fault in await asyncio.gather(*ends, return_exceptions=True):
                if isinstance(fault, BaseException):
                    raise fault

    def stop(self) -> None:
        """End all of them; told again, at once."""
        for supervisor in self._supervisors:
            supervisor.stop()

    async def _keep(self, supervisor: Supervisor) -> None:
        try:
            await supervisor.keep_running()
        except PipelineError as error:
            if self._left > 1:
                self._display.error(f"{supervisor.job.name}: {error}; it stays down, and the other flows go on")
            raise
        except BaseException:
            self.stop()
            raise
        finally:
            self._left -= 1

    def _is_up(self) -> bool:
        return all(each.is_up for each in self._supervisors)


class _Named:
    """A display for one of several flows, whose lines say which it is."""

    def __init__(self, display: Display, name: str) -> None:
        self.every_s = display.every_s
        self._display = display
        self._name = name

    def show(self, progress: Progress, passed_s: float) -> None:
        self._display.show(progress, passed_s)

    def say(self, line: str) -> None:
        self._display.say(f"{self._name}: {line}")

    def error(self, line: str) -> None:
        self._display.error(line)
