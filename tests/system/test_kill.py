"""kill -9 while records are written, again and again: each acknowledged record is there once, in order."""

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bench import wire

from millstream.model.records import decode_batch
from tests.system.broker_process import BrokerProcess

TOPIC = "ledger"
IN_FLIGHT_MAX = 8
FETCH_BYTES_MAX = 8 << 20
BATCH_BYTES_AT = 8
BATCH_OVERHEAD_BYTES = 12


@dataclass
class Ledger:
    """What was sent, and at which offset the broker said it lies.  Record number N carries N as its value."""

    random: random.Random
    next_number: int = 0
    #: offset of a batch -> the numbers it carries
    acknowledged: dict[int, range] = field(default_factory=dict)

    def write_until_cut_off(self, address: str) -> None:
        """Write batches of all sizes with several unanswered at a time, until the broker is gone."""
        unanswered: list[range] = []
        try:
            with wire.Connection(address) as connection:
                connection.await_topic(TOPIC)
                while True:
                    while len(unanswered) < IN_FLIGHT_MAX:
                        unanswered.append(self._send(connection))
                    offset = wire.produced_offset(connection.receive(), TOPIC, -4)
                    self.acknowledged[offset] = unanswered.pop(0)
        except OSError:
            return

    def _send(self, connection: wire.Connection) -> range:
        count = self.random.choice((1, 1, 1, 10, 500))
        numbers = range(self.next_number, self.next_number + count)
        self.next_number += count
        values = [b"%d" % number for number in numbers]
        connection.send(wire.produce_frame(TOPIC, wire.encode_batch(values)))
        return numbers


def stored(address: str) -> dict[int, int]:
    """Every record of the topic: its number by its offset, in the order it was read."""
    found: dict[int, int] = {}
    with wire.Connection(address) as connection:
        connection.await_topic(TOPIC)
        at, end = connection.offset(TOPIC, wire.EARLIEST), connection.offset(TOPIC, wire.LATEST)
        while at < end:
            answer = connection.ask(wire.fetch_frame(TOPIC, at, wait_ms=100, bytes_max=FETCH_BYTES_MAX))
            records = wire.fetched(answer, TOPIC)
            position = 0
            for batch in wire.batches(records):
                for record in decode_batch(records, position):
                    assert record.value is not None
                    found[record.offset] = int(bytes(record.value))
                length = int.from_bytes(records[position + BATCH_BYTES_AT : position + BATCH_OVERHEAD_BYTES], "big")
                position += BATCH_OVERHEAD_BYTES + length
                at = batch.next_offset
    assert sorted(found) == list(range(end)), "offsets are missing or came twice"
    return found


def kill_while_writing(folder: Path, rounds: int) -> None:
    chosen = random.Random(rounds)
    ledger = Ledger(chosen)
    broker = BrokerProcess(folder, settings={"log.segment.bytes": 4 << 20})
    for at in range(rounds):
        broker.start()
        writer = threading.Thread(target=ledger.write_until_cut_off, args=(broker.address,))
        acknowledged = len(ledger.acknowledged)
        writer.start()
        deadline = time.monotonic() + 30
        while len(ledger.acknowledged) == acknowledged and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(chosen.uniform(0.0, 0.6))
        broker.kill()
        writer.join()
        assert len(ledger.acknowledged) > acknowledged, f"nothing was acknowledged in round {at}"
    with broker:
        found = stored(broker.address)
    in_order = list(found.values())
    assert in_order == sorted(set(in_order)), "a record came twice or out of order"
    for offset, numbers in ledger.acknowledged.items():
        there = [found.get(offset + delta) for delta in range(len(numbers))]
        assert there == list(numbers), f"records {numbers} were acknowledged at offset {offset}"


def test_acknowledged_records_survive_kill_while_writing(tmp_path: Path) -> None:
    """Three rounds: enough to find a broker that forgets."""
    kill_while_writing(tmp_path / "data", rounds=3)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_acknowledged_records_survive_fifty_kills_in_a_row(tmp_path: Path) -> None:
    kill_while_writing(tmp_path / "data", rounds=50)
