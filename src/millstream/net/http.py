"""Answers over HTTP/1.1: a few pages for whoever watches a process, or whatever a handler makes of a request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import NamedTuple, cast

from millstream.net.http_intake import HEAD_BYTES_MAX, Intake, Refusal, Request

__all__ = ["HEAD_BYTES_MAX", "Handler", "HttpPeer", "Page", "Pages", "Request", "pages_handler", "plain"]

logger = logging.getLogger(__name__)

PEERS_MAX = 64
#: For a request to come, and for its answer to be taken; whoever is slower is hung up on.
EXCHANGE_TIMEOUT_S = 30.0
#: Lines made in one turn of the loop, which has others to serve: about a millisecond's worth.
LINES_PER_TURN = 200
TEXT = "text/plain; charset=utf-8"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"


class Page(NamedTuple):
    """An answer: its status, what it is, its lines, and headers of its own."""

    status: HTTPStatus
    content_type: str
    lines: Iterable[str]
    headers: Mapping[str, str] = {}


#: What makes a page, by path.
Pages = Mapping[str, Callable[[], Page]]
#: What answers a request; whatever it raises is an error of ours.
Handler = Callable[[Request], Awaitable[Page]]


def plain(status: HTTPStatus) -> Page:
    """A page that says no more than its status."""
    return Page(status, TEXT, [status.phrase])


def pages_handler(pages: Pages) -> Handler:
    """What answers with these pages, and refuses whoever asks for more than to see them."""

    async def answer(request: Request) -> Page:
        make = pages.get(request.path)
        if make is None:
            return plain(HTTPStatus.NOT_FOUND)
        if request.method not in ("GET", "HEAD"):
            return plain(HTTPStatus.METHOD_NOT_ALLOWED)
        return make()

    return answer


class HttpPeer(asyncio.Protocol):
    """One connection.  Nothing that comes over it harms the process: what is wrong or too long is refused.

    Requests are answered one after the other where ``keeps_open`` allows more than one of them.
    """

    def __init__(self, answer: Handler, peers: "set[HttpPeer]", *, keeps_open: bool = False) -> None:
        self._answer = answer
        self._peers = peers
        self._keeps_open = keeps_open
        self._intake = Intake()
        self._answering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._set_deadline()
        self._peers.add(self)
        if len(self._peers) > PEERS_MAX:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._clear_deadline()
        self._peers.discard(self)
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        self._intake.add(data)
        if self._answering is None:
            self._next()

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def _next(self) -> None:
        """Begin to answer the next request, if it is there."""
        try:
            request = self._intake.take()
        except Refusal as refusal:
            self._begin(self._refuse(plain(refusal.status)))
            return
        if request is not None:
            self._begin(self._exchange(request))
        elif self._intake.awaits_word:
            self._transport.write(GO_ON)

    def _begin(self, work: Awaitable[None]) -> None:
        self._clear_deadline()
        self._transport.pause_reading()
        self._answering = asyncio.ensure_future(work)

    async def _refuse(self, page: Page) -> None:
        body = await _joined(page.lines)
        self._transport.write(_head(page, body, is_kept=False) + body)
        self._set_deadline()
        self._transport.close()

    async def _exchange(self, request: Request) -> None:
        is_kept = self._keeps_open and request.is_kept
        try:
            page = await self._answer(request)
            body = await _joined(page.lines)
        except Exception:
            logger.exception("the page %s went wrong", request.path)
            page = plain(HTTPStatus.INTERNAL_SERVER_ERROR)
            body = await _joined(page.lines)
        if self._transport.is_closing():
            return
        self._transport.write(_head(page, body, is_kept) + (b"" if request.method == "HEAD" else body))
        self._set_deadline()
        self._answering = None
        if is_kept:
            self._transport.resume_reading()
            self._next()
        else:
            self._transport.close()

    def _set_deadline(self) -> None:
        self._clear_deadline()
        self._deadline = asyncio.get_running_loop().call_later(EXCHANGE_TIMEOUT_S, self.close)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()


def _head(page: Page, body: bytes, is_kept: bool) -> bytes:
    own = dict(page.headers)
    if body:
        own["Content-Type"] = page.content_type
    if page.status is not HTTPStatus.NO_CONTENT:
        own["Content-Length"] = str(len(body))
    own["Connection"] = "keep-alive" if is_kept else "close"
    lines = [f"HTTP/1.1 {page.status.value} {page.status.phrase}", *(f"{name}: {it}" for name, it in own.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def _joined(lines: Iterable[str]) -> bytes:
    """All lines as one body, made a few at a time so that nobody waits long for the loop."""
    source, parts = iter(lines), []
    while some := list(islice(source, LINES_PER_TURN)):
        parts.append("\n".join(some).encode() + b"\n")
        await asyncio.sleep(0)
    return b"".join(parts)
