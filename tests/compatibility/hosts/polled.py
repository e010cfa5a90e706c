"""What the hosts of clients in Python share: the lines they are asked in, and a consumer polled without pause."""

from __future__ import annotations

import json
import logging
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

WAIT_S = 20.0
POLL_MS = 50
HEARTBEAT_MS = 300
UNKNOWN = -1
#: How much of what a client says of itself is kept for whoever asks why nothing came of it.
SAID_LINES = 60


def code_of(error: BaseException) -> int:
    """Kafka's code, or the client's own, behind an exception; -1 for one that has none."""
    inner = error.args[0] if error.args and hasattr(error.args[0], "code") else None
    return int(inner.code() if inner else getattr(error, "errno", None) or UNKNOWN)


def refused(error: BaseException) -> dict[str, object]:
    return {"code": code_of(error), "message": repr(error)}


class Said(logging.Handler):
    """The last lines that a client logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(asctime)s %(threadName)s %(name)s: %(message)s"))
        self.lines: deque[str] = deque(maxlen=SAID_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def serve(host: object) -> None:
    """Answer each line of standard input by the method it names, until there are no more."""
    said = Said()
    logging.basicConfig(level=logging.INFO, handlers=[said])
    host.said = lambda: list(said.lines)  # type: ignore[attr-defined]
    for line in sys.stdin:
        question = json.loads(line)
        number, call = question.pop("id"), question.pop("call")
        try:
            answer = {"result": getattr(host, call)(**question)}
        except Exception as error:
            answer = refused(error)
        sys.stdout.write(json.dumps({"id": number, **answer}) + "\n")
        sys.stdout.flush()


class Diary:
    """What came of a member so far: what it holds, what it read, what it was given and what was taken from it."""

    def __init__(self) -> None:
        self.assigned: list[list[object]] = []
        self.records: deque[list[object]] = deque()
        self.events: list[list[object]] = []
        self.error: int | None = None

    def note(self, kind: str, places: Iterable[Any]) -> None:
        self.events.append([kind, [[place.topic, place.partition] for place in places]])

    def told(self) -> dict[str, object]:
        """All of it; records are handed out once."""
        rows = [self.records.popleft() for _ in range(len(self.records))]
        return {"assigned": self.assigned, "records": rows, "events": list(self.events), "error": self.error}


class Polled:
    """A consumer that one thread polls and alone touches; others hand that thread what to do."""

    def __init__(self) -> None:
        self.diary = Diary()
        self._work: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def poll(self) -> None:
        """Wait a moment for records and note them."""
        raise NotImplementedError

    def assignment(self) -> Iterable[Any]:
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()

    def do(self, work: Callable[[], Any]) -> Any:
        done: Future[Any] = Future()
        self._work.put((work, done))
        return done.result(WAIT_S)

    def end(self, close: Callable[[], Any]) -> None:
        """Close it on the thread that polls it; one that never closes is a time-out of this member alone."""

        def last() -> None:
            self._is_over = True
            close()

        try:
            self.do(last)
        except TimeoutError:
            raise TimeoutError(f"the client did not close within {WAIT_S:g} s") from None
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        while True:
            while not self._work.empty():
                work, done = self._work.get()
                try:
                    done.set_result(work())
                except Exception as error:
                    done.set_exception(error)
            if self._is_over:
                return
            try:
                self.poll()
                self.diary.assigned = [[place.topic, place.partition] for place in self.assignment()]
            except Exception as error:
                self.diary.error = code_of(error)
                time.sleep(POLL_MS / 1000)
