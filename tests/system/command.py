"""The ``millstream`` command as a user runs it."""

import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from millstream.cli.main import main


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command printed and how it ended."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def document(self) -> Any:
        """The output, which is JSON."""
        return json.loads(self.output)


class Millstream:
    """Runs commands against one cluster.

    A call runs the whole command line inside this process, which saves the start of an interpreter each time;
    ``start`` runs it as a process of its own.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *words: str | int, stdin: str = "", code: int = 0) -> Finished:
        """Run one command to its end, which must be with the exit code ``code``."""
        output, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with tempfile.TemporaryFile("w+") as typed:
            typed.write(stdin)
            typed.seek(0)
            streams = patch.multiple(sys, stdin=typed, stdout=output, stderr=errors)
            with streams, patch.dict(os.environ, self.variables()):
                try:
                    ended = main(list(map(str, words)))
                except SystemExit as exit_:  # argparse leaves so on a misuse, and after --help.
                    ended = int(exit_.code or 0)
        output.seek(0)
        finished = Finished(ended, output.read(), errors.getvalue())
        assert finished.code == code, f"{words} ended with {finished}"
        return finished

    def start(self, *words: str | int) -> "subprocess.Popen[str]":
        """Run one command as a process, with pipes for what it reads and prints."""
        return subprocess.Popen(
            [sys.executable, "-m", "millstream", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.variables()},
        )

    def variables(self) -> dict[str, str]:
        return {"MILLSTREAM_BOOTSTRAP": self.bootstrap}
