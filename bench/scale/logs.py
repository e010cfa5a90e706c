"""Filling, weighing and cooling logs on disk."""

import os
import time
from pathlib import Path

from bench import runner
from bench.progress import say
from bench.servers import Server

GB = 1_000_000_000


def fill(server: Server, topic: str, count: int, **options: float) -> None:
    """Write so many bytes to a topic through the server."""
    say(f"  {server.name}: filling {topic} with {count / GB:g} GB")
    started = time.monotonic()
    figures = runner.run("raw_fill", server, topic=topic, bytes=count, **options)
    say(f"  filled in {time.monotonic() - started:.0f} s, {figures['bytes_per_s'] / 1e6:.0f} MB/s")


def size_bytes(server: Server, topic: str) -> int:
    """Bytes of the topic's segments on disk."""
    total = 0
    for path in server.data.glob(f"{topic}-*/*.log"):
        try:
            total += path.stat().st_size
        except OSError:
            continue  # Removed while we looked.
    return total


def cool(server: Server) -> None:
    """Drop the server's logs from the page cache, and nobody else's."""
    for path in Path(server.data).rglob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
