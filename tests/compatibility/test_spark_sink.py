"""The Spark sink's protocol against Apache Kafka's own coordinators; what Spark itself adds is left out."""

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
import pytest

from millstream.client.producing import standings
from millstream.pipelines.spark.sink.coordinator import standing_of
from millstream.pipelines.spark.sink.options import SinkOptions, sink_options
from millstream.pipelines.spark.sink.process import SinkProcess, sink_process
from millstream.pipelines.spark.sink.protocol import BatchFailed, Fate, Transaction, abort_plan, commit_plan, fate_of
from millstream.pipelines.spark.sink.tasks import Layout, write_rows
from tests.compatibility import apache_kafka
from tests.pipelines.records import values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(300)
LAYOUT = Layout({"key": 0, "value": 1})


@pytest.fixture(scope="module", params=["millstream", "apache kafka"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    if request.param == "millstream":
        with BrokerProcess(folder) as broker:
            yield broker.address
        return
    if why := apache_kafka.missing():
        pytest.skip(why)
    with apache_kafka.ApacheKafka(folder) as kafka:
        yield kafka.bootstrap


class Sink:
    """Tasks and a driver, in one process, for one query."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.topic = Topics(address).new(2, name=f"sink-{uuid4().hex}")
        self.options: SinkOptions = sink_options({"kafka.bootstrap.servers": address, "topic": self.topic})
        self.process: SinkProcess = sink_process(self.options)

    def write(self, *values: bytes) -> Transaction:
        rows = pa.record_batch({"key": pa.array(values), "value": pa.array(values)})
        done = write_rows(self.process, self.options, LAYOUT, self.topic, iter([rows]), 0, True)
        assert done.transaction is not None
        return done.transaction

    def commit(self, batch: int, *mine: Transaction) -> None:
        self.process.run(self.process.driver(self.topic).carry_out(commit_plan(batch, mine)))

    def abort(self, batch: int, *mine: Transaction) -> None:
        self.process.run(self.process.driver(self.topic).carry_out(abort_plan(batch, mine)))

    def fate(self, transaction: Transaction) -> Fate:
        rows = self.process.run(standings(self.process.coordinators, [transaction.id]))
        return fate_of(transaction, standing_of(rows.get(transaction.id)))

    def values(self) -> list[bytes | None]:
        return values_of(self.address, self.topic)


@pytest.fixture
def sink(address: str) -> Sink:
    return Sink(address)


def test_a_batch_shows_when_it_is_committed_and_the_id_serves_the_next(sink: Sink) -> None:
    first = sink.write(b"a", b"b")
    assert sink.values() == []
    sink.commit(0, first)
    assert sink.values() == [b"a", b"b"]
    second = sink.write(b"c")
    assert second.id == first.id
    sink.commit(1, second)
    assert sink.values() == [b"a", b"b", b"c"]
    assert (sink.fate(first), sink.fate(second)) == (Fate.COMMITTED, Fate.COMMITTED)


def test_a_batch_that_comes_again_is_recognised(sink: Sink) -> None:
    first = sink.write(b"a")
    sink.commit(0, first)
    again = sink.write(b"a")
    sink.commit(0, again)
    sink.commit(0, first)
    sink.abort(0, first)
    assert sink.values() == [b"a"]
    assert (sink.fate(first), sink.fate(again)) == (Fate.COMMITTED, Fate.ABORTED)


def test_what_was_given_up_cannot_be_committed_any_more(sink: Sink) -> None:
    first = sink.write(b"a")
    sink.abort(0, first)
    with pytest.raises(BatchFailed, match="given up"):
        sink.commit(0, first)
    sink.commit(0, sink.write(b"b"))
    assert sink.values() == [b"b"]


def test_what_dead_tasks_left_open_is_swept(sink: Sink) -> None:
    stray = sink.write(b"stray")
    sink.commit(0, sink.write(b"a"))
    assert sink.values() == [b"a"]
    assert sink.fate(stray) is Fate.ABORTED


def test_an_open_transaction_is_never_taken_again(sink: Sink) -> None:
    """Else a decided one that was not committed yet would be aborted by the next task of the same worker."""
    first, second = sink.write(b"a"), sink.write(b"b")
    assert first.id != second.id
    assert (sink.fate(first), sink.fate(second)) == (Fate.OPEN, Fate.OPEN)
    sink.commit(0, first, second)
    assert sink.values() == [b"a", b"b"]


def test_a_part_that_is_gone_before_the_decision_fails_the_batch(sink: Sink) -> None:
    first, second = sink.write(b"a"), sink.write(b"b")
    sink.process.run(sink.process.take_back(second))
    with pytest.raises(BatchFailed, match="1 of its 2 transactions are no longer open"):
        sink.commit(0, first, second)
    assert sink.fate(first) is Fate.OPEN
    sink.abort(0, first, second)
    assert sink.values() == []
