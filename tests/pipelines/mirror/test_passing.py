"""What a task passes on between two real brokers: the same records in the same order, whoever dies meanwhile."""

import threading
import time

import pytest
from confluent_kafka import Producer

from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.passing import FIRST, pass_on
from millstream.pipelines.mirror.translation import Translation
from tests.pipelines.mirror.reading import contents
from tests.pipelines.mirror.tasks import commit, mirror_once, stretches_of, work_between
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_with_keys_headers_and_times_under_every_codec(
    one: BrokerProcess, other: BrokerProcess, codec: str
) -> None:
    topics = Topics(one.address)
    topics.new(2, name="t")
    Topics(other.address).new(2, name="A.t")
    producer = Producer(
        {"bootstrap.servers": one.address, "compression.type": codec, "batch.size": 4_000, "log_level": 2}
    )
    for number in range(1_000):
        producer.produce(
            "t",
            key=b"k%d" % number if number % 3 else None,
            value=b"v%d" % number if number % 5 else None,
            partition=number % 2,
            timestamp=NOW_MS + number,
            headers=[("h", b"%d" % number), ("empty", None)] if number % 7 else None,
        )
    assert producer.flush(30) == 0
    done = mirror_once(one.address, other.address, "t", "A.t")
    assert done.records == 1_000
    assert contents(other.address, "A.t") == contents(one.address, "t")


def test_what_was_aborted_stays_behind_and_offsets_are_known_all_the_same(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t")
    topics.put("t", [b"first"])
    with topics.transaction("no", "t", ["a", "b"]) as producer:
        producer.abort_transaction(30)
    with topics.transaction("yes", "t", ["c", "d"]) as producer:
        producer.commit_transaction(30)
    topics.put("t", [b"last"])
    done = mirror_once(one.address, other.address, "t", "A.t")
    found = contents(other.address, "A.t")[0]
    assert found == contents(one.address, "t")[0]
    assert [record.value for record in found] == [b"first", b"c", b"d", b"last"]
    translation = Translation()
    for run in done.runs[TopicPartition("t", 0)]:
        translation.learn(run)
    # first 0; aborted 1, 2 and its marker 3; c 4, d 5 and its marker 6; last 7.
    assert [translation.downstream(offset) for offset in range(9)] == [0, 1, 1, 1, 1, 2, 3, 3, 4]


def test_batches_larger_than_the_target_takes_are_cut(one: BrokerProcess, other: BrokerProcess) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t", settings={"max.message.bytes": "3000"})
    topics.put("t", [b"%04d" % number * 100 for number in range(100)])
    mirror_once(one.address, other.address, "t", "A.t")
    assert contents(other.address, "A.t") == contents(one.address, "t")


def test_a_stretch_that_begins_and_ends_within_batches_is_passed_on_alone(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t")
    topics.put("t", [b"%d" % number for number in range(1_000)])
    work = work_between(one.address, other.address)
    [whole] = stretches_of(one.address, "t", "A.t")
    for number, (start, stop) in enumerate([(0, 333), (333, 334), (334, 1_000)]):
        commit(work, number, [pass_on(work, [whole._replace(start=start, stop=stop)])])
    assert contents(other.address, "A.t") == contents(one.address, "t")


def test_what_retention_took_is_told_and_passed_over(one: BrokerProcess, other: BrokerProcess) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t")
    topics.put("t", [b"%d" % number for number in range(100)])
    [whole] = stretches_of(one.address, "t", "A.t")
    topics.cut("t", 40)
    work = work_between(one.address, other.address)
    done = pass_on(work, [whole])
    commit(work, 0, [done])
    assert done.losses == ("t-0: 40 offsets from 0 on were gone before they were read: retention was quicker",)
    assert done.records == 60
    assert contents(other.address, "A.t") == contents(one.address, "t")


def test_a_topic_that_is_deleted_before_it_is_read_is_told_and_holds_up_no_other(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    topics = Topics(one.address)
    for name in ("gone", "again", "stays"):
        topics.new(1, name=name)
        topics.put(name, [b"%d" % number for number in range(10)])
        Topics(other.address).new(1, name=f"A.{name}")
    stretches = [each for name in ("gone", "again", "stays") for each in stretches_of(one.address, name, f"A.{name}")]
    topics.delete("gone")
    topics.delete("again")
    topics.new(1, name="again")
    topics.put("again", [b"another"] * 20)
    work = work_between(one.address, other.address, timeout_ms=10_000)
    done = pass_on(work, stretches)
    commit(work, 0, [done])
    assert sorted(done.losses) == [
        f"{name}-0: the topic was deleted before offsets 0 to 10 were read" for name in ("again", "gone")
    ]
    assert contents(other.address, "A.stays") == contents(one.address, "stays")
    assert contents(other.address, "A.again") == {0: []}


def test_what_ends_a_task_is_told_as_what_it_is(one: BrokerProcess, other: BrokerProcess) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    topics.put("t", [b"a"])
    with pytest.raises(ProtocolError, match=r"there is no topic 'A\.t'"):
        pass_on(work_between(one.address, other.address), stretches_of(one.address, "t", "A.t"))


def test_a_stretch_from_the_first_record_finds_it_and_one_of_a_log_that_was_cut_passes_nothing_on(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t")
    topics.put("t", [b"%d" % number for number in range(100)])
    topics.cut("t", 40)
    work = work_between(one.address, other.address)
    [whole] = stretches_of(one.address, "t", "A.t")
    done = pass_on(work, [whole._replace(start=FIRST)])
    commit(work, 0, [done])
    assert (done.losses, done.records) == ((), 60)
    done = pass_on(work, [whole._replace(start=200)])
    assert (done.transaction, done.records) == (None, 0)
    assert done.losses == ("t-0: it was passed on up to offset 200 and ends at 100 now: its log was cut",)
    assert contents(other.address, "A.t") == contents(one.address, "t")


@pytest.mark.parametrize("who", ["source", "target"])
def test_a_broker_that_is_killed_meanwhile_costs_nothing(one: BrokerProcess, other: BrokerProcess, who: str) -> None:
    topics = Topics(one.address)
    topics.new(4, name="t")
    Topics(other.address).new(4, name="A.t")
    for partition in range(4):
        topics.put("t", [b"%d" % number * 200 for number in range(3_000)], partition)
    work = work_between(one.address, other.address)
    stretches = stretches_of(one.address, "t", "A.t")
    victim = one if who == "source" else other

    def kill() -> None:
        for _ in range(2):
            time.sleep(0.1)
            victim.kill()
            victim.start()

    killer = threading.Thread(target=kill)
    killer.start()
    done = pass_on(work, stretches)
    killer.join()
    commit(work, 0, [done])
    assert contents(other.address, "A.t") == contents(one.address, "t")
