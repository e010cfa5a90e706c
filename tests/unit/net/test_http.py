"""The pages a process shows over HTTP, and what it makes of those who do not ask for them properly."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import pytest

from millstream.net.http import (
    HEAD_BYTES_MAX,
    LINES_PER_TURN,
    PEERS_MAX,
    TEXT,
    HttpPeer,
    Page,
    Request,
    pages_handler,
    plain,
)


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
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpPeer(pages_handler(PAGES), peers), "127.0.0.1", 0
    )
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
        server = await asyncio.get_running_loop().create_server(
            lambda: HttpPeer(pages_handler(PAGES), peers), "127.0.0.1", 0
        )
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


async def _echo(request: Request) -> Page:
    if request.path == "/nothing":
        return Page(HTTPStatus.NO_CONTENT, TEXT, ())
    said = f"{request.method} {request.path} {request.query} {request.body.decode()}"
    return Page(HTTPStatus.OK, TEXT, [said], {"X-Own": "yes"})


async def _conversation(*pieces: bytes) -> bytes:
    """All that is answered to bytes that come piece by piece, each once the one before was answered or read."""
    peers: set[HttpPeer] = set()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: HttpPeer(_echo, peers, keeps_open=True), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        await writer.wait_closed()
    return answer


def test_a_handler_is_given_bodies_and_answers_one_request_after_the_other_on_a_connection() -> None:
    put = b"PUT /a%20b?x=1&y HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    chunks = b"PATCH /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    last = b"DELETE /nothing HTTP/1.1\r\nConnection: close\r\n\r\n"
    answer = asyncio.run(_conversation(put + chunks[:40], chunks[40:], last))
    assert answer.count(b"Connection: keep-alive\r\n") == 2
    assert b"X-Own: yes\r\n" in answer
    assert b"\r\n\r\nPUT /a%20b x=1&y hello\n" in answer
    assert b"\r\n\r\nPATCH /c  abcde\n" in answer
    assert answer.endswith(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")


def test_a_body_that_is_held_back_is_asked_for() -> None:
    async def scenario() -> None:
        peers: set[HttpPeer] = set()
        server = await asyncio.get_running_loop().create_server(lambda: HttpPeer(_echo, peers), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"xy")
            answer = await asyncio.wait_for(reader.read(), 10)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nPOST /a  xy\n")
            writer.close()
            await writer.wait_closed()

    asyncio.run(scenario())
