"""Keeps a virtual machine's memory with it while a benchmark runs.

A guest that gives its free pages back to the host pays for each page again when it is next written to: here 2.5 s
for each GB of page cache, five to ten times what the write itself costs, whoever writes.  A machine that has
been up for a day has no free memory but a full page cache; this makes such a machine of a fresh one.
"""

import os
import time
from pathlib import Path
from types import TracebackType

from bench.progress import say

PROBE_BYTES = 1536 << 20
CHUNK = bytes(1 << 20)
SLOW_BYTES_PER_S = 1.2e9
#: Left free for the servers and clients.
KEPT_FREE_BYTES = 2 << 30


class Ballast:
    """A file as large as the free memory, written and synced, whose pages the benchmark then takes over."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ballast"

    def __enter__(self) -> "Ballast":
        free = free_bytes() - KEPT_FREE_BYTES
        # What was used a moment ago is still here and quick, so the probe is large.
        if free > 2 * PROBE_BYTES and self._write(PROBE_BYTES) < SLOW_BYTES_PER_S:
            room = os.statvfs(self._path.parent)
            free = min(free, room.f_bavail * room.f_frsize // 4)
            say(f"memory the host took back is slow to return: filling the page cache with {free >> 20:,} MB first")
            self._write(free)
            os.sync()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._path.unlink(missing_ok=True)

    def _write(self, count: int) -> float:
        """Bytes a second of writing a new file."""
        started = time.perf_counter()
        with open(self._path, "wb", buffering=0) as file:
            for _ in range(count // len(CHUNK)):
                file.write(CHUNK)
        return count / (time.perf_counter() - started)


def free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) * 1024
    return 0
