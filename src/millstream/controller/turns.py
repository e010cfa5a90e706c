"""Events in turn: handled one at a time in the order they came, by a task of their own.

A caller who gives up cannot interrupt a decision half-way.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from millstream.model.errors import ProtocolError

T = TypeVar("T")

Event = Callable[[], Awaitable[T]]


class Turns:
    """A queue of events; ``on_failure`` is told of every one that failed, but for refusals, before its caller is."""

    def __init__(self, on_failure: Callable[[Exception], None]) -> None:
        self._on_failure = on_failure
        self._events: asyncio.Queue[tuple[Event[Any], asyncio.Future[Any] | None]] = asyncio.Queue()
        self._handler: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._handler is not None

    def start(self) -> None:
        self._handler = asyncio.create_task(self._handle())

    async def close(self, refusal: Exception) -> None:
        """Handle no more; whoever waits is refused."""
        if self._handler is not None:
            self._handler.cancel()
            await asyncio.wait([self._handler])
            self._handler = None
        while not self._events.empty():
            _, answer = self._events.get_nowait()
            _fail(answer, refusal)

    async def ask(self, event: Event[T]) -> T:
        """Handle ``event`` in its turn; what it gives, or raises."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._events.put_nowait((event, answer))
        return await answer

    def post(self, event: Event[None]) -> None:
        """Handle ``event`` in its turn."""
        self._events.put_nowait((event, None))

    def poster(self, event: Event[None]) -> Callable[[], None]:
        """Posts ``event`` when called."""
        return lambda: self.post(event)

    async def _handle(self) -> None:
        while True:
            event, answer = await self._events.get()
            try:
                result = await event()
            except ProtocolError as refusal:
                _fail(answer, refusal)
            except Exception as error:
                self._on_failure(error)
                _fail(answer, error)
            else:
                if answer is not None and not answer.done():
                    answer.set_result(result)


def _fail(answer: asyncio.Future[Any] | None, error: Exception) -> None:
    if answer is not None and not answer.done():
        answer.set_exception(error)
