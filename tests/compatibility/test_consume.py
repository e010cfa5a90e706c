"""Reading: from the start, the end, an offset, a time and the middle of a batch; waiting; deleted records."""

from __future__ import annotations

import time

import pytest

from tests.compatibility.clients import each_driver
from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import batches_of
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import CODECS, EARLIEST, LATEST, At, Record, Refused

OFFSET_OUT_OF_RANGE, POLICY_VIOLATION = 1, 44
START_MS = 1_700_000_000_000


def values(*numbers: int) -> list[Record]:
    return [Record(b"%d" % number) for number in numbers]


@pytest.fixture(scope="session")
def timed(seed: Driver, new_topic: NewTopic) -> str:
    """Three batches of three records: times 0, 10, 20 / 30, 40, 50 / 60, 70, 80 after START_MS."""
    topic = new_topic()
    for first in (0, 3, 6):
        seed.produce(topic, [Record(b"%d" % i, timestamp_ms=START_MS + 10 * i) for i in range(first, first + 3)])
    return topic


@each_driver("read")
def test_reading_from_the_start(driver: Driver, timed: str) -> None:
    with driver.read(timed, EARLIEST) as reader:
        assert [row.offset for row in reader.take(9)] == list(range(9))


@each_driver("read")
@pytest.mark.parametrize("offset", [3, 4, 8])
def test_reading_from_an_offset(driver: Driver, timed: str, offset: int) -> None:
    with driver.read(timed, offset) as reader:
        assert [row.offset for row in reader.take(9 - offset)] == list(range(offset, 9))


@each_driver("read")
@pytest.mark.parametrize("codec", CODECS)
def test_reading_from_the_middle_of_a_batch(
    driver: Driver, seed: Driver, topic: str, bootstrap: str, codec: str
) -> None:
    seed.produce(topic, values(*range(10)), codec=codec)
    seed.produce(topic, values(10, 11), codec=codec)
    assert [batch.count for batch in batches_of(bootstrap, topic)] == [10, 2]
    with driver.read(topic, 5) as reader:
        assert [row.value for row in reader.take(7)] == [b"%d" % number for number in range(5, 12)]


@each_driver("read")
@pytest.mark.parametrize(("after_ms", "offset"), [(0, 0), (40, 4), (41, 5), (-1000, 0), (80, 8)])
def test_reading_from_a_time(driver: Driver, timed: str, after_ms: int, offset: int) -> None:
    with driver.read(timed, At(START_MS + after_ms)) as reader:
        assert [row.offset for row in reader.take(9 - offset)] == list(range(offset, 9))


@each_driver("read")
def test_reading_from_the_end_gives_only_what_comes_next(driver: Driver, seed: Driver, topic: str) -> None:
    seed.produce(topic, values(1, 2, 3))
    with driver.read(topic, LATEST) as reader:
        assert reader.poll(0.3) == []
        seed.produce(topic, values(4))
        assert [(row.offset, row.value) for row in reader.take(1)] == [(3, b"4")]


@each_driver("read")
def test_a_reader_that_waits_is_woken_by_the_next_record(driver: Driver, seed: Driver, topic: str) -> None:
    with driver.read(topic, 0) as reader:
        for number in range(3):
            assert reader.poll(0.1) == []
            seed.produce(topic, values(number))
            assert [row.offset for row in reader.take(1)] == [number]


@each_driver("read")
def test_an_offset_out_of_range_is_refused(driver: Driver, timed: str) -> None:
    with driver.read(timed, 1000) as reader, pytest.raises(Refused) as refused:
        reader.take(1, timeout_s=10)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@each_driver("list_offset")
