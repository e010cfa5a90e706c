"""Where answers wait: a change to a watched key asks again, a deadline ends it."""

import asyncio
from collections.abc import Callable, Hashable, Iterable


class _Waiter:
    """One answer that waits; ``future`` is renewed each time it is woken in vain."""

    __slots__ = ("future", "is_due")

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future
        self.is_due = False

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def expire(self) -> None:
        self.is_due = True
        self.wake()


class Purgatory:
    """Waiting costs the waiter a future and a timer; waking a key that nobody watches costs one look-up."""

    def __init__(self) -> None:
        self._watchers: dict[Hashable, dict[_Waiter, None]] = {}

    async def until(self, done: Callable[[], bool], watching: Iterable[Hashable], timeout_ms: int) -> None:
        """Return when ``done`` says so, asked at once and again whenever a watched key is woken, or at the deadline."""
        if not done():
            await self.wait(done, watching, timeout_ms)

    async def wait(self, done: Callable[[], bool], watching: Iterable[Hashable], timeout_ms: int) -> None:
        """As ``until``, for whoever has asked already: ``done`` is first asked when a watched key is woken."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.create_future())
        keys = list(watching)
        for key in keys:
            self._watchers.setdefault(key, {})[waiter] = None
        timer = loop.call_later(timeout_ms / 1000, waiter.expire)
        try:
            while True:
                await waiter.future
                if waiter.is_due or done():
                    return
                waiter.future = loop.create_future()
        finally:
            timer.cancel()
            for key in keys:
                watchers = self._watchers[key]
                del watchers[waiter]
                if not watchers:
                    del self._watchers[key]

    def wake(self, key: Hashable) -> None:
        """Something about ``key`` changed."""
        watchers = self._watchers.get(key)
        if watchers:
            for waiter in watchers:
                waiter.wake()
