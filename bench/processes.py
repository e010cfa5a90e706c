"""What the kernel says of a process and its children: memory and CPU time, read from /proc; and what it allows."""

import os
import resource
import time
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: No process, or one that nobody has waited for yet.
_ENDED = (None, "Z")


def family(pid: int) -> list[int]:
    """The process and everything it started."""
    members, at = [pid], 0
    while at < len(members):
        for task in Path(f"/proc/{members[at]}/task").glob("*/children"):
            try:
                members += map(int, task.read_text().split())
            except OSError:
                continue  # It ended while we looked.
        at += 1
    return members


def resident_bytes(pid: int) -> int:
    """Resident memory of the process and its children."""
    return sum(_resident(member) for member in family(pid))


def cpu_s(pid: int) -> float:
    """CPU time used so far by the process, its living children and those it has waited for."""
    return sum(_cpu(member) for member in family(pid))


def command(pid: int) -> list[str]:
    """How the process was started."""
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")


def await_end(pid: int, timeout_s: float) -> None:
    """Return once the process, whoever's child it is, has ended."""
    deadline = time.monotonic() + timeout_s
    while _state(pid) not in _ENDED:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} did not end within {timeout_s} s")
        time.sleep(0.01)


def raise_file_limit() -> None:
    """As many open files as may be: for the connections we hold, and for the servers, which inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S