@pytest.mark.parametrize(
    ("timestamp", "offset"),
    [(EARLIEST, 0), (LATEST, 9), (START_MS, 0), (START_MS + 35, 4), (START_MS + 60, 6), (START_MS + 61, 7)],
)
def test_offsets_are_listed_by_place_and_time(driver: Driver, timed: str, timestamp: int, offset: int) -> None:
    assert driver.list_offset(timed, timestamp) == offset


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_times_are_found_within_a_batch_of_every_codec(
    seed: Driver, new_topic: NewTopic, codec: str, kind: str
) -> None:
    topic = new_topic(message_timestamp_type=kind)
    seed.produce(topic, [Record(b"v", timestamp_ms=START_MS + delta) for delta in (5, 90, 7, 60)], codec=codec)
    found = [seed.list_offset(topic, START_MS + delta) for delta in (0, 6, 91)]
    # The broker's own time is one for the whole batch, and later than all of these.
    assert found == ([0, 1, -1] if kind == "CreateTime" else [0, 0, 0])
    assert seed.max_timestamp_offset(topic) == (1 if kind == "CreateTime" else 0)


@each_driver("list_offset", where=lambda driver: driver.name != "kcat")
def test_a_time_after_every_record_has_no_offset(driver: Driver, timed: str) -> None:
    assert driver.list_offset(timed, START_MS + 81) == -1


@each_driver("list_offset")
def test_an_empty_partition_starts_and_ends_at_zero(driver: Driver, topic: str) -> None:
    assert [driver.list_offset(topic, place) for place in (EARLIEST, LATEST)] == [0, 0]


@each_driver("max_timestamp_offset")
def test_the_record_with_the_highest_time_is_found(driver: Driver, seed: Driver, topic: str) -> None:
    assert driver.max_timestamp_offset(topic) == -1
    for batch in ((5, 90, 7), (80, 10)):
        seed.produce(topic, [Record(b"v", timestamp_ms=START_MS + delta) for delta in batch])
    assert driver.max_timestamp_offset(topic) == 1


@each_driver("delete_records", "read", "list_offset")
def test_deleted_records_are_gone_and_offsets_stay(driver: Driver, seed: Driver, topic: str) -> None:
    seed.produce(topic, values(*range(10)))
    assert driver.delete_records(topic, 4) == 4
    assert [driver.list_offset(topic, place) for place in (EARLIEST, LATEST)] == [4, 10]
    with driver.read(topic, EARLIEST) as reader:
        assert [row.offset for row in reader.take(6)] == list(range(4, 10))
    with driver.read(topic, 3) as reader, pytest.raises(Refused) as refused:
        reader.take(1, timeout_s=10)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@each_driver("delete_records", "list_offset")
def test_all_records_can_be_deleted_at_once(driver: Driver, seed: Driver, topic: str) -> None:
    seed.produce(topic, values(1, 2, 3))
    assert driver.delete_records(topic, -1) == 3
    assert driver.list_offset(topic, EARLIEST) == driver.list_offset(topic, LATEST) == 3
    assert seed.produce(topic, values(4)) == [3]


@each_driver("delete_records", where=lambda driver: driver.name != "kafkajs")
def test_records_that_are_not_there_cannot_be_deleted(driver: Driver, seed: Driver, topic: str) -> None:
    seed.produce(topic, values(1))
    with pytest.raises(Refused) as refused:
        driver.delete_records(topic, 2)
    assert refused.value.code == OFFSET_OUT_OF_RANGE


@each_driver("delete_records", where=lambda driver: driver.name != "kafkajs")
def test_records_of_a_compacted_topic_cannot_be_deleted(driver: Driver, seed: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    seed.produce(topic, [Record(b"v", key=b"k")])
    with pytest.raises(Refused) as refused:
        driver.delete_records(topic, 1)
    assert refused.value.code == POLICY_VIOLATION


@each_driver("read")
def test_many_batches_larger_than_one_answer_arrive_whole(driver: Driver, seed: Driver, topic: str) -> None:
    for part in range(4):
        seed.produce(topic, [Record(bytes([65 + part]) * 700_000)])
    began = time.monotonic()
    with driver.read(topic, EARLIEST) as reader:
        rows = reader.take(4)
    assert [(len(row.value or b""), (row.value or b"")[:1]) for row in rows] == [
        (700_000, letter) for letter in (b"A", b"B", b"C", b"D")
    ]
    assert time.monotonic() - began < 15
