"""A live stream of sales and payments, a windowed join of them on Spark, killed with -9, and its sums checked."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer

import millstream
from demo.receipts import Check

SALES, PAYMENTS, REVENUE = "sales", "payments", "revenue"
TOPICS = (SALES, PAYMENTS, REVENUE)
COUNT = 30_000
CHUNK = 500
#: Chunks follow each other at this pace: a live stream for as long as Spark takes to start.
CHUNK_EVERY_S = 0.2
ITEMS = 7
UNPAID_EVERY = 10
WINDOW_S = 300
OPENING = datetime(2024, 1, 1, tzinfo=UTC)
#: Spark may have to share the machine.
PATIENCE_S = 240.0
#: Micro-batches that are through when the pipeline is killed.
KILLED_AT = 2

#: For a run of half a minute Java need not compile as if for a day: that takes half the processor time away.
SETTINGS = ("spark.driver.memory=768m", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

#: By item and window: how many sales were paid, and with how many cents.
Sums = dict[tuple[str, datetime], tuple[int, int]]


def run_shop(address: str, partitions: int, say: Callable[[str], None]) -> list[Check]:
    """Have the revenue computed, through a kill; the counts that prove it."""
    with millstream.Admin(address) as admin:
        for topic in TOPICS:
            admin.create_topic(topic, partitions=partitions)
    with tempfile.TemporaryDirectory(prefix="millstream-demo-") as folder:
        before_s = time.perf_counter()
        say(f"on Spark: {COUNT:,} sales joined with their payments and summed in windows, exactly once into a topic")
        feed = threading.Thread(target=feed_shop, args=(address, partitions), daemon=True)
        feed.start()
        running = Pipeline(address, folder)
        try:
            running.until(lambda: running.batches >= KILLED_AT)
            running.kill_driver()
            say(f"kill -9: Spark is gone after {running.batches} micro-batches; its supervisor starts it again")
            feed.join(PATIENCE_S)
            due = expected()
            found: list[tuple[tuple[str, datetime], tuple[int, int]]] = []
            with millstream.Consumer(REVENUE, bootstrap=address) as consumer:
                deadline_s = time.monotonic() + PATIENCE_S
                while len(found) < len(due) and time.monotonic() < deadline_s:
                    found += [read_sum(record) for record in consumer.records(idle_s=0.5)]
        finally:
            code, said = running.stop()
        say(f"{said.splitlines()[-1] if said else 'revenue: nothing was said'}")
        say(f"the pipeline took {time.perf_counter() - before_s:.0f} s, Spark's two starts included")
    return checks(found, due, len(re.findall("it is started again", said)), code)


def checks(
    found: list[tuple[tuple[str, datetime], tuple[int, int]]], due: Sums, restarts: int, code: int
) -> list[Check]:
    """What came out beside what should have."""
    seen = Counter(key for key, _ in found)
    return [
        ("windows, read committed", len(found), len(due)),
        ("paid sales in them", sum(count for _, (count, _) in found), sum(count for count, _ in due.values())),
        ("sum of what was paid, in cents", sum(cents for _, (_, cents) in found), sum(it[1] for it in due.values())),
        ("windows that are wrong or came twice", sum(due.get(key) != sums or seen[key] > 1 for key, sums in found), 0),
        ("restarts of the pipeline", restarts, 1),
        ("exit code of the pipeline", code, 0),
    ]


class Pipeline:
    """`millstream pipeline run`, as a process whose driver may be killed."""

    def __init__(self, address: str, folder: str) -> None:
        self._checkpoint = Path(folder)
        file = str(Path(__file__).with_name("revenue.py"))
        command = [sys.executable, "-m", "millstream.cli.main", "pipeline", "run", file, "-b", address]
        self._process = subprocess.Popen(
            [*command, "--checkpoint", folder, *(word for setting in SETTINGS for word in ("-c", setting))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def batches(self) -> int:
        """How many micro-batches are through."""
        commits = self._checkpoint / "revenue" / "commits"
        return sum(name.isdigit() for name in os.listdir(commits)) if commits.is_dir() else 0

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds, the pipeline ends, or too long has passed."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not holds() and self._process.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.05)

    def kill_driver(self) -> None:
        """End the process that the supervisor watches, without a word."""
        pid = self._process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    def stop(self) -> tuple[int, str]:
        """End it as an operator would; its exit code and what it said."""
        self._process.send_signal(signal.SIGTERM)
        _, said = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, said


def item_of(sale: int) -> str:
    return f"item-{sale % ITEMS}"


def cents_of(sale: int) -> int:
    return sale * 7919 % 10_000


def time_of(sale: int) -> datetime:
    """Thirty minutes of business."""
    return OPENING + timedelta(milliseconds=sale * 1_800_000 // COUNT)


def expected() -> Sums:
    """The same sums without Spark."""
    sums: Sums = {}
    for sale in range(COUNT):
        if sale % UNPAID_EVERY:
            opened = OPENING + (time_of(sale) - OPENING) // timedelta(seconds=WINDOW_S) * timedelta(seconds=WINDOW_S)
            count, cents = sums.get((item_of(sale), opened), (0, 0))
            sums[item_of(sale), opened] = (count + 1, cents + cents_of(sale))
    return sums


def feed_shop(address: str, partitions: int) -> None:
    """Sales, most of them paid within the minute; at last one of each from much later, which closes the windows."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})

    def put(topic: str, sale: int, fields: dict[str, object]) -> None:
        producer.produce(topic, json.dumps(fields), key=str(sale), partition=sale % partitions)

    for first in range(0, COUNT, CHUNK):
        for sale in range(first, min(first + CHUNK, COUNT)):
            at = time_of(sale)
            put(SALES, sale, {"item": item_of(sale), "cents": cents_of(sale), "at": at.isoformat()})
            if sale % UNPAID_EVERY:
                paid_at = at + timedelta(seconds=sale * 37 % 50)
                put(PAYMENTS, sale, {"paid": cents_of(sale), "paid_at": paid_at.isoformat()})
        producer.flush(PATIENCE_S)
        time.sleep(CHUNK_EVERY_S)
    closing = (OPENING + timedelta(hours=3)).isoformat()
    put(SALES, COUNT, {"item": "none", "cents": 0, "at": closing})
    put(PAYMENTS, COUNT + 1, {"paid": 0, "paid_at": closing})
    producer.flush(PATIENCE_S)


def read_sum(record: millstream.Record) -> tuple[tuple[str, datetime], tuple[int, int]]:
    """A window's sums, as the pipeline wrote them."""
    value = json.loads(record.value)
    key = record.key.decode() if record.key else ""
    return (key, datetime.fromisoformat(value["window"]["start"])), (value["sales"], value["cents"])
