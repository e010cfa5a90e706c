"""What every Python worker of Spark does once."""

import functools
import gc
import os


def spare_collections() -> None:
    """Let the collector pass over all that this process has loaded by now.

    Spark's workers collect garbage after every task. With Arrow and Spark loaded that takes them 35 ms of processor
    time, ten times what a small task of ours does; and modules are never garbage.
    """
    _spare(os.getpid())


@functools.cache
def _spare(pid: int) -> None:
    gc.collect()
    gc.freeze()
