"""Two members of a group turn orders into receipts, one of them is killed with -9, and each receipt is there once."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable

import millstream
from demo.billing import GROUP, RECEIPT_EVERY, RECEIPTS

MEMBERS = ("first", "second")
#: How much of the work is done when one of them is killed.
KILLED_AT = 0.3
IDLE_S = 0.5

#: What is counted, what was found and what should have been.
Check = tuple[str, int, int]


def bill(address: str, orders: int, partitions: int, patience_s: float, say: Callable[[str], None]) -> list[Check]:
    """Have receipts written for this many orders, through a kill; the counts that prove it."""
    with millstream.Admin(address) as admin:
        admin.create_topic(RECEIPTS, partitions=partitions)
        say(f"a group of {len(MEMBERS)} members writes a receipt for every {RECEIPT_EVERY}th order, exactly once")
        members = {name: start(address, name) for name in MEMBERS}
        try:
            await_committed(admin, int(orders * KILLED_AT), patience_s)
            members["first"].kill()
            members["first"].wait()
            say("kill -9: one of the members is gone in the middle of a transaction; it is started again")
            members["first"] = start(address, "first")
            committed = await_committed(admin, orders, patience_s)
        finally:
            for member in members.values():
                member.send_signal(signal.SIGTERM)
                member.wait()
    due = -(-orders // RECEIPT_EVERY)
    found = read(address, due, patience_s)
    return [
        ("orders the group has committed", committed, orders),
        ("receipts, read committed", len(found), due),
        ("receipts that came twice", len(found) - len(set(found)), 0),
    ]


def start(address: str, name: str) -> "subprocess.Popen[bytes]":
    """A member as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "demo.billing", address, name],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def await_committed(admin: millstream.Admin, count: int, patience_s: float) -> int:
    """How many orders the group has committed, once it is so many, or has not been for too long."""
    deadline_s = time.monotonic() + patience_s
    while True:
        committed = sum(admin.group_offsets(GROUP).values())
        if committed >= count or time.monotonic() > deadline_s:
            return committed
        time.sleep(0.05)


def read(address: str, count: int, patience_s: float) -> list[int]:
    """Every receipt there is; whatever came twice would come at last."""
    found: list[int] = []
    deadline_s = time.monotonic() + patience_s
    with millstream.Consumer(RECEIPTS, bootstrap=address) as consumer:
        while len(found) < count and time.monotonic() < deadline_s:
            found += [int(record.value) for record in consumer.records(idle_s=IDLE_S)]
    return found
