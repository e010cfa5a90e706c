"""Short turns are asked for where the system knows them, and nothing else of a thread's scheduling changes."""

import ctypes
import os
import platform
import struct
import threading
from collections.abc import Callable

import pytest

from millstream.broker.promptness import LONG_TURN_NS, NICE, TURN_NS, ask_for_short_turns, give_way

_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
_SCHED_ATTR = struct.Struct("=IIQiIQQQ")

pytestmark = pytest.mark.skipif(platform.machine() not in _SCHED_GETATTR, reason="asked for on x86_64 and aarch64")


def scheduling_after(
    prepare: Callable[[], object], asking: Callable[[], None] = ask_for_short_turns
) -> tuple[int, int, int]:
    """Policy, niceness and turn of a thread that prepared itself and then asked; ours stays as it is."""
    found: list[tuple[int, int, int]] = []

    def ask() -> None:
        prepare()
        asking()
        attributes = ctypes.create_string_buffer(_SCHED_ATTR.size)
        number = _SCHED_GETATTR[platform.machine()]
        assert ctypes.CDLL(None).syscall(number, 0, attributes, _SCHED_ATTR.size, 0) == 0
        _, policy, _, nice, _, turn_ns, _, _ = _SCHED_ATTR.unpack(attributes.raw)
        found.append((policy, nice, turn_ns))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


def knows_turns() -> bool:
    return tuple(int(part) for part in platform.release().split(".")[:2]) >= (6, 12)


def nicer() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), min(19, os.nice(0) + 3))


def test_a_thread_is_scheduled_as_before_but_for_its_turns() -> None:
    policy, nice, turn_ns = scheduling_after(lambda: None)
    assert (policy, nice) == (os.SCHED_OTHER, os.nice(0))
    if knows_turns():
        assert turn_ns == TURN_NS


def test_it_stays_as_nice_as_it_is() -> None:
    assert scheduling_after(nicer)[1] == min(19, os.nice(0) + 3)


def test_it_stays_idle_or_a_batch() -> None:
    batch = scheduling_after(lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
    assert batch[0] == os.SCHED_BATCH
    idle = scheduling_after(lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)))
    assert (idle[0], idle[2] == TURN_NS) == (os.SCHED_IDLE, False)


def test_who_gives_way_is_nicer_than_the_rest_and_has_longer_turns() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    policy, nice, turn_ns = scheduling_after(ask_for_short_turns, give_way)
    assert (policy, nice) == (os.SCHED_OTHER, max(NICE, before))
    if knows_turns():
        assert turn_ns == LONG_TURN_NS
    assert os.getpriority(os.PRIO_PROCESS, 0) == before, "only the thread that asked"


def test_who_was_nicer_already_stays_so() -> None:
    assert scheduling_after(lambda: os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15), give_way)[1] == 15
