"""Requests to one server, each repeated until it is answered: whatever may pass is waited for, longer and longer."""

import http.client
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from millstream.pipelines.connect.errors import ConnectError, DataError, Misconfigured, Unreachable

#: The longest wait between two tries, and the longest that a server may ask for.
BACKOFF_MAX_MS = 60_000
#: How much of an answer is read, and shown.
ANSWER_BYTES_MAX = 64 * 1024
ANSWER_SHOWN = 200
#: Answers that may be others later.
_PASSING = frozenset({408, 425, 429})
#: Answers that blame who asks, not what was sent: they are not the record's fault, and no record is to be lost by them.
_STRANGER = frozenset({401, 403, 405, 407})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try."""

    retries_max: int
    backoff_ms: int
    timeout_ms: int


def _pause(seconds: float) -> None:
    select.select([], [], [], seconds)


class Sender:
    """A connection to a server, opened when first needed and kept."""

    def __init__(self, url: str, patience: Patience, wait: Callable[[float], None] = _pause) -> None:
        parts = urlsplit(url)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._server = parts.netloc.rpartition("@")[2]
        try:
            self._connection = make(self._server, timeout=patience.timeout_ms / 1000)
        except http.client.InvalidURL as error:
            raise Misconfigured(f"{url}: {error}") from None
        self._patience = patience
        self._wait = wait

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> None:
        """Have the request taken; DataError when the server will not have what it says."""
        backoff_ms = self._patience.backoff_ms
        for attempt in range(self._patience.retries_max + 1):
            try:
                status, asked_ms, answer = self._exchange(method, path, headers, body)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                failure, asked_ms = f"{type(error).__name__}: {error}", 0
            else:
                if 200 <= status < 300:
                    return
                failure = f"{status} {http.client.responses.get(status, '')}: {answer}".rstrip(": ")
                if status < 500 and status not in _PASSING:
                    raise self._refusal(status, failure)
            if attempt < self._patience.retries_max:
                self._wait(min(max(backoff_ms, asked_ms), BACKOFF_MAX_MS) / 1000)
                backoff_ms *= 2
        raise Unreachable(f"{self._server} after {self._patience.retries_max + 1} tries: {failure}")

    def _refusal(self, status: int, failure: str) -> ConnectError:
        words = f"{self._server} answers {failure}"
        return ConnectError(words) if status in _STRANGER or status < 400 else DataError(words)

    def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, int, str]:
        """Status, the wait that was asked for, and the beginning of the answer."""
        was_open = self._connection.sock is not None
        try:
            return self._ask(method, path, headers, body)
        except (ConnectionError, http.client.BadStatusLine):
            self._connection.close()
            if not was_open:
                raise
        # The server had closed a connection that was kept; nothing is wrong with it for that.
        return self._ask(method, path, headers, body)

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, int, str]:
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        answer = response.read(ANSWER_BYTES_MAX)
        if not response.isclosed():
            self._connection.close()  # There is more than anybody wants to read.
        words = " ".join(answer.decode(errors="replace").split())[:ANSWER_SHOWN]
        # A moment in place of seconds is not waited for; the back-off does.
        asked = response.headers.get("Retry-After", "")
        return response.status, int(asked) * 1000 if asked.isdecimal() else 0, words
