"""Virtual time: an event loop whose clock jumps, and the clock and workers that go with it."""

import asyncio
import pickle
import random
import selectors
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, TypeVarTuple, Unpack

from tests.simulation.network import SimNetwork

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: The wall clock's reading when a simulation begins: some moment well after the epoch.
EPOCH_MS = 1_700_000_000_000
#: A thread that works longer than this in real time will never come back.
THREAD_PATIENCE_S = 60.0


class Deadlock(RuntimeError):
    """Nothing can run, no timer is set and no thread works: whoever still waits would wait for ever."""


class SimLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer the moment nothing can run.

    The clock stands still while a thread or process works for the loop (``run_in_executor``).
    """

    #: What servers and connections are made on; without one the loop has none.
    network: SimNetwork | None = None

    def __init__(self) -> None:
        self._now_s = 0.0
        self._outside_count = 0
        self._own_executor: ThreadPoolExecutor | None = None
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now_s

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Virtual time does not pass inside the block: something outside the loop is at work."""
        self._outside_count += 1
        try:
            yield
        finally:
            self._outside_count -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As asyncio's; the clock stands still until the work has ended, also when nobody waits for it any more."""
        if executor is None:
            executor = self._own_executor = self._own_executor or ThreadPoolExecutor()
        work = executor.submit(func, *args)
        self._outside_count += 1
        future = asyncio.wrap_future(work, loop=self)
        work.add_done_callback(self._came_back)  # Added last: the result must be on its way before time may pass.
        return future

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        """Listen on the simulated network."""
        assert self.network is not None, "this loop has no network"
        return await self.network.listen(protocol_factory, host, port)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        """Connect over the simulated network."""
        assert self.network is not None, "this loop has no network"
        return await self.network.connect(protocol_factory, host, port)

    async def shutdown_default_executor(self) -> None:
        """Wait for the threads in real time; nothing else may run by then."""
        if self._own_executor:
            self._own_executor.shutdown()

    def _came_back(self, _: object) -> None:
        with suppress(RuntimeError):  # A loop that is closed by now keeps no time.
            self.call_soon_threadsafe(self._uncount)

    def _uncount(self) -> None:
        self._outside_count -= 1

    def _pass(self, timeout_s: float | None, poll: Callable[[float], list[Any]]) -> list[Any]:
        """Let time pass until something can run: real time for work outside, virtual time for timers."""
        events = poll(0)
        if events or timeout_s == 0:
            return events
        if self._outside_count:
            events = poll(THREAD_PATIENCE_S)
            if not events:
                raise Deadlock(f"work outside the loop did not end within {THREAD_PATIENCE_S:.0f} s")
            return events
        if timeout_s is None:
            raise Deadlock("nothing can run and no timer is set; waiting:\n" + "\n".join(self._waiting()))
        self._now_s += timeout_s
        return []

    def _waiting(self) -> Iterator[str]:
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            for frame in task.get_stack(limit=1):
                yield f"  {task.get_name()} at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that asks the loop how time passes."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        return self._loop._pass(timeout, super().select)


def run(scenario: Coroutine[Any, Any, T], network: SimNetwork | None = None) -> T:
    """Run a scenario on virtual time (and, where given, on a simulated network), and leave nothing behind."""
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SimLoop)
        loop.network = network
        return runner.run(scenario)


class ManualClock:
    """A clock that a test turns by hand."""

    def __init__(self, now_ms: int = EPOCH_MS) -> None:
        self._started_ms = now_ms
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return (self._now_ms - self._started_ms) / 1000

    def advance(self, ms: int) -> None:
        """Let time pass."""
        assert ms >= 0, "time does not go back"
        self._now_ms += ms


class SimClock:
    """A machine's clock inside a simulation: it follows the loop's, ahead or behind by its own skew."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + round(self._loop.time() * 1000)

    def monotonic_s(self) -> float:
        return self._loop.time()


class SimWorkers:
    """Threads and processes without either: jobs run on the loop, each after and before a delay from the seed.

    As with real threads, a job that has been handed over runs to its end even when nobody waits for it any more.
    With ``delay_ms_max`` 0 jobs run at once, inside the call.
    """

    def __init__(self, rng: random.Random | None = None, delay_ms_max: float = 0) -> None:
        self._rng = rng or random.Random(0)
        self._delay_s_max = delay_ms_max / 1000
        self._jobs: set[asyncio.Task[Any]] = set()

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Run ``function`` as if in a thread."""
        if not self._delay_s_max:
            return function(*args)
        job = asyncio.ensure_future(self._job(function, args))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return await asyncio.shield(job)

    async def in_process(self, function: Callable[..., T], *args: object) -> T:
        """Run ``function`` as if in a process: everything that goes over is pickled."""
        there, given = pickle.loads(pickle.dumps((function, args)))
        result: T = pickle.loads(pickle.dumps(await self.in_thread(there, *given)))
        return result

    async def _job(self, function: Callable[..., T], args: tuple[object, ...]) -> T:
        await asyncio.sleep(self._rng.uniform(0, self._delay_s_max))
        try:
            return function(*args)
        finally:
            await asyncio.sleep(self._rng.uniform(0, self._delay_s_max))
