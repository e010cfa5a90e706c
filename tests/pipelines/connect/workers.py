"""A worker as its users run it: a process of its own, asked over its REST API."""

import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.pipelines.processes import kill_session

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 120.0


class Answer(NamedTuple):
    """What the API answered."""

    status: int
    document: Any
    headers: dict[str, str]


class ConnectProcess:
    """One worker over a folder; started again it has the same place and the same connectors."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        with open(self._log, "ab") as log:
            command = [word.format(port=self.port) for word in self._command]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline().decode()
        found = re.fullmatch(r"ready http://127\.0\.0\.1:(\d+)\n", ready)
        assert found, (ready, self.said)
        self.port = int(found[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return self._log.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it in good order; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(TIMEOUT_S)
        self._close()
        return code

    def kill(self) -> None:
        """End it and all that it started, at once."""
        if self.process is not None:
            kill_session(self.process)
            self._close()

    def kill_alone(self) -> None:
        """End it at once; what it started has to notice."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        self.process.stdout.close()
        self.process = None

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """What is answered to this; a body that is no text is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            text = body if body is None or isinstance(body, str) else json.dumps(body)
            own = {"Content-Type": "application/json", **headers} if text is not None else headers
            connection.request(method, path, text, own)
            answer = connection.getresponse()
            content = answer.read().decode()
            is_json = (answer.getheader("Content-Type") or "").startswith("application/json")
            return Answer(
                answer.status, json.loads(content) if is_json and content else content, dict(answer.getheaders())
            )
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The document there."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.document

    def wait_for(self, holds: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline_s, f"it did not come to pass; it said:\n{self.said}"
            assert self.process is not None and self.process.poll() is None, self.said
            time.sleep(0.02)

    def states(self, name: str) -> tuple[str, list[str]]:
        """The states of a connector and of its tasks."""
        status = self.get(f"/connectors/{name}/status")
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    def wait_for_state(self, name: str, connector: str, *tasks: str) -> None:
        self.wait_for(lambda: self.states(name) == (connector, list(tasks)))

    def figures(self, name: str) -> dict[str, float]:
        """Every metric of a connector, all of one moment."""
        text = self.ask("GET", "/metrics").document
        found = re.findall(rf'^millstream_connect_(\w+){{connector="{name}"}} (\S+)$', text, re.MULTILINE)
        return {metric: float(value) for metric, value in found}

    def figure(self, metric: str, name: str) -> float:
        """A metric of a connector; -1 before it has any."""
        return self.figures(name).get(metric, -1.0)


def scripted_worker(bootstrap: str, folder: Path, group: str) -> ConnectProcess:
    """A worker whose connectors are played by a script."""
    module = "tests.pipelines.connect.worker_process"
    command = [sys.executable, "-m", module, bootstrap, str(folder / "data"), "{port}", group]
    return ConnectProcess(command, folder / "log")


def worker(bootstrap: str, folder: Path, group: str, *arguments: str) -> ConnectProcess:
    """The command itself."""
    place = ["--port", "{port}", "--data", str(folder / "data"), "--group", group, "-b", bootstrap]
    return ConnectProcess([sys.executable, "-m", "millstream", "connect", *place, *arguments], folder / "log")
