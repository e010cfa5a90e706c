"""Requests of HTTP/1.1 out of bytes, in order and whole; no sockets."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

HEAD_BYTES_MAX = 8 * 1024
BODY_BYTES_MAX = 8 * 1024 * 1024
HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"
CHUNKED = "chunked"


class Refusal(Exception):
    """What came is no request that could be answered in another way than by this status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Request(NamedTuple):
    """A request.  ``path`` is as it was written, its escapes unresolved; names of headers are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    #: Whether another request may follow on the same connection.
    is_kept: bool = False


class Intake:
    """What came over one connection and is not taken yet."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        #: The head of the request whose body is not there yet, and the body so far.
        self._open: Request | None = None
        self._body = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in the middle of a request."""
        return not self._bytes and self._open is None

    @property
    def awaits_word(self) -> bool:
        """Whether the sender holds the body back until it is told to go on."""
        is_held = self._open is not None and self._open.headers.get("expect", "").lower() == "100-continue"
        return is_held and not self._bytes and not self._body

    def add(self, data: bytes) -> None:
        """Some more bytes."""
        self._bytes += data

    def take(self) -> Request | None:
        """The next request, None while it is not whole; Refusal when it never will be."""
        if self._open is None:
            self._open = self._take_head()
        if self._open is None or not self._has_body(self._open.headers):
            return None
        whole = self._open._replace(body=bytes(self._body))
        self._open, self._body = None, bytearray()
        return whole

    def _take_head(self) -> Request | None:
        end = self._bytes.find(HEAD_END)
        if end > HEAD_BYTES_MAX or (end < 0 and len(self._bytes) > HEAD_BYTES_MAX):
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if end < 0:
            return None
        head = bytes(self._bytes[:end]).decode("latin-1")
        del self._bytes[: end + len(HEAD_END)]
        return _head_of(head)

    def _has_body(self, headers: Mapping[str, str]) -> bool:
        """Whether the body is there; what there is of it is moved over."""
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.strip().lower() != CHUNKED:
                raise Refusal(HTTPStatus.NOT_IMPLEMENTED)
            return self._has_chunks()
        length = headers.get("content-length", "0").strip()
        if not (length.isascii() and length.isdigit()):
            raise Refusal(HTTPStatus.BAD_REQUEST)
        if int(length) > BODY_BYTES_MAX:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if len(self._bytes) < int(length):
            return False
        self._move(int(length))
        return True

    def _has_chunks(self) -> bool:
        """Whether the last chunk is there, and the end of whatever follows it."""
        while (end := self._bytes.find(LINE_END)) >= 0:
            size = _chunk_size(bytes(self._bytes[:end]))
            if len(self._body) + size > BODY_BYTES_MAX:
                raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            start = end + len(LINE_END)
            if size == 0:
                return self._has_trailer(start)
            if len(self._bytes) < start + size + len(LINE_END):
                return False
            del self._bytes[:start]
            self._move(size)
            del self._bytes[: len(LINE_END)]
        if len(self._bytes) > HEAD_BYTES_MAX:
            raise Refusal(HTTPStatus.BAD_REQUEST)
        return False

    def _has_trailer(self, start: int) -> bool:
        """Whether the empty line behind the last chunk is there; what stands before it is passed over."""
        if self._bytes.startswith(LINE_END, start):
            del self._bytes[: start + len(LINE_END)]
            return True
        end = self._bytes.find(HEAD_END, start)
        if end < 0:
            if len(self._bytes) > HEAD_BYTES_MAX:
                raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return False
        del self._bytes[: end + len(HEAD_END)]
        return True

    def _move(self, size: int) -> None:
        self._body += self._bytes[:size]
        del self._bytes[:size]


def _head_of(text: str) -> Request:
    first, *lines = text.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refusal(HTTPStatus.BAD_REQUEST)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or not name:
            raise Refusal(HTTPStatus.BAD_REQUEST)
        headers[name.lower()] = value.strip()
    method, target, version = words
    path, _, query = target.partition("?")
    wishes = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    is_kept = "close" not in wishes and (version != "HTTP/1.0" or "keep-alive" in wishes)
    return Request(method, path, query, headers, is_kept=is_kept)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits.isalnum():
        raise Refusal(HTTPStatus.BAD_REQUEST)
    try:
        return int(digits, 16)
    except ValueError:
        raise Refusal(HTTPStatus.BAD_REQUEST) from None
