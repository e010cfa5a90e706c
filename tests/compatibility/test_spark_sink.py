"""The Spark sink's protocol against Apache Kafka's own coordinators; what Spark itself adds is left out."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from millstream.client.coordinators import Coordinators
from millstream.client.producing import ProducerId, init_producer_id, standings
from millstream.client.transactions import fence
from millstream.model.clock import SystemClock
from millstream.pipelines.spark.sink import coordinator, process, tasks
from millstream.pipelines.spark.sink.coordinator import free_ids
from millstream.pipelines.spark.sink.lone import NotAlone
from millstream.pipelines.spark.sink.process import SinkProcess
from millstream.pipelines.spark.sink.protocol import (
    BatchFailed,
    BatchLost,
    BatchOutdated,
    Decide,
    Fate,
    Standing,
    abort_plan,
)
from millstream.pipelines.spark.sink.routing import RowError
from millstream.pipelines.spark.sink.tasks import Layout, write_rows
from millstream.pipelines.spark.sink.writers import Written, stream_writer
from tests.compatibility import apache_kafka
from tests.compatibility.spark_sinks import LAYOUT, Sink
from tests.pipelines.records import records_of
from tests.pipelines.topics import Topics
from tests.simulation.loop import ManualClock
from tests.system.broker_process import BrokerProcess
from tests.system.command import Millstream

pytestmark = pytest.mark.timeout(300)


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


@pytest.fixture
def sink(address: str) -> Sink:
    return Sink(address)


def test_a_batch_shows_when_it_is_committed_and_the_id_serves_the_one_after_the_next(sink: Sink) -> None:
    first = sink.write(b"a", b"b")
    assert sink.values() == []
    sink.commit(0, first)
    assert sink.values() == [b"a", b"b"]
    second = sink.write(b"c", batch=1)
    assert second.id != first.id, "it may have to be asked what became of the first"
    sink.commit(1, second)
    assert (sink.fate(first), sink.fate(second)) == (Fate.COMMITTED, Fate.COMMITTED)
    third = sink.write(b"d", batch=2)
    assert third.id == first.id
    sink.commit(2, third)
    assert sink.values() == [b"a", b"b", b"c", b"d"]
    assert (sink.fate(second), sink.fate(third)) == (Fate.COMMITTED, Fate.COMMITTED)


def test_an_id_that_nothing_was_written_under_is_had_again_at_once(sink: Sink) -> None:
    """Most tasks of a shuffle may have no rows, and each would have an id of its own."""
    ids = set()
    for _ in range(3):
        assert write_rows(sink.process, sink.options, LAYOUT, sink.query, 0, iter(()), 0, True).transaction is None
        ids.add(sink.write(b"a").id)
    numbers = sorted(int(name.rsplit("/")[-1]) for name in ids)
    assert numbers == list(range(numbers[0], numbers[0] + 3)), "none was passed over"


def test_what_an_administrator_aborts_of_a_decided_batch_is_told_each_time(sink: Sink) -> None:
    """Its driver died before the end, and somebody would not wait for the next: the records are gone."""
    kept, gone = sink.write(b"a"), sink.write(b"b")
    sink.decide(0, kept, gone)
    sink.process.run(fence(sink.process.coordinators, gone.id))
    for _ in range(2):
        with pytest.raises(BatchLost, match=f"batch 0 was decided, and 1 of its 2 transactions .*{gone.id}"):
            sink.commit(0, sink.write(b"a"), sink.write(b"b"))
    assert (sink.fate(kept), sink.fate(gone)) == (Fate.COMMITTED, Fate.ABORTED)


def test_a_batch_that_was_lost_is_written_again_once_its_decision_is_dropped(sink: Sink) -> None:
    kept, gone = sink.write(b"a"), sink.write(b"b")
    sink.decide(0, kept, gone)
    sink.process.run(fence(sink.process.coordinators, gone.id))
    with pytest.raises(BatchLost):
        sink.commit(0)
    Millstream(sink.options.bootstrap)("produce", sink.options.decisions_topic, "-k", sink.query, "-Z", stdin="\n")
    sink.commit(0, sink.write(b"a", b"b"))
    assert sink.values() == [b"a", b"a", b"b"]


def test_a_decided_batch_that_comes_again_and_again_is_committed_once(sink: Sink) -> None:
    """A worker that lived on writes it in vain each time, which must not be taken for the end of what was decided."""
    sink.decide(0, sink.write(b"a"))
    for _ in range(3):
        sink.commit(0, sink.write(b"a"))
    assert sink.values() == [b"a"]


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


def test_a_batch_before_the_last_is_not_taken_for_done(sink: Sink) -> None:
    """A checkpoint that was deleted, or restored from a copy, would lose all that comes before it has caught up."""
    sink.commit(0, sink.write(b"a"))
    sink.commit(1, sink.write(b"b"))
    again = sink.write(b"c")
    with pytest.raises(BatchOutdated, match="batch 0: batch 1 of this query is written already"):
        sink.commit(0, again)
    assert sink.fate(again) is Fate.ABORTED
    assert sink.values() == [b"a", b"b"]


def test_a_query_leaves_another_alone_whose_name_goes_on_where_its_own_ends(address: str) -> None:
    name = f"shop-{uuid4().hex}"
    shop, invoices = Sink(address, name), Sink(address, f"{name}/invoices")
    open_one = invoices.write(b"invoice")
    stray = shop.write(b"stray")
    shop.commit(0, shop.write(b"a"))
    assert shop.fate(stray) is Fate.ABORTED
    assert invoices.fate(open_one) is Fate.OPEN
    invoices.commit(0, open_one)
    assert invoices.values() == [b"invoice"]


def test_a_fence_holds_from_batch_to_batch_until_another_driver_comes(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    fences = []

    async def noted(*given: Any, **named: Any) -> ProducerId:
        fences.append(given[1])
        return await init_producer_id(*given, **named)

    monkeypatch.setattr(coordinator, "init_producer_id", noted)
    for batch in range(3):
        sink.commit(batch, sink.write(b"%d" % batch, batch=batch))
    assert len(fences) == 1
    another = SinkProcess(sink.options, uuid4().hex[:12], SystemClock())
    try:
        lost = sink.write(b"lost")
        another.run(another.driver(sink.query).carry_out(abort_plan(3, [lost])))
        assert len(fences) == 2
        with pytest.raises(BatchFailed):
            sink.commit(3, lost)  # Its fence is refused, and it takes another, behind which it sees why.
        assert len(fences) == 3
        sink.commit(3, sink.write(b"3"))
        assert len(fences) == 4, "a fence is kept only by whoever decided under it"
        another.run(another.driver(sink.query).commit(4, [sink.write(b"4")]))
        sink.commit(5, sink.write(b"5"))
    finally:
        another.close()
    assert sink.values() == [b"%d" % batch for batch in range(6)]


def test_whoever_goes_on_from_a_batch_that_was_decided_and_not_ended_ends_it_first(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a program may that writes versions by itself and takes a failure lightly."""

    async def unanswered(*given: Any) -> Fate:
        raise TimeoutError

    sink.commit(0, sink.write(b"a"))
    second = sink.write(b"b", batch=1)
    with monkeypatch.context() as patched, pytest.raises(TimeoutError):
        patched.setattr(coordinator.Driver, "_end_one", unanswered)
        sink.commit(1, second)
    assert sink.fate(second) is Fate.OPEN
    sink.commit(2, sink.write(b"c", batch=2))
    assert sink.fate(second) is Fate.COMMITTED
    assert sorted(value or b"" for value in sink.values()) == [b"a", b"b", b"c"]


