"""The way to one broker: requests in order, one at a time, again and again until the broker answers or is gone."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.net.channels import Channels

_log = logging.getLogger(__name__)

OnResponse = Callable[[int, Any, Any], None]


class Outbox:
    """Sends until it is closed; ``on_response`` gets the broker's id, each request and its response."""

    def __init__(self, broker_id: int, channels: Channels, backoff_ms: int, on_response: OnResponse) -> None:
        self._broker_id = broker_id
        self._channels = channels
        self._backoff_s = backoff_ms / 1_000
        self._on_response = on_response
        self._waiting: deque[tuple[Any, asyncio.Future[None]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._told: asyncio.Future[None] | None = None

    def put(self, request: Any) -> None:
        told = asyncio.get_running_loop().create_future()
        self._told = told
        self._waiting.append((request, told))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_all())

    async def told(self) -> None:
        """Return when everything put so far was answered, or the broker is gone."""
        if self._told is not None and not self._told.done():
            await asyncio.wait([self._told])

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
