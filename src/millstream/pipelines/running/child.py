"""A process that is watched: it reports over a pipe, says things on standard error, and ends when its input does."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from millstream.pipelines.running.hush import Hush

#: How long a process's last words are waited for once it has ended: its children may hold its pipes a little longer.
LAST_WORDS_S = 2.0
LINE_BYTES_MAX = 1 << 24
#: Lines of standard error that are kept, for when it dies without a report.
LINES_KEPT = 40
#: What a new pipe takes without anybody reading it.
PIPE_BYTES = 32 * 1024
_LOGGING = Path(__file__).with_name("log4j2.properties")


class Child:
    """One life of a process, in a session of its own: Ctrl-C is not for it, and what it started ends with it.

    ``hear`` is given each line that it reports, ``say`` each that it writes to standard error.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, leash: int, listening: Sequence[asyncio.Task[None]], said: list[str]
    ) -> None:
        self._process = process
        #: The other end of its standard input, which it ends with; None once it was let go.
        self._leash: int | None = leash
        self._listening = listening
        self.said = said

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        env: Mapping[str, str],
        hear: Callable[[bytes], None],
        say: Callable[[str], None],
        first: bytes = b"",
    ) -> Self:
        """Start the command, the descriptor for its reports as its last argument, ``first`` on its standard input."""
        reports, its_reports = os.pipe()
        errors, its_errors = os.pipe()
        its_input, leash = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *(*command, str(its_reports)),
                stdin=its_input,
                stderr=its_errors,
                pass_fds=(its_reports,),
                env=env,
                start_new_session=True,
            )
        except BaseException:
            for end in (reports, errors, leash):
                os.close(end)
            raise
        finally:
            for end in (its_reports, its_errors, its_input):
                os.close(end)
        said: list[str] = []
        hush = Hush()

        def keep(line: bytes) -> None:
            for text in hush.passed(line.decode(errors="replace").rstrip("\n")):
                said[:] = [*said[1 - LINES_KEPT :], text]
                say(text)

        listening = [asyncio.create_task(_pass_on(reports, hear)), asyncio.create_task(_pass_on(errors, keep))]
        child = cls(process, leash, listening, said)
        if len(first) <= PIPE_BYTES:
            _write_all(leash, first)
        else:
            await asyncio.to_thread(_write_all, leash, first)
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ended(self) -> int:
        """Its exit code, once it has ended, everything that it started is gone, and its last words were heard."""
        try:
            code = await self._process.wait()
        finally:
            # Java and the workers, should they have outlived the driver: they must not write beside the next one.
            self.kill()
            self.let_go()
        await asyncio.wait(self._listening, timeout=LAST_WORDS_S)
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        return code

    def tell(self, line: bytes) -> None:
        """Say something on its standard input; nobody waits until it is heard."""
        if self._leash is not None:
            os.set_blocking(self._leash, False)
            with suppress(BlockingIOError, BrokenPipeError):
                os.write(self._leash, line)

    def let_go(self) -> None:
        """Tell the process to end in good order."""
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    def kill(self) -> None:
        """End the process and whatever of its session is left, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def obituary(self, code: int) -> str:
        """How it ended, where it did not say it itself."""
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        last = next((line.strip() for line in reversed(self.said) if line.strip()), "")
        return how + (f" ({last})" if last and code > 0 else "")


def surroundings(given: Mapping[str, str], folders: Sequence[str], log_level: str) -> dict[str, str]:
    """What a process on Spark and its children find: what these folders hold of Python, and how much Spark logs."""
    return {
        "LOG4J_CONFIGURATION_FILE": str(_LOGGING),
        **given,
        "MILLSTREAM_SPARK_LOG_LEVEL": log_level,
        "PYTHONPATH": os.pathsep.join(filter(None, (*folders, given.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",
    }


async def _pass_on(reader: int, hear: Callable[[bytes], None]) -> None:
    async for line in _lines(reader):
        hear(line)


async def _lines(reader: int) -> AsyncIterator[bytes]:
    """What comes over a pipe, line by line, until its last writer is gone."""
    stream = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb")
    )
    try:
        async for line in stream:
            yield line
    finally:
        transport.close()


def _write_all(place: int, data: bytes) -> None:
    """Everything, unless nobody is there to read it."""
    with suppress(BrokenPipeError):
        while data:
            data = data[os.write(place, data) :]
