"""Processes that share one loop: each can be paused as SIGSTOP does, and killed as SIGKILL does.

Whoever runs inside ``process.inside()`` is that process, and so is every task and callback begun there.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, TypeVarTuple, Unpack

from tests.simulation.loop import SimLoop

Ts = TypeVarTuple("Ts")

_PROCESS: ContextVar["Process | None"] = ContextVar("process", default=None)


class Process:
    """One life of a process."""

    def __init__(self, loop: "ClusterLoop", name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self._loop = loop
        self._held: list[asyncio.Handle] = []
        #: In the order they were begun, so that a seed ends them in the same order every time.
        self._tasks: dict[asyncio.Task[Any], None] = {}

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Whatever is begun inside the block belongs to this process."""
        token = _PROCESS.set(self)
        try:
            yield
        finally:
            _PROCESS.reset(token)

    def pause(self) -> None:
        """Run nothing of it, while time goes on and messages for it wait."""
        assert not self.is_dead
        self.is_paused = True

    def resume(self) -> None:
        """Run everything that became due meanwhile."""
        self.is_paused = False
        held, self._held = self._held, []
        self._loop.run_again(held)

    def kill(self) -> None:
        """End it without a word.  Its tasks unwind by themselves, for there is no other way to end them, but no wait
        of theirs ever ends: whatever reaches beyond memory begins with one, or asks whether the process is dead.
        """
        self.is_dead = True
        for task in list(self._tasks):
            task.cancel()
        self.resume()

    # What the loop asks.

    def runs(self, handle: asyncio.Handle) -> bool:
        """Whether a callback that is due may run now."""
        if self.is_paused:
            self._held.append(handle)
            return False
        return not (self.is_dead and isinstance(handle, asyncio.TimerHandle))

    def begun(self, task: asyncio.Task[Any]) -> None:
        """A task of this process."""
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        if self.is_dead:
            task.cancel()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self.is_dead and not task.cancelled():
            task.exception()  # Nobody is left to look at it.


def running_process() -> Process | None:
    """Whose turn it is; None for the world outside every process."""
    return _PROCESS.get()


class _Call(asyncio.Handle):
    __slots__ = ()

    _context: Context

    def _run(self) -> None:
        process = self._context.get(_PROCESS)
        if process is None or process.runs(self):
            super()._run()


class _Timer(asyncio.TimerHandle):
    """A timer; of those due at the same time the one that was set first is first."""

    __slots__ = ("number",)

    _context: Context
    _scheduled: bool
    _when: float
    number: int

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        assert isinstance(other, _Timer)
        if self._when == other._when:
            return self.number < other.number
        return self._when < other._when

    def _run(self) -> None:
        process = self._context.get(_PROCESS)
        if process is None or process.runs(self):
            super()._run()


class ClusterLoop(SimLoop):
    """A loop on virtual time that asks, before it calls anything, whether the process that it belongs to runs."""

    #: asyncio's own: what is called in this turn, and the timers.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self._timer_count = 0
        self.set_task_factory(_make_task)

    def _check_closed(self) -> None:
        """After the world's end what is left of a dead process may unwind, and call for whom it likes: nobody comes."""

    def run_again(self, handles: list[asyncio.Handle]) -> None:
        """Call these soon, in this order, unless they are cancelled before."""
        self._ready.extend(handles)

    def _call_soon(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None) -> _Call:
        handle = _Call(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's."""
        timer = _Timer(when, callback, args, self, context)
        timer.number = self._timer_count = self._timer_count + 1
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **options: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(coro, loop=loop, **options)
    context = options.get("context")
    process = _PROCESS.get() if context is None else context.get(_PROCESS)
    if process is not None:
        process.begun(task)
    return task
