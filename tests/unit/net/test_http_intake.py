"""Requests out of bytes: whole whatever way they are cut, and refused when they cannot be read."""

from http import HTTPStatus

import pytest

from millstream.net.http_intake import BODY_BYTES_MAX, HEAD_BYTES_MAX, Intake, Refusal, Request

SENT = (
    b"POST /a?b=c HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\nabc"
    b"PUT /d HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nxy\r\n0\r\nTrailer: t\r\n\r\n"
    b"GET / HTTP/1.0\r\n\r\n"
)
READ = [
    Request("POST", "/a", "b=c", {"host": "here", "content-length": "3"}, b"abc", is_kept=True),
    Request("PUT", "/d", "", {"transfer-encoding": "Chunked"}, b"xy", is_kept=True),
    Request("GET", "/", "", {}, b"", is_kept=False),
]


@pytest.mark.parametrize("size", range(1, len(SENT) + 1, 7))
def test_requests_are_the_same_however_they_are_cut(size: int) -> None:
    intake, found = Intake(), []
    for at in range(0, len(SENT), size):
        intake.add(SENT[at : at + size])
        while request := intake.take():
            found.append(request)
    assert found == READ
    assert intake.is_empty


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", HTTPStatus.NOT_IMPLEMENTED),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", HTTPStatus.BAD_REQUEST),
        (
            b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1),
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        ),
        (
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (BODY_BYTES_MAX + 1),
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        ),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ],
)
def test_what_cannot_be_read_is_refused(sent: bytes, status: HTTPStatus) -> None:
    intake = Intake()
    intake.add(sent)
    with pytest.raises(Refusal) as caught:
        intake.take()
    assert caught.value.status is status
