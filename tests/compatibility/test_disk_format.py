"""Our files are Kafka's files: Apache Kafka's dump tool reads ours without complaint, and we serve what it wrote.

With MILLSTREAM_TEST_BOOTSTRAP set, Apache Kafka takes our broker's place: what it cannot pass is not asked of us.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compatibility import apache_kafka
from tests.compatibility.apache_kafka import ApacheKafka, run_tool
from tests.compatibility.conftest import BOOTSTRAP, absent, wait_for_leaders
from tests.compatibility.drivers.base import CODECS, EARLIEST, LATEST, At, Driver, Received, Record
from tests.compatibility.drivers.confluent import ConfluentDriver
from tests.system.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(180)

DUMP = "org.apache.kafka.tools.DumpLogSegments"
#: What the tool says when it finds something wrong.
COMPLAINTS = re.compile(
    r"mismatch|invalid bytes|out of order|isvalid: false|exception|corrupt|could not|not found|fail",
    re.IGNORECASE,
)
SETTINGS = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1000"}
COMPACT = {**SMALL_SEGMENTS, "cleanup.policy": "compact"}
PRODUCERS = 5
CREATED_MS = 1_700_000_000_000
TOPICS = {
    "codecs": SMALL_SEGMENTS,
    "idempotent": SMALL_SEGMENTS,
    "compacted": COMPACT,
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "shortened": SMALL_SEGMENTS,
}


@pytest.fixture(scope="module", autouse=True)
def _kafka_is_there() -> None:
    if (reason := apache_kafka.missing()) is not None:
        absent(reason)


@contextmanager
def apache(data: Path) -> Iterator[str]:
    with ApacheKafka(data, settings=SETTINGS) as kafka:
        yield kafka.bootstrap


@contextmanager
def ours(data: Path) -> Iterator[str]:
    if BOOTSTRAP:
        with apache(data) as bootstrap:
            yield bootstrap
        return
    with BrokerProcess(data, settings={"broker.id": 1, **SETTINGS}) as broker:
        yield broker.address


@dataclass
class Written:
    """What a stopped broker left behind, and what it served before."""

    data: Path
    rows: dict[str, list[Received]]

    def files(self, topic: str, suffix: str) -> list[Path]:
        found = sorted((self.data / f"{topic}-0").glob(f"*{suffix}"))
        assert found, f"{topic} has no {suffix}"
        return found


def fill(driver: Driver) -> None:
    """Every codec over several segments; producers with state; keys overwritten and removed; a start moved up."""
    noise = random.Random(7)
    for topic, configs in TOPICS.items():
        driver.create_topic(topic, configs=configs)
        wait_for_leaders(driver, topic, 1)

    def rows(count: int, value_bytes: int) -> list[Record]:
        times = (CREATED_MS + noise.randrange(100_000) for _ in range(count))
        headers = (("h", b"1"), ("empty", b""))
        return [Record(noise.randbytes(value_bytes), b"k%d" % (i % 7), headers, now) for i, now in enumerate(times)]

    for _ in range(12):
        for codec in CODECS:
            driver.produce("codecs", rows(20, 2_000), codec=codec)
    for _ in range(PRODUCERS):
        driver.produce("idempotent", rows(150, 2_000), idempotent=True)
    for turn in range(4):
        for first in range(0, 200, 50):
            keys = [b"key %d" % i for i in range(first, first + 50)]
            values = [None if turn == 3 and i % 4 == 0 else noise.randbytes(2_000) for i in range(50)]
            codec = CODECS[(turn + first // 50) % 5]
            driver.produce("compacted", [Record(v, k) for k, v in zip(keys, values, strict=True)], codec=codec)
    driver.produce("compacted", [Record(b"last", b"to roll")] * 2)
    driver.produce("stamped", rows(5, 100), codec="zstd")
    for _ in range(3):
        driver.produce("shortened", rows(300, 2_000))
    driver.delete_records("shortened", 450)


def wait_for_compaction(driver: Driver) -> None:
    """Until the keys written first are gone from the front of the log."""
    deadline = time.monotonic() + 60
    while True:
        with driver.read("compacted", EARLIEST) as reader:
            if reader.poll(10)[0].offset > 0:
                return
        assert time.monotonic() < deadline, "the log was never compacted"
        time.sleep(0.2)


def read_all(driver: Driver, topic: str) -> list[Received]:
    last = driver.list_offset(topic, LATEST) - 1
    rows: list[Received] = []
    with driver.read(topic, EARLIEST) as reader:
        while not rows or rows[-1].offset < last:
            more = reader.poll(20)
            assert more, f"{topic} ends at {rows[-1:]}, not at {last}"
            rows += more
    return rows


def write(start: Callable[[Path], AbstractContextManager[str]], data: Path) -> Written:
    with start(data) as bootstrap, ConfluentDriver(bootstrap) as driver:
        fill(driver)
        wait_for_compaction(driver)
        rows = {topic: read_all(driver, topic) for topic in TOPICS}
    return Written(data, rows)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(ours, tmp_path_factory.mktemp("ours") / "data")


@pytest.fixture(scope="module")
def written_by_apache(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(apache, tmp_path_factory.mktemp("apache") / "data")


def dump(files: Sequence[Path], *options: str) -> str:
    said = run_tool(DUMP, *options, "--files", ",".join(map(str, files)))
    wrong = [line for line in said.splitlines() if COMPLAINTS.search(line) and "payload:" not in line]
    assert not wrong, "\n".join(wrong[:20])
    return said


def test_the_dump_tool_reads_every_record_of_our_segments(written: Written) -> None:
    logs = [path for topic in TOPICS for path in written.files(topic, ".log")]
    assert len(logs) > len(TOPICS) + 3, "segments were rolled"
    said = dump(logs, "--deep-iteration", "--print-data-log")
    offsets: dict[str, list[int]] = {topic: [] for topic in TOPICS}
    codecs: set[str] = set()
    for line in said.splitlines():
        if line.startswith("Dumping "):
            topic = Path(line.removeprefix("Dumping ")).parent.name.removesuffix("-0")
        elif found := re.match(r"\| offset: (\d+) ", line):
            offsets[topic].append(int(found[1]))
        elif found := re.search(r"compresscodec: (\w+)", line):
            codecs.add(found[1])
    assert codecs == set(CODECS)
    for topic, rows in written.rows.items():
        served = [row.offset for row in rows]
        assert offsets[topic][-len(served) :] == served, topic
        if topic != "shortened":  # Its first segment still holds some of what was deleted.
            assert offsets[topic] == served, topic


def test_the_dump_tool_finds_our_indexes_true_to_our_segments(written: Written) -> None:
    indexes = [path for topic in TOPICS for suffix in (".index", ".timeindex") for path in written.files(topic, suffix)]
    entries = re.findall(r"^offset: \d+ position: \d+|^timestamp: \d+ offset: \d+", dump(indexes), re.MULTILINE)
    assert len(entries) > 80, "index.interval.bytes asks for an entry at almost every batch"
    said = dump(indexes, "--index-sanity-check")
    sound = [path for path in indexes if f"{path} passed sanity check" in said]
    assert set(indexes) - set(sound) == {
        path for path in indexes if f"{path} is empty" in said and not path.stat().st_size
    }


def test_the_dump_tool_reads_our_producer_snapshots(written: Written) -> None:
    snapshots = written.files("idempotent", ".snapshot")
    said = dump(snapshots)
    producers = set(re.findall(r"producerId: (\d+) producerEpoch: (\d+)", said))
    assert len(producers) == PRODUCERS, said
    assert set(re.findall(r"lastSequence: (\d+)|lastSeq: (\d+)", said)), said


@pytest.mark.parametrize("topic", TOPICS)
def test_we_serve_what_apache_kafka_wrote(written_by_apache: Written, adopted: Driver, topic: str) -> None:
    assert read_all(adopted, topic) == written_by_apache.rows[topic]


def test_offsets_and_times_of_what_apache_kafka_wrote_are_found(written_by_apache: Written, adopted: Driver) -> None:
    rows = written_by_apache.rows["codecs"]
    middle = rows[len(rows) // 2]
    asked_ms = sorted(row.timestamp_ms for row in rows)[len(rows) // 2]
    first = next(row for row in rows if row.timestamp_ms >= asked_ms)
    with adopted.read("codecs", middle.offset) as reader:
        assert reader.poll(20)[0] == middle
    with adopted.read("codecs", At(asked_ms)) as reader:
        assert reader.poll(20)[0] == first
    assert adopted.list_offset("shortened", EARLIEST) == 450


def test_a_log_of_apache_kafka_can_be_written_further(written_by_apache: Written, adopted: Driver) -> None:
    end = written_by_apache.rows["idempotent"][-1].offset + 1
    assert adopted.produce("idempotent", [Record(b"more")], idempotent=True) == [end]


@pytest.fixture(scope="module")
def adopted(written_by_apache: Written) -> Iterator[Driver]:
    """Our broker over the folder that Apache Kafka left."""
    with ours(written_by_apache.data) as bootstrap, ConfluentDriver(bootstrap) as driver:
        for topic in TOPICS:
            wait_for_leaders(driver, topic, 1)
        yield driver
