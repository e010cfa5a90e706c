"""Turns on the processor: short ones for a loop that is waited for, and a way for threads that nobody waits for."""

import ctypes
import os
import platform
import struct
import threading
from contextlib import suppress

#: How long a turn is asked for. Whoever asks for shorter ones is let in sooner, and has no more of them.
TURN_NS = 400_000
#: The same of those who give way; and how nice they are: they have a tenth of what another has, where both want it all.
LONG_TURN_NS = 3_000_000
NICE = 10

#: The number of the system call that sets a thread's scheduling, which the C library does not wrap.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
#: And the one that tells it.
_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
#: size, policy, flags, nice, priority, runtime, deadline, period
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")
_POLICY, _RUNTIME = 1, 5
#: What is scheduled by fair shares of turns; SCHED_OTHER and SCHED_BATCH by their numbers.
_FAIR = (0, 3)


def ask_for_short_turns() -> None:
    """Have this thread, and those it starts, run often rather than long beside others (Linux 6.12 and later).

    Where a client shares the processor with the broker it wakes, the one need not wait for the other's turn to end.
    Niceness and policy stay as they were given; other systems, and older ones, go on as they are.
    """
    _ask_for_turns(TURN_NS)


def give_way() -> None:
    """Have this thread come after others, on Linux, where a thread can be nice by itself."""
    if platform.system() == "Linux":
        thread_id = threading.get_native_id()
        with suppress(OSError):  # A system that keeps threads from it; then it goes on as it is.
            os.setpriority(os.PRIO_PROCESS, thread_id, max(NICE, os.getpriority(os.PRIO_PROCESS, thread_id)))
            _ask_for_turns(LONG_TURN_NS)


def _ask_for_turns(turn_ns: int) -> None:
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in _SCHED_SETATTR:
        return
    library = ctypes.CDLL(None)
    held = ctypes.create_string_buffer(_SCHED_ATTR.size)
    if library.syscall(_SCHED_GETATTR[machine], 0, held, _SCHED_ATTR.size, 0):
        return
    attributes = list(_SCHED_ATTR.unpack(held.raw))
    if attributes[_POLICY] in _FAIR:
        attributes[_RUNTIME] = turn_ns
        library.syscall(_SCHED_SETATTR[machine], 0, _SCHED_ATTR.pack(*attributes), 0)
