"""The pages a process shows over HTTP, and what it makes of those who do not ask for them properly."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import pytest

from millstream.net.http import HEAD_BYTES_MAX, LINES_PER_TURN, PEERS_MAX, TEXT, HttpPeer, Page, plain


def broken() -> Page:
    raise OSError("no disk")


def broken_later() -> Page:
    return Page(HTTPStatus.OK, TEXT, (str(1 // each) for each in (1, 0)))


PAGES: dict[str, Callable[[], Page]] = {
    "/health/live": lambda: plain(HTTPStatus.OK),
    "/long": lambda: Page(HTTPStatus.OK, TEXT, map(str, range(3 * LINES_PER_TURN + 1))),
    "/broken": broken,
    "/broken-later": broken_later,
}


async def asked(*questions: bytes) -> list[bytes]:
    """What each question on a connection of its own is answered, up to the end of that connection."""
    peers: set[HttpPeer] = set()
    server = await asyncio.get_running_loop().create_server(lambda: HttpPeer(PAGES, peers), "127.0.0.1", 0)
    async with server:
        place = server.sockets[0].getsockname()
        answers = []
        for question in questions:
            reader, writer = await asyncio.open_connection(*place)
            for at in range(0, len(question), 1000):
                writer.write(question[at : at + 1000])
            answers.append(await reader.read())
            writer.close()
            await writer.wait_closed()
    return answers


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("question", "status"),
    [
        (get("/health/live"), b"200 OK"),
        (get("/health/live?x=1"), b"200 OK"),
        (get("/elsewhere"), b"404 Not Found"),
        (get("/health/live", "POST"), b"405 Method Not Allowed"),
        (get("/broken"), b"500 Internal Server Error"),
        (get("/broken-later"), b"500 Internal Server Error"),
        (b"\x00\x00\x00\x12 nonsense\xff\r\n\r\n", b"400 Bad Request"),
        (b"GET / SPDY/9\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX, b"431 Request Header Fields Too Large"),
    ],
)
def test_every_question_has_its_status(question: bytes, status: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (answer,) = asyncio.run(asked(question))
    assert answer.startswith(b"HTTP/1.1 " + status + b"\r\n")
    assert b"\r\nConnection: close\r\n" in answer


def test_a_long_page_comes_whole_and_a_head_without_it() -> None:
    whole, head = asyncio.run(asked(get("/long"), get("/long", "HEAD")))
    body = "".join(f"{number}\n" for number in range(3 * LINES_PER_TURN + 1)).encode()
    assert whole.endswith(b"\r\n\r\n" + body)
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    assert head.endswith(b"\r\n\r\n")


def test_those_who_only_hold_a_connection_do_not_keep_others_out_for_ever() -> None:
    async def scenario() -> None:
        peers: set[HttpPeer] = set()
        server = await asyncio.get_running_loop().create_server(lambda: HttpPeer(PAGES, peers), "127.0.0.1", 0)
        async with server:
            place = server.sockets[0].getsockname()
            held = [await asyncio.open_connection(*place) for _ in range(PEERS_MAX + 1)]
            ends = [asyncio.create_task(reader.read()) for reader, _ in held]
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == 1  # The one too many; a reset connection or an end.
            for end in done:
                end.exception()
            for peer in list(peers):
                peer.close()
            await asyncio.gather(*ends, return_exceptions=True)
            for _, writer in held:
                writer.close()
            assert not peers

    asyncio.run(scenario())
