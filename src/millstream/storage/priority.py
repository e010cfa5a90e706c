"""Background work that gives way: to the broker on the processor, and to everyone on the disk."""

import ctypes
import multiprocessing
import os
import platform

_NICE_LOWEST = 19
_IO_CLASS_IDLE = 3 << 13
_WHO_PROCESS = 1
#: The number of the system call, which the C library does not wrap.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


def lower_priority() -> None:
    """Make this process the last to be served; nothing happens in the broker's own process, or where it is refused."""
    if multiprocessing.parent_process() is None:
        return
    os.nice(_NICE_LOWEST - os.nice(0))
    call = _IOPRIO_SET.get(platform.machine())
    if platform.system() == "Linux" and call is not None:
        ctypes.CDLL(None).syscall(call, _WHO_PROCESS, 0, _IO_CLASS_IDLE)
