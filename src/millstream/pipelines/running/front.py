"""What a command that watches pipelines shows: progress on a display, metrics over HTTP; and the signals it hears."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

from millstream.metrics.metric import TURN_S, Metrics
from millstream.metrics.prometheus import CONTENT_TYPE, lines
from millstream.model.clock import Clock
from millstream.net.http import HttpPeer, Page, pages_handler, plain
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.progress import Progress

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


class Front:
    """The outside of one supervisor or of several. ``stop`` is called for each signal that asks for it."""

    def __init__(
        self,
        display: Display,
        clock: Clock,
        progress: Progress,
        metrics: Metrics,
        is_up: Callable[[], bool],
        stop: Callable[[], None],
    ) -> None:
        self._display = display
        self._clock = clock
        self._progress = progress
        self._metrics = metrics
        self._is_up = is_up
        self._stop = stop
        self._peers: set[HttpPeer] = set()

    @asynccontextmanager
    async def open(self, metrics_at: tuple[str, int] | None) -> AsyncIterator[None]:
        """Show and hear for as long as the block runs."""
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self._stop)
        server = await self._listen(*metrics_at) if metrics_at else None
        beside = [asyncio.create_task(self._show()), asyncio.create_task(self._turn())]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            if server is not None:
                server.close()
            for peer in list(self._peers):
                peer.close()
            for number in STOPS:
                loop.remove_signal_handler(number)

    async def _show(self) -> None:
        before_s = self._clock.monotonic_s()
        while True:
            await asyncio.sleep(self._display.every_s)
            now_s = self._clock.monotonic_s()
            if self._progress.queries or self._progress.down:
                self._display.show(self._progress, now_s - before_s)
            before_s = now_s

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(TURN_S)
            self._metrics.turn()

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        """Show the metrics there."""
        pages: Mapping[str, Callable[[], Page]] = {
            "/metrics": lambda: Page(HTTPStatus.OK, CONTENT_TYPE, lines(self._metrics)),
            "/health/live": lambda: plain(HTTPStatus.OK),
            "/health/ready": lambda: plain(HTTPStatus.OK if self._is_up() else HTTPStatus.SERVICE_UNAVAILABLE),
        }
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(lambda: HttpPeer(pages_handler(pages), self._peers), host, port)
        except OSError as error:
            raise PipelineError(f"--metrics-port {port}: {error.strerror}") from None
        self._display.say(f"metrics {host}:{server.sockets[0].getsockname()[1]}")
        return server
