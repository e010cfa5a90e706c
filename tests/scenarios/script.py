"""Scenarios as text: commands, each followed by what it must print.

    # a comment
    command argument key=value
    ----
    what it prints, up to the next empty line

``REWRITE=1`` in the environment writes what was printed into the file, to be read and judged in the diff.
"""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Command:
    """One line of a scenario: a name, its plain arguments, and those with a name."""

    line: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name, *words = self.line.split()
        for word in words:
            key, separator, value = word.partition("=")
            if separator:
                self.options[key] = value
            else:
                self.arguments.append(word)


@dataclass
class Step:
    """Comment lines as they stand, a command, and what it should print."""

    prelude: list[str]
    command: Command
    expected: list[str]


def read(path: Path) -> list[Step]:
    steps: list[Step] = []
    prelude: list[str] = []
    lines = iter(path.read_text().splitlines())
    for line in lines:
        if not line or line.startswith("#"):
            prelude.append(line)
            continue
        assert next(lines, None) == "----", f"{path.name}: '----' must follow {line!r}"
        expected = []
        for output in lines:
            if not output:
                break
            expected.append(output)
        steps.append(Step(prelude, Command(line), expected))
        prelude = []
    return steps


async def play(path: Path, perform: Callable[[Command], Awaitable[list[str]]]) -> None:
    """Perform every command; AssertionError at the first that prints something else."""
    steps = read(path)
    for step in steps:
        printed = await perform(step.command)
        if os.environ.get("REWRITE"):
            step.expected = printed
        assert printed == step.expected, f"{path.name}: {step.command.line}"
    if os.environ.get("REWRITE"):
        _rewrite(path, steps)


def _rewrite(path: Path, steps: list[Step]) -> None:
    blocks = ["\n".join([*step.prelude, step.command.line, "----", *step.expected, ""]) for step in steps]
    path.write_text("\n".join(blocks))
