"""Work that must not hold up the event loop, and who does it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    """Threads for calls that block, a low-priority process for calls that compute."""

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Run ``function`` in a thread: fsync, cold reads, large writes, decompression, deleting files."""
        ...

    async def in_process(self, function: Callable[..., T], *args: object) -> T:
        """Run a module-level ``function`` in a process of low priority; arguments and result are pickled."""
        ...
