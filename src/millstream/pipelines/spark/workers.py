"""What every Python worker of Spark does at the start of a task."""

import gc
import os

#: How many tasks each process has begun; a forked process is another one, whatever it found in its memory.
_begun: dict[int, int] = {}


def spare_collections() -> None:
    """Let the collector pass over all that this process has loaded by now.

    Spark's workers collect garbage after every task. With Arrow and Spark loaded that takes them 10 to 35 ms of
    processor time, several times what a small task of ours does; and modules are never garbage. Tasks of other kinds
    load more of them, so this is done again at the second task, the fourth, the eighth and so on.
    """
    pid = os.getpid()
    begun = _begun[pid] = _begun.get(pid, 0) + 1
    if not begun & (begun - 1):
        gc.collect()
        gc.freeze()
