"""Processes that were started together, found and killed."""

import os
import signal
import subprocess
from pathlib import Path


def session_of(leader: int) -> list[int]:
    """The processes of the session that this one leads: those it started, and theirs."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _stat(int(name), 3) == leader != int(name)]


def children_of(pid: int) -> list[int]:
    """Those that it started and that are there still."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _stat(int(name), 1) == pid]


def parent_of(pid: int) -> int:
    """Its parent; -1 once it is gone."""
    return _stat(pid, 1)


def command_of(pid: int) -> str:
    """Its command line; nothing once it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill(pid: int) -> bool:
    """Kill it at once; false if it was gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """A session at once; its leader first, which might start anew what dies under it."""
    members = session_of(leader.pid)
    leader.kill()
    leader.wait()
    for pid in {*members, *session_of(leader.pid)}:
        kill(pid)


def _stat(pid: int, field: int) -> int:
    """A number of those behind the name in ``/proc/PID/stat``."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[field])
    except (FileNotFoundError, ProcessLookupError):
        return -1
