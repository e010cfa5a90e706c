"""A real HTTP server that remembers what it was sent and answers as it is told."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self


class Request(NamedTuple):
    """What came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Answer(NamedTuple):
    """What is said to it; a status of 0 hangs up."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b"{}"


class WebServer:
    """Answers 200 to all, unless told otherwise."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        #: What is answered to the next requests, before ``answer`` is asked.
        self.next: list[Answer] = []
        self.answer: Callable[[Request], Answer] = lambda _: Answer()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _take(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                request = Request(self.command, self.path, dict(self.headers.items()), body)
                server.requests.append(request)
                answer = server.next.pop(0) if server.next else server.answer(request)
                if not answer.status:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _take  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Nobody reads it."""

        return Handler

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
