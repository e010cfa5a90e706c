"""A broker as its users run it: a process of its own, started, stopped and killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
ORPHAN_TIMEOUT_S = 10.0
#: Lines of the broker's output that a failure message carries.
OUTPUT_LINES_SHOWN = 60


class BrokerFailed(AssertionError):
    """The broker did not start or did not stop as it should; the message carries what it printed."""


class BrokerProcess:
    """One ``millstream serve`` process over the folder ``data``.

    Starting it again after ``stop`` or ``kill`` gives the same address and the same data. As a context manager it is
    started on entry and stopped on exit.
    """

    def __init__(
        self,
        data: Path | str,
        *,
        settings: Mapping[str, str | int] | None = None,
        arguments: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.data = Path(data)
        self.settings = dict(settings or {})
        self.arguments = list(arguments)
        self.environ = dict(environ or {})
        self.host = host
        self.port = port
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._spoken = threading.Event()
        self._is_ready = False
        self._address: str | None = None

    @property
    def address(self) -> str:
        """``HOST:PORT`` as the broker announced it."""
        assert self._address is not None, "the broker was never ready"
        return self._address

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """Everything printed so far, standard output and error together, over all starts."""
        return "".join(self._lines)

    def command(self) -> list[str]:
        """The command line that ``start`` runs."""
        chosen = ["--data", str(self.data)]
        if "listeners" not in self.settings:
            chosen += ["--host", self.host, "--port", str(self.port)]
        for name, value in self.settings.items():
            chosen += ["--set", f"{name}={value}"]
        return [sys.executable, "-m", "millstream", "serve", *chosen, *self.arguments]

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Run the broker and return once it has said that it is ready."""
        self.launch()
        return self.ready(timeout_s)

    def launch(self) -> None:
        """Run the broker and return at once, ready or not."""
        assert not self.is_running, "the broker runs already"
        self._release()
        self._is_ready = False
        self._spoken.clear()
        self._process = subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environ},
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def ready(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Return once the line ``ready HOST:PORT`` has come; BrokerFailed when it does not."""
        assert self._process is not None, "the broker was never launched"
        if not self._spoken.wait(timeout_s):
            self.kill()
            raise self._failure(f"the broker was not ready after {timeout_s:.0f} s")
        if not self._is_ready:
            raise self._failure(f"the broker ended with {self.wait()} before it was ready")
        return self

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask for a graceful stop (SIGTERM), wait for it, and return the exit code."""
        if self.is_running:
            self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure(f"the broker had not stopped {timeout_s:.0f} s after SIGTERM") from None

    def kill(self) -> None:
        """End the process at once (SIGKILL), as a crash would."""
        if self.is_running:
            self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: int) -> None:
        """Send any signal, SIGSTOP and SIGCONT among them."""
        assert self._process is not None, "the broker is not running"
        self._process.send_signal(number)

    def wait(self, timeout_s: float | None = None) -> int:
        """The exit code, once the process has ended and all its output is read."""
        if self._process is None:
            return 0
        code = self._process.wait(timeout_s)
        self._release()
        return code

    def resident_bytes(self) -> int:
        """Memory the process holds now (VmRSS)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise self._failure("the broker's memory could not be read")

    def cpu_s(self) -> float:
        """Processor time used so far, user and system together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.append(line)
            if line.startswith("ready "):
                self._address = line.split()[1]
                self.port = int(self._address.rpartition(":")[2])
                self._is_ready = True
                self._spoken.set()
        self._spoken.set()

    def _release(self) -> None:
        """Let go of an ended process's pipe, once its last words are read."""
        if self._reader is not None:
            self._reader.join(ORPHAN_TIMEOUT_S)
            if self._reader.is_alive():  # Someone else still holds the other end of the pipe.
                raise self._failure(f"a child of the broker outlived it by {ORPHAN_TIMEOUT_S:.0f} s")
            self._reader = None
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _failure(self, what: str) -> BrokerFailed:
        shown = "".join(self._lines[-OUTPUT_LINES_SHOWN:])
        return BrokerFailed(f"{what}\n$ {' '.join(self.command())}\n{shown}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()
