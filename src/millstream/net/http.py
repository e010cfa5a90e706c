"""A few pages over HTTP/1.1 for whoever watches a process: one answer to a connection, which is then closed."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from typing import NamedTuple, cast

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8 * 1024
PEERS_MAX = 64
#: From the first byte to the last; whoever is slower is hung up on.
EXCHANGE_TIMEOUT_S = 30.0
#: Lines made in one turn of the loop, which has others to serve: about a millisecond's worth.
LINES_PER_TURN = 200
TEXT = "text/plain; charset=utf-8"


class Page(NamedTuple):
    """An answer: its status, what it is, and its lines."""

    status: HTTPStatus
    content_type: str
    lines: Iterable[str]


#: What makes a page, by path.
Pages = Mapping[str, Callable[[], Page]]


def plain(status: HTTPStatus) -> Page:
    """A page that says no more than its status."""
    return Page(status, TEXT, [status.phrase])


class HttpPeer(asyncio.Protocol):
    """One connection.  Nothing that comes over it harms the process: what is wrong or too long is refused."""

    def __init__(self, pages: Pages, peers: "set[HttpPeer]") -> None:
        self._pages = pages
        self._peers = peers
        self._head = bytearray()
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._deadline = asyncio.get_running_loop().call_later(EXCHANGE_TIMEOUT_S, self.close)
        self._peers.add(self)
        if len(self._peers) > PEERS_MAX:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._deadline.cancel()
        self._peers.discard(self)
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None:
            return  # One question to a connection.
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._answer(*self._asked())
        elif len(self._head) > HEAD_BYTES_MAX:
            self._answer("GET", plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def _asked(self) -> tuple[str, Page]:
        """The method, and the page that answers it."""
        words = bytes(self._head).split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", plain(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        make = self._pages.get(target.partition("?")[0])
        if make is None:
            return method, plain(HTTPStatus.NOT_FOUND)
        if method not in ("GET", "HEAD"):
            return method, plain(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return method, make()
        except Exception:
            logger.exception("the page %s went wrong", target)
            return method, plain(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _answer(self, method: str, page: Page) -> None:
        self._answering = asyncio.get_running_loop().create_task(self._send(method, page))

    async def _send(self, method: str, page: Page) -> None:
        try:
            body = await _joined(page.lines)
        except Exception:
            logger.exception("a page went wrong")
            page = plain(HTTPStatus.INTERNAL_SERVER_ERROR)
            body = await _joined(page.lines)
        head = (
            f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
            f"Content-Type: {page.content_type}\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if method == "HEAD" else body))
        self._transport.close()


async def _joined(lines: Iterable[str]) -> bytes:
    """All lines as one body, made a few at a time so that nobody waits long for the loop."""
    source, parts = iter(lines), []
    while some := list(islice(source, LINES_PER_TURN)):
        parts.append("\n".join(some).encode() + b"\n")
        await asyncio.sleep(0)
    return b"".join(parts)
