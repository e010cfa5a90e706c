"""Batches that an idempotent producer had sent behind one that was refused."""

from pathlib import Path

import pytest

from tests.compatibility.conftest import wait_for_leaders
from tests.compatibility.drivers.confluent import ConfluentDriver
from tests.compatibility.test_log_on_the_wire import batch, new_producer
from tests.compatibility.wire import Wire, produce
from tests.system.broker_process import BrokerProcess

UNKNOWN_TOPIC, OUT_OF_ORDER = 3, 45


@pytest.mark.timeout(60)
def test_they_are_refused_as_it_was_until_it_comes_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    address = f"127.0.0.1:{broker.port}"
    try:
        with ConfluentDriver(address) as driver, Wire(address) as wire, Wire(address) as other:
            producer = new_producer(wire)
            sent = [batch(b"a", producer=(*producer, number)) for number in range(4)]
            assert produce(wire, "late", sent[0]).code == UNKNOWN_TOPIC
            driver.create_topic("late", partitions=1)
            wait_for_leaders(driver, "late", 1)
            assert produce(wire, "late", sent[1]).code == UNKNOWN_TOPIC  # Though the producer is not known here.
            assert produce(other, "late", sent[0]).base_offset == 0
            assert produce(wire, "late", sent[2]).code == UNKNOWN_TOPIC  # A gap, for the one before was refused.
            assert produce(other, "late", sent[2]).code == OUT_OF_ORDER
            assert [produce(wire, "late", each).base_offset for each in sent[:3]] == [0, 1, 2]
            assert produce(wire, "late", batch(b"a", producer=(*producer, 9))).code == OUT_OF_ORDER
    finally:
        broker.stop()
