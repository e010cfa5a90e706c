"""What a broker still knows after it was stopped or killed, seen from the wire.

With MILLSTREAM_TEST_BOOTSTRAP set, Apache Kafka takes our broker's place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compatibility.apache_kafka import ApacheKafka, free_port
from tests.compatibility.conftest import BOOTSTRAP, wait_for_leaders
from tests.compatibility.drivers.base import CODECS, EARLIEST, LATEST, Record
from tests.compatibility.drivers.confluent import ConfluentDriver
from tests.compatibility.test_log_on_the_wire import batch, list_offset, new_producer
from tests.compatibility.wire import Wire, produce
from tests.system.broker_process import BrokerProcess

OUT_OF_ORDER_SEQUENCE = 45


def a_broker(data: Path, settings: Mapping[str, str] | None = None) -> ApacheKafka | BrokerProcess:
    kind = ApacheKafka if BOOTSTRAP else BrokerProcess
    return kind(data, port=free_port(), settings=settings)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_a_broker_that_comes_back_knows_its_topics_records_and_producers(tmp_path: Path, is_killed: bool) -> None:
    broker = a_broker(tmp_path / "data")
    broker.start()
    address = f"127.0.0.1:{broker.port}"
    try:
        with ConfluentDriver(address) as driver:
            driver.create_topic("kept", partitions=2, configs={"retention.ms": "12345678"})
            wait_for_leaders(driver, "kept", 2)
            for codec in CODECS:
                driver.produce("kept", [Record(codec.encode())] * 3, codec=codec, partition=1)
            driver.delete_records("kept", 4, partition=1)
            with Wire(address) as wire:
                producer_id, epoch = new_producer(wire)
                sent = [batch(b"a", producer=(producer_id, epoch, number)) for number in range(3)]
                assert [produce(wire, "kept", each).base_offset for each in sent] == [0, 1, 2]
        if is_killed:
            broker.kill()
        else:
            broker.stop()
        broker.start()
        with ConfluentDriver(address) as driver, Wire(address) as wire:
            wait_for_leaders(driver, "kept", 2)
            assert driver.describe_configs("kept")["retention.ms"] == "12345678"
            assert driver.list_offset("kept", LATEST, partition=1) == 15
            if not is_killed:  # Kafka notes where a log starts once a minute, and when it stops.
                assert driver.list_offset("kept", EARLIEST, partition=1) == 4
            again = produce(wire, "kept", sent[-1])  # Of the batches before, Kafka's snapshots know nothing.
            assert (again.code, again.base_offset) == (0, 2)
            gap = batch(b"b", producer=(producer_id, epoch, 7))
            assert produce(wire, "kept", gap).code == OUT_OF_ORDER_SEQUENCE
            assert produce(wire, "kept", batch(b"b", producer=(producer_id, epoch, 3))).base_offset == 3
            assert new_producer(wire)[0] > producer_id
            assert list_offset(wire, "kept", 0)[2] == 0
            assert driver.produce("kept", [Record(b"next")], partition=1) == [15]
            with driver.read("kept", 12, partition=1) as reader:
                assert [row.value for row in reader.take(4)] == [b"zstd", b"zstd", b"zstd", b"next"]
    finally:
        broker.kill()


@pytest.mark.timeout(180)
def test_clients_carry_on_over_a_restart(tmp_path: Path) -> None:
    """A consumer and a producer that were connected need not be made anew."""
    broker = a_broker(tmp_path / "data")
    broker.start()
    address = f"127.0.0.1:{broker.port}"
    try:
        with ConfluentDriver(address) as driver:
            driver.create_topic("on")
            wait_for_leaders(driver, "on", 1)
            driver.produce("on", [Record(b"before")])
            with driver.read("on", EARLIEST) as reader:
                assert reader.take(1)[0].value == b"before"
                broker.stop()
                broker.start()
                wait_for_leaders(driver, "on", 1)
                began = time.monotonic()
                driver.produce("on", [Record(b"after")])
                assert reader.take(1)[0].value == b"after"
                assert time.monotonic() - began < 20
    finally:
        broker.kill()
