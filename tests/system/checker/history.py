"""What clients did and saw: one line of JSON for each, written before the client goes on.

Clients are killed at any moment, so each line is one ``write`` of its own: what a dead client did last is there or not,
never half.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

#: What became of a write or a transaction: acknowledged, certainly without effect, or anybody's guess.
Fate: TypeAlias = Literal["ok", "failed", "unknown"]


class Sent(NamedTuple):
    """A value was sent, in a transaction or in none; ``offset`` is where the broker said it lies."""

    value: str
    partition: int
    fate: Fate
    offset: int = -1
    transaction: str | None = None


class Ended(NamedTuple):
    """A transaction was committed (ok), aborted (failed), or its client cannot say."""

    transaction: str
    fate: Fate


class Polled(NamedTuple):
    """What one poll gave.  Within a session a consumer keeps its partitions and never seeks."""

    consumer: str
    session: int
    #: Partition, offset and value of each record.
    records: tuple[tuple[int, int, str], ...]


Event: TypeAlias = Sent | Ended | Polled
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Sent, Ended, Polled)}


class Journal:
    """A client's own file of events."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, event: Event) -> None:
        """Write it down, here and now."""
        line = json.dumps([type(event).__name__, *event]) + "\n"
        os.write(self._fd, line.encode())


def read(folder: Path) -> Iterator[Event]:
    """Every event of every client; in order within a client, which is all the order there is."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            kind, *fields = json.loads(line)
            if kind == Polled.__name__:
                fields[2] = tuple(tuple(record) for record in fields[2])
            yield KINDS[kind](*fields)
