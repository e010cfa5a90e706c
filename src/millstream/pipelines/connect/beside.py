"""Threads for what must not hold anybody up: no process waits for them when it ends."""

import threading
from collections.abc import Callable
from threading import Event

__all__ = ["Event", "begin"]


def begin(name: str, work: Callable[[], None]) -> threading.Thread:
    """Do this beside everything else."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
