"""Orders in, receipts out, exactly once: a member of the group `billing`, run as a process that may be killed.

python -m demo.billing BOOTSTRAP INSTANCE
"""

import json
import signal
import sys
import threading

import millstream

ORDERS, RECEIPTS, GROUP = "orders", "receipts", "billing"
#: Every so many orders one receipt is written.
RECEIPT_EVERY = 10


def receipt(record: millstream.Record) -> bytes | None:
    """A receipt for some orders; nothing for the others."""
    order = json.loads(record.value)
    return None if order["id"] % RECEIPT_EVERY else b"%d" % order["id"]


def main() -> None:
    bootstrap, instance = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    millstream.process(
        ORDERS,
        RECEIPTS,
        receipt,
        group=GROUP,
        instance=instance,
        bootstrap=bootstrap,
        commit_records=5_000,
        stop=stop,
    )


if __name__ == "__main__":
    main()
