"""Ctrl-C, as a script meets it while there is no broker to answer."""

import signal
import subprocess
import sys

import pytest

SENDING = """
import millstream
with millstream.Producer("127.0.0.1:1") as producer:
    sent = producer.send("orders", b"x")
    print("waiting", flush=True)
    sent.result()
"""
READING = """
import millstream
with millstream.Consumer("orders", group="g", bootstrap="127.0.0.1:1") as consumer:
    print("waiting", flush=True)
    for record in consumer:
        pass
"""
PROCESSING = """
import threading
from millstream import process  # Before the clock starts: on a busy machine it alone may take half a second.
threading.Timer(0.5, lambda: print("waiting", flush=True)).start()
print(process("orders", "invoices", lambda record: record, group="g", bootstrap="127.0.0.1:1"))
"""


@pytest.mark.parametrize(
    ("code", "last_word"),
    [(SENDING, "KeyboardInterrupt"), (READING, "KeyboardInterrupt"), (PROCESSING, "Processed(records_in=0")],
    ids=["sending", "reading", "processing"],
)
def test_ctrl_c_ends_a_wait_at_once(code: str, last_word: str) -> None:
    script = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with script:
        assert script.stdout is not None
        while "waiting" not in (line := script.stdout.readline()):
            assert line, "it ended before it waited"
        script.send_signal(signal.SIGINT)
        rest, _ = script.communicate(timeout=15)
    assert last_word in rest, rest