def test_an_id_goes_on_under_the_epoch_that_its_commit_gave(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch is begun by writing it, once there are two ids to take turns with."""
    initialised: list[str] = []
    looked_up: list[Standing] = []

    async def noted(*given: Any, **named: Any) -> ProducerId:
        producer = await init_producer_id(*given, **named)
        initialised.append(given[1])
        return producer

    async def noted_look(coordinators: Coordinators, names: Iterable[str]) -> Mapping[str, Standing]:
        found = await free_ids(coordinators, names)
        looked_up.extend(found.values())
        return found

    monkeypatch.setattr(process, "init_producer_id", noted)
    monkeypatch.setattr(process, "free_ids", noted_look)
    monkeypatch.setattr(tasks, "_LOOK_AHEAD_S", sink.options.timeout_ms / 1000)  # However slow the coordinator is.
    written = []
    for batch in range(8):
        written.append(sink.write(b"%d" % batch, batch=batch))
        sink.commit(batch, written[-1])
        sink.await_end(written[-1])
    assert len(initialised) == len({each.id for each in written}) == 2
    assert [each.producer_epoch - written[number % 2].producer_epoch for number, each in enumerate(written)] == [
        number // 2 for number in range(8)
    ]
    assert len(looked_up) == 7, "once for each batch after the first, while the one before was written"
    assert sink.values() == [b"%d" % batch for batch in range(8)]
    stray = sink.write(b"stray", batch=8)
    sink.abort(8, stray)
    again = sink.write(b"8", batch=8)
    assert again.id not in {stray.id, written[7].id}, "what became of these may still be asked"
    sink.commit(8, again)
    assert sink.values() == [b"%d" % batch for batch in range(9)]


def test_a_topic_that_was_widened_gets_records_in_its_new_partitions(address: str) -> None:
    """A worker that went on with what it knew would put keys elsewhere than those that came after it."""
    sink = Sink(address, **{"kafka.metadata.max.age.ms": "0"})
    keys = [b"%d" % number for number in range(100)]
    sink.commit(0, sink.write(*keys))
    Topics(address).grow(sink.topic, 4)
    batch = 1
    while {record.partition for record in records_of(address, sink.topic)} != {0, 1, 2, 3}:
        assert batch < 50, "its new partitions are not known"
        sink.commit(batch, sink.write(*keys))  # What it has been asked for, the cluster may tell a moment later.
        batch += 1


def test_a_partition_that_is_new_is_found_when_a_row_names_it(sink: Sink) -> None:
    sink.commit(0, sink.write(b"a"))
    Topics(sink.address).grow(sink.topic, 4)
    rows = pa.record_batch({"partition": pa.array([3], pa.int32()), "value": pa.array([b"b"])})
    layout = Layout({"partition": 0, "value": 1})
    done = write_rows(sink.process, sink.options, layout, sink.query, 1, iter([rows]), 0, True)
    assert done.transaction is not None
    sink.commit(1, done.transaction)
    assert {(record.partition, record.value) for record in records_of(sink.address, sink.topic)} >= {(3, b"b")}


def test_what_killed_tasks_left_unheard_is_taken_back_with_their_batch(sink: Sink, tmp_path: Path) -> None:
    """A query that is stopped in the middle leaves it, and readers would wait for it until it is started again."""
    sink.query = str(uuid4())
    (tmp_path / "metadata").write_text(json.dumps({"id": sink.query}))
    sink.commit(0, sink.write(b"a"))
    unheard, heard = sink.write(b"unheard"), sink.write(b"heard")
    options = {"kafka.bootstrap.servers": sink.address, "topic": sink.topic, "checkpointLocation": str(tmp_path)}
    writer = stream_writer(options, StructType([StructField("value", BinaryType())]), False)
    writer.abort([None], 1)
    assert (sink.fate(unheard), sink.fate(heard)) == (Fate.ABORTED, Fate.ABORTED)
    unheard, heard = sink.write(b"unheard"), sink.write(b"heard")
    writer.abort([Written(sink.query, heard, 1, 1), None], 1)
    assert (sink.fate(unheard), sink.fate(heard)) == (Fate.ABORTED, Fate.ABORTED)
    assert sink.values() == [b"a"]


def _noted_fences(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    fences: list[str] = []

    async def noted(*given: Any, **named: Any) -> ProducerId:
        fences.append(given[1])
        return await init_producer_id(*given, **named)

    monkeypatch.setattr(coordinator, "init_producer_id", noted)
    return fences


@pytest.fixture
def another(sink: Sink) -> Iterator[SinkProcess]:
    """Another process that writes or decides for the same query."""
    made = SinkProcess(sink.options, uuid4().hex[:12], SystemClock())
    yield made
    made.close()


def test_a_lone_task_commits_its_batch_which_is_recognised_when_it_comes_again(
    sink: Sink, another: SinkProcess
) -> None:
    done = sink.settle(0, b"a", b"b")
    assert (done.transaction, done.records, done.is_settled) == (None, 2, True)
    assert sink.values() == [b"a", b"b"]
    assert sink.settle(0, b"a", b"b").records == 0, "alone, in the same process"
    assert sink.settle(0, b"a", b"b", by=another).records == 0, "and in another"
    several = [sink.write(b"a"), sink.write(b"b")]
    sink.commit(0, *several)
    sink.abort(0)
    assert [sink.fate(each) for each in several] == [Fate.ABORTED, Fate.ABORTED]
    sink.settle(1)
    sink.settle(2, b"c")
    with pytest.raises(BatchOutdated, match="batch 1: batch 2 of this query is written already"):
        sink.settle(1, b"late", by=another)
    assert sink.values() == [b"a", b"b", b"c"]


def test_a_decided_batch_that_comes_again_as_a_lone_task_is_ended_as_decided(sink: Sink) -> None:
    parts = sink.write(b"a"), sink.write(b"b")
    sink.decide(0, *parts)
    assert sink.settle(0, b"a", b"b").records == 0
    assert sink.values() == [b"a", b"b"]
    assert [sink.fate(each) for each in parts] == [Fate.COMMITTED, Fate.COMMITTED]


def test_a_lone_task_sweeps_what_several_left_open(sink: Sink) -> None:
    stray = sink.write(b"stray")
    sink.settle(0, b"a")
    assert sink.fate(stray) is Fate.ABORTED
    assert sink.values() == [b"a"]


def test_what_is_left_open_beside_lone_tasks_is_swept_by_one_in_every_second(sink: Sink) -> None:
    """Each of them would else ask for a list that has nothing in it, before it may write."""
    clock = ManualClock(now_ms=SystemClock().now_ms())
    here = SinkProcess(sink.options, uuid4().hex[:12], clock)
    sink.settle(0, b"a", by=here)
    stray = sink.write(b"stray")
    clock.advance(coordinator.LOOK_MS - 1)
    sink.settle(1, b"b", by=here)
    assert sink.fate(stray) is Fate.OPEN
    clock.advance(1)
    sink.settle(2, b"c", by=here)
    assert sink.fate(stray) is Fate.ABORTED
    assert sink.values() == [b"a", b"b", b"c"]
    stray = sink.write(b"stray")
    sink.commit(3, sink.write(b"d", batch=3))
    assert sink.fate(stray) is Fate.ABORTED, "by several always"
    here.close()


def test_the_fence_goes_from_one_process_to_the_next(
    sink: Sink, another: SinkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    fences = _noted_fences(monkeypatch)
    processes = [sink.process, another]
    for batch in range(4):
        here = processes[batch % 2]
        sink.settle(batch, b"%d" % batch, by=here)
        held = here.driver(sink.query).released()
        assert held is not None and held.batch == batch
        assert here.driver(sink.query).released() is None, "it is given away once"
        processes[(batch + 1) % 2].driver(sink.query).resume(held)
    assert len(fences) == 1
    sink.commit(4, sink.write(b"4", batch=4))
    assert sink.process.driver(sink.query).released() is None, "a decision of several is not handed on"
    assert sink.values() == [b"%d" % batch for batch in range(5)]


def test_a_lone_task_under_a_fence_that_was_taken_away_writes_its_rows_once(
    sink: Sink, another: SinkProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has written anything; and when all is written and only the word is missing that it counts."""
    sink.settle(0, b"a")
    another.run(another.driver(sink.query).carry_out(abort_plan(1, ())))
    assert sink.settle(1, b"b").records == 1
    driver, rival = sink.process.driver(sink.query), sink.rival()
    decide = driver._decide
    sent: list[Decide] = []

    async def late(step: Decide) -> None:
        if not sent:
            await rival.carry_out(abort_plan(2, ()))
        sent.append(step)
        await decide(step)

    monkeypatch.setattr(driver, "_steps", {**driver._steps, Decide: late})
    sink.settle(2, b"c")
    assert len(sent) == 2
    assert sink.values() == [b"a", b"b", b"c"]


def test_a_lone_task_that_fails_takes_back_what_it_wrote(address: str) -> None:
    """At once: readers would wait for the decision's time-out."""
    sink = Sink(address, **{"kafka.max.request.size": str(16 * 1024 * 1024)})
    sink.settle(0, b"a")
    with pytest.raises(RowError, match=r"larger than topic .* takes"):
        sink.settle(1, b"b", bytes(4 * 1024 * 1024))
    name = f"millstream-sink-decisions/{sink.query}"
    found = sink.process.run(standings(sink.process.coordinators, [name]))[name]
    assert found.state in {"PrepareAbort", "CompleteAbort"}
    sink.settle(1, b"c")
    assert sink.values() == [b"a", b"c"]


def test_a_task_that_was_taken_for_a_lone_one_leaves_its_batch_to_others(sink: Sink) -> None:
    """It hears of them when its rows are written, or not written, for the batch was decided before."""
    for batch in range(2):
        with pytest.raises(NotAlone):
            sink.settle(batch, b"%d" % batch, is_alone=False)
        sink.commit(batch, sink.write(b"%d" % batch))
        with pytest.raises(NotAlone):
            sink.settle(batch, b"%d" % batch, is_alone=False)
    assert sink.values() == [b"0", b"1"]
