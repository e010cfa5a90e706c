"""Coroutines begun at once: what needs no waiting costs nothing more, and what must wait keeps its place.

A task starts a coroutine a turn of the loop later, costs as much as a whole small request, and reports its end
another turn later.  A request can afford none of that, so it is stepped here: by hand until it first waits, and then
by the future it waits for.

Invariant: handlers await futures and nothing that asks for the current task (``asyncio.timeout``, task groups).
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class Suspended:
    """A coroutine that waits; ``on_end`` is called with its result or its error, unless it was cancelled."""

    __slots__ = ("_awaited", "_coroutine", "_is_cancelled", "_loop", "_on_end")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        awaited: Any,
        on_end: Callable[[Any, Exception | None], None],
    ) -> None:
        """``awaited`` is what the coroutine yielded when it was stepped."""
        self._loop = loop
        self._coroutine = coroutine
        self._on_end = on_end
        self._is_cancelled = False
        self._awaited: asyncio.Future[Any] | None = None
        self._wait_for(awaited)

    def cancel(self) -> None:
        """Let it end where it waits; nobody is told."""
        self._is_cancelled = True
        if self._awaited is not None:
            self._awaited.cancel()

    def _wait_for(self, awaited: Any) -> None:
        if awaited is None:  # It only lets others have their turn.
            self._awaited = None
            self._loop.call_soon(self._step)
            return
        # What a task does when a coroutine yields a future: take note that it is waited for, and wait.
        assert awaited._asyncio_future_blocking, f"a handler yielded {awaited!r}"
        awaited._asyncio_future_blocking = False
        self._awaited = awaited
        awaited.add_done_callback(self._step)

    def _step(self, _: object = None) -> None:
        try:
            if self._is_cancelled:
                awaited = self._coroutine.throw(asyncio.CancelledError())
            else:
                awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self._end(stop.value, None)
        except asyncio.CancelledError:
            return
        except Exception as error:
            self._end(None, error)
        else:
            self._wait_for(awaited)

    def _end(self, result: Any, error: Exception | None) -> None:
        # Whoever is called holds us: letting go here leaves no cycle for the garbage collector to find.
        on_end, self._on_end = self._on_end, _nobody
        if not self._is_cancelled:
            on_end(result, error)


class Begun(Generic[Result]):
    """A coroutine begun at once inside another: either done already, or to be awaited for its result."""

    __slots__ = ("_awaited", "_coroutine", "_result", "is_done")

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._coroutine = coroutine
        self._awaited: Any = None
        self.is_done = False
        self._step(coroutine.send, None)

    @property
    def result(self) -> Result:
        """What came of it, once it is done."""
        assert self.is_done
        return self._result

    def __await__(self) -> Generator[Any, Any, Result]:
        while not self.is_done:
            try:
                sent = yield self._awaited
            except BaseException as error:
                self._step(self._coroutine.throw, error)
            else:
                self._step(self._coroutine.send, sent)
        return self._result

    def cancel(self) -> None:
        """Let it end where it waits, if it does; nobody awaits it any more."""
        if not self.is_done:
            self.is_done = True
            if self._awaited is not None:
                self._awaited.cancel()
            self._coroutine.close()

    def _step(self, step: Callable[[Any], Any], what: Any) -> None:
        try:
            self._awaited = step(what)
        except StopIteration as stop:
            self.is_done = True
            self._result: Result = stop.value


async def together(works: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results of all of them, or the first failure.

    All begin at once; those that wait more than once go on one after another. So this is for what waits for nothing but
    one answer each, where tasks would take several turns of the loop to tell of it; one that held a lock while another
    is awaited would hold it for ever.
    """
    begun: list[Begun[Result]] = []
    try:
        begun.extend(map(Begun, works))
        return [await each for each in begun]
    finally:
        for each in begun:
            each.cancel()


def begin(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any],
    on_end: Callable[[Any, Exception | None], None],
) -> Suspended | None:
    """Run ``coroutine`` as far as it goes; None when it has ended already, and ``on_end`` was told."""
    try:
        awaited = coroutine.send(None)
    except StopIteration as stop:
        on_end(stop.value, None)
    except Exception as error:
        on_end(None, error)
    else:
        return Suspended(loop, coroutine, awaited, on_end)
    return None


def _nobody(result: Any, error: Exception | None) -> None:
    """It has ended, and who wanted to know was told."""
