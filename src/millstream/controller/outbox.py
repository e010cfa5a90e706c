"""The way to one broker: requests in order, one at a time, again and again until the broker answers or is gone."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.net.channels import Channels

_log = logging.getLogger(__name__)

OnResponse = Callable[[int, Any, Any], None]

#: How long whoever asked for a change waits for brokers that are slow to hear of it.
NEWS_S = 1.0


async def all_told(outboxes: Iterable["Outbox"]) -> None:
    """Return when every broker has answered all that was put so far, but for those that take too long."""
    pending = [outbox.last for outbox in outboxes if outbox.last is not None and not outbox.last.done()]
    if pending:
        await asyncio.wait(pending, timeout=NEWS_S)


class Outbox:
    """Sends until it is closed; ``on_response`` gets the broker's id, each request and its response."""

    def __init__(self, broker_id: int, channels: Channels, backoff_ms: int, on_response: OnResponse) -> None:
        self._broker_id = broker_id
        self._channels = channels
        self._backoff_s = backoff_ms / 1_000
        self._on_response = on_response
        self._waiting: deque[tuple[Any, asyncio.Future[None]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        #: Done when the last request so far was answered, or never will be.
        self.last: asyncio.Future[None] | None = None

    def put(self, request: Any) -> None:
        told = asyncio.get_running_loop().create_future()
        self.last = told
        self._waiting.append((request, told))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    async def told(self) -> None:
        """Return when everything put so far was answered, or the broker is gone."""
        if self.last is not None and not self.last.done():
            await asyncio.wait([self.last])

    def close(self) -> None:
        """Send no more; whoever waits is let go."""
        if self._sender is not None:
            self._sender.cancel()
        for _, told in self._waiting:
            told.cancel()

    async def _send_all(self) -> None:
        while self._waiting:
            request, told = self._waiting[0]
            response = await self._send(request)
            self._waiting.popleft()
            self._on_response(self._broker_id, request, response)
            if not told.done():
                told.set_result(None)
        self._sender = None

    async def _send(self, request: Any) -> Any:
        """The response; one that refuses the whole request where the broker failed in a way that no retry mends."""
        while True:
            try:
                return await self._channels.send(self._broker_id, request)
            except (OSError, TimeoutError) as error:
                _log.info("broker %d did not answer (%s); sending again", self._broker_id, error)
                await asyncio.sleep(self._backoff_s)
            except ProtocolError as error:
                _log.warning("broker %d refused %s: %s", self._broker_id, type(request).__name__, error)
                return request.RESPONSE(error_code=error.code)
            except Exception:
                _log.exception("broker %d failed at %s", self._broker_id, type(request).__name__)
                return request.RESPONSE(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
