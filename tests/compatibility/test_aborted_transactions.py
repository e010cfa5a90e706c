"""Our ``.txnindex`` is Kafka's: its dump tool reads ours, and we hide what Apache Kafka's transactions gave up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.model.records import ABORT, COMMIT, encode_marker
from millstream.storage.aborted_index import decode_entries
from millstream.storage.files import OsFiles
from tests.compatibility import apache_kafka
from tests.compatibility.apache_kafka import ApacheKafka, run_tool
from tests.compatibility.conftest import absent, wait_for_leaders
from tests.compatibility.drivers.confluent import ConfluentDriver
from tests.system.broker_process import BrokerProcess
from tests.unit.storage.ground import NOW_MS, append, append_marker, batch, made, open_logs

pytestmark = pytest.mark.timeout(180)

DUMP = "org.apache.kafka.tools.DumpLogSegments"
ROUNDS = 12


@pytest.fixture(scope="module", autouse=True)
def _kafka_is_there() -> None:
    if (reason := apache_kafka.missing()) is not None:
        absent(reason)


def dumped(paths: list[Path]) -> list[tuple[int, ...]]:
    said = run_tool(DUMP, "--files", ",".join(map(str, paths)))
    fields = r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    return [tuple(map(int, found)) for found in re.findall(fields, said)]


def test_the_dump_tool_reads_our_aborted_transactions(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"segment_bytes": 2_000}
    logs = open_logs(OsFiles(), str(tmp_path), **settings)
    log = made(logs, **settings)
    for turn in range(20):
        for producer_id in (1, 2, 3):
            fields: dict[str, Any] = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": turn,
                "transactional": True,
            }
            append(log, batch(**fields))
        for producer_id in (3, 1, 2):
            kind = COMMIT if (turn + producer_id) % 3 == 0 else ABORT
            append_marker(log, encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS))
    wanted = [(0, *entry) for segment in log.segments for entry in segment.aborted or ()]
    logs.close()
    assert len(wanted) == 40
    assert len(list(Path(log.folder).glob("*.txnindex"))) > 3
    assert dumped(sorted(Path(log.folder).glob("*.txnindex"))) == wanted


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which Apache Kafka kept transactions, every third one committed, and the last one still open."""
    data = tmp_path_factory.mktemp("apache") / "data"
    with ApacheKafka(data) as kafka:
        with ConfluentDriver(kafka.bootstrap) as driver:
            driver.create_topic("sums", configs={"segment.bytes": "1048576"})
            wait_for_leaders(driver, "sums", 1)
        producers = [transactional(kafka.bootstrap, f"writer-{at}") for at in range(2)]
        for turn in range(ROUNDS):
            for producer in producers:
                producer.begin_transaction()
            for at, producer in enumerate(producers):
                for part in range(10):
                    producer.produce("sums", b"%d/%d/%d " % (turn, at, part) + bytes(12_000), partition=0)
                    producer.flush()
            for at, producer in enumerate(producers):
                (producer.commit_transaction if is_committed(turn, at) else producer.abort_transaction)()
        producers[0].begin_transaction()
        producers[0].produce("sums", b"undecided", partition=0)
        producers[0].flush()
    return data


def is_committed(turn: int, at: int) -> bool:
    return (turn + at) % 3 == 0


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions()
    return producer


def test_we_read_the_index_as_the_dump_tool_does(written: Path) -> None:
    paths = sorted((written / "sums-0").glob("*.txnindex"))
    entries = [(0, *entry) for path in paths for entry in decode_entries(path.read_bytes())]
    assert len(entries) == sum(not is_committed(turn, at) for turn in range(ROUNDS) for at in range(2))
    assert entries == dumped(paths)


def test_what_apache_kafka_aborted_or_left_open_is_not_shown(written: Path) -> None:
    wanted = [b"%d/%d" % (turn, at) for turn in range(ROUNDS) for at in range(2) if is_committed(turn, at)]
    with BrokerProcess(written, settings={"broker.id": 1}) as broker, ConfluentDriver(broker.address) as driver:
        wait_for_leaders(driver, "sums", 1)
        shown = [value.split(b" ")[0].rpartition(b"/") for value in consumed(broker.address, "read_committed")]
        assert sorted(head for head, _, _ in shown) == sorted(wanted * 10)
        everything = list(consumed(broker.address, "read_uncommitted"))
        assert len(everything) == ROUNDS * 20 + 1


def consumed(bootstrap: str, isolation: str) -> Iterator[bytes]:
    """Every record's value, to the end that the isolation level gives."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.message.max.bytes": 50_000,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition("sums", 0, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            yield value
        assert message is not None, "neither a record nor the end came"
    finally:
        consumer.close()
