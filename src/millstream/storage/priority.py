"""Background work in a process of its own: it gives way to the broker, and does not outlive it."""

import ctypes
import multiprocessing
import os
import platform
import signal

_NICE_LOWEST = 19
_IO_CLASS_IDLE = 3 << 13
_WHO_PROCESS = 1
_PR_SET_PDEATHSIG = 1
#: The number of the system call, which the C library does not wrap.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


def lower_priority() -> None:
    """Make this process the last to be served, by processor and disk, and have it end with the broker.

    Nothing happens in the broker's own process, nor where the system is not Linux but for the first of these.
    """
    if multiprocessing.parent_process() is None:
        return
    os.nice(_NICE_LOWEST - os.nice(0))
    call = _IOPRIO_SET.get(platform.machine())
    if platform.system() == "Linux":
        library = ctypes.CDLL(None)
        # An orphan would write into a folder that the next broker has taken over.
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if call is not None:
            library.syscall(call, _WHO_PROCESS, 0, _IO_CLASS_IDLE)
