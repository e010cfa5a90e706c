"""One connector carried out: its process started, heard, ended and started again, as its life says."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from millstream.model.clock import Clock
from millstream.pipelines.connect import leash
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.reports import Batch, Failed, Offsets, Started, decode
from millstream.pipelines.connect.runtime.lifecycle import HAS_PROCESS, Fall, Life, Order, Phase
from millstream.pipelines.connect.runtime.states import Target
from millstream.pipelines.running.child import Child
from millstream.pipelines.running.restarts import Restarts

logger = logging.getLogger(__name__)

#: How long the batch under way may take to end once a connector is told to stop.
STOP_TIMEOUT_S = 60.0


class Watcher(Protocol):
    """Who is told how a connector fares."""

    def changed(self, connector: "Supervised") -> None:
        """Its state, or the number of its tasks, may be another."""
        ...

    def worked(self, connector: "Supervised", batch: Batch) -> None:
        """It has ended a batch."""
        ...

    def fell(self, connector: "Supervised") -> None:
        """A process of it has ended otherwise than in good order; called before another is started."""
        ...

    def said(self, connector: "Supervised", line: str) -> None:
        """Its process wrote a line to standard error."""
        ...


class Supervised:
    """A connector's process, and never more than one.

    ``prepare`` makes the job of each start; what it raises is a fall like any other.
    """

    def __init__(
        self,
        name: str,
        prepare: Callable[[], Awaitable[Job]],
        watcher: Watcher,
        *,
        command: Sequence[str],
        env: Mapping[str, str],
        restarts: Restarts,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self.name = name
        self.life = Life()
        self.tasks = 0
        self.starts = 0
        self.falls = 0
        self._prepare = prepare
        self._watcher = watcher
        self._command = command
        self._env = env
        self._restarts = restarts
        self._clock = clock
        self._chance = chance
        self._child: Child | None = None
        self._run: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return self._child.pid if self._child is not None else None

    def want(self, target: Target) -> None:
        """Have it be so; what that takes is done in time."""
        self._follow(*self.life.wanted(target))

    def anew(self) -> None:
        """Have another process take the place of this one, at once where it waits after a fall."""
        self._restarts.falls = 0
        self._follow(*self.life.anew())

    def pulse(self) -> None:
        """Let its process know that its worker is well."""
        if self._child is not None:
            self._child.tell(leash.alive(self._clock.monotonic_s()))

    async def settled(self) -> None:
        """Return once there is no process."""
        await self._idle.wait()

    async def close(self) -> None:
        """End it in good order, and start nothing more."""
        self.want(Target.PAUSED)
        await self.settled()
        self._cancel_timer()

    def kill(self) -> None:
        """End it at once, and start nothing more."""
        self.want(Target.PAUSED)
        self._cancel_timer()
        if self._child is not None:
            self._child.kill()

    # Carrying out.

    def _follow(self, life: Life, order: Order | None) -> None:
        is_other = life != self.life
        self.life = life
        if order is not None:
            _CARRIED_OUT[order](self)
        if life.phase not in HAS_PROCESS:
            self._idle.set()
        if is_other:
            self._watcher.changed(self)

    def _start(self) -> None:
        self._cancel_timer()
        self._idle.clear()
        self._run = asyncio.create_task(self._live())

    def _let_go(self) -> None:
        assert self._child is not None
        self._child.tell(leash.STOP)
        self._child.let_go()
        self._timer = asyncio.get_running_loop().call_later(STOP_TIMEOUT_S, self._kill)

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    def _wait(self) -> None:
        self.falls += 1
        wait_s = self._restarts.fell(self._clock.monotonic_s(), self._chance())
        assert wait_s is not None, "a connector may fall as often as it likes"
        fall = self.life.fall
        assert fall is not None
        self._watcher.said(self, f"{fall.message}; it is started again in {wait_s:.1f} s")
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(wait_s, lambda: self._follow(*self.life.waited()))

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _live(self) -> None:
        """One life of the process, from start to end."""
        self._restarts.started()
        self.starts += 1
        try:
            fall = await self._run_once()
        except Exception as error:
            logger.debug("connector %s could not be started", self.name, exc_info=True)
            fall = Fall(f"{type(error).__name__}: {error}", "", is_final=False)
        self._cancel_timer()
        if fall.is_final and self.life.phase is not Phase.ENDING:
            self._watcher.said(self, fall.message)
        self._follow(*self.life.ended(fall))

    async def _run_once(self) -> Fall:
        job = await self._prepare()
        failures: list[Fall] = []
        # Its name is there for whoever looks at the machine's processes.
        command = (*self._command, os.path.basename(job.home))
        child = await Child.start(
            command, self._env, lambda line: self._hear(line, failures), self._pass_on, first=job.to_line()
        )
        self._child = child
        if self.life.phase is Phase.ENDING:  # It was called off while it was being started.
            child.kill()
        try:
            code = await child.ended()
        finally:
            self._child = None
        if code:
            self._watcher.fell(self)
        if failures:
            return failures[-1]
        return Fall(f"the connector's process {child.obituary(code)}", "\n".join(child.said), is_final=False)

    def _hear(self, line: bytes, failures: list[Fall]) -> None:
        """What the process reports."""
        report = decode(line)
        if isinstance(report, Started):
            is_other = report.tasks != self.tasks
            self.tasks = report.tasks
            self._restarts.progressed(self._clock.monotonic_s())  # There may be nothing to do for long.
            if self.life.phase is Phase.STARTING:
                self._follow(self.life.running(), None)
            elif is_other:
                self._watcher.changed(self)
        elif isinstance(report, Batch):
            self._restarts.progressed(self._clock.monotonic_s())
            self._watcher.worked(self, report)
        elif isinstance(report, Failed):
            failures.append(Fall(report.message, report.trace, report.is_final))
        else:
            assert isinstance(report, Offsets)  # They are in their topic, or in their group, already.

    def _pass_on(self, line: str) -> None:
        if self.life.phase is not Phase.ENDING:
            self._watcher.said(self, line)


_CARRIED_OUT: Mapping[Order, Callable[[Supervised], None]] = {
    Order.START: Supervised._start,
    Order.LET_GO: Supervised._let_go,
    Order.KILL: Supervised._kill,
    Order.WAIT: Supervised._wait,
}
