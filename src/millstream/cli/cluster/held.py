"""Whose a folder is: one cluster runs over it, and one broker over each broker's."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from millstream.cli.failure import CommandFailed
from millstream.storage.directory import LOCK
from millstream.storage.files import OsFile, OsFiles


def hold(data: Path) -> OsFile:
    """Make the folder and hold its lock, as a broker does its own; CommandFailed while a cluster runs there."""
    data.mkdir(parents=True, exist_ok=True)
    lock = _lock(data)
    if lock is None:
        raise CommandFailed(
            f"{data} is in use{_by(holders(data))}: stop the cluster that runs there, or choose another with --data"
        )
    return lock


def running_brokers(data: Path, numbers: Iterable[int]) -> dict[int, list[int]]:
    """Which of the brokers run over their folders in ``data``, with their processes as far as those can be seen."""
    running = {}
    for number in numbers:
        folder = data / f"broker-{number}"
        if not (folder / LOCK).exists():
            continue
        lock = _lock(folder)
        if lock is None:
            running[number] = holders(folder)
        else:
            lock.close()
    return running


def named(brokers: dict[int, list[int]]) -> str:
    """Brokers for a sentence: ``broker 1 (pid 4711), broker 3 (pid 4713)``."""
    return ", ".join(f"broker {number}{_by(pids, '(pid {})')}" for number, pids in brokers.items())


def holders(folder: Path) -> list[int]:
    """The processes that have the folder's lock open; none where the system does not show them."""
    lock = str((folder / LOCK).resolve())
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(link) == lock:
                found.add(int(link.parts[2]))
    return sorted(found)


def _by(pids: list[int], form: str = "by process {}") -> str:
    return f" {form.format(', '.join(map(str, pids)))}" if pids else ""


def _lock(folder: Path) -> OsFile | None:
    lock = OsFiles().lock(str(folder / LOCK))
    assert lock is None or isinstance(lock, OsFile)
    return lock
