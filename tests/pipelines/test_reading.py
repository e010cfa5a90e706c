"""What a task does when the broker no longer has what it was sent for, or goes away; a worker's code, without Spark."""

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.options import batch_options, stream_options
from millstream.pipelines.spark.planning import DataLost, Range
from millstream.pipelines.spark.reading import read_from_brokers, read_together
from millstream.pipelines.spark.source import StreamReader, read_task
from millstream.pipelines.spark.task import Task
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess
from tests.system.watching import metrics

#: How many fetches of consumers a broker has answered.
FETCHES = 'kafka_network_requestmetrics_totaltimems_count{request="FetchConsumer"}'


def task_of(address: str, topic: str, start: int, stop: int, **options: str) -> Task:
    given = {"kafka.bootstrap.servers": address, "subscribe": topic, **options}
    return Task(Range(TopicPartition(topic, 0), start, stop), batch_options(given))


def offsets(task: Task) -> list[int]:
    return [offset for table in read_from_brokers(task) for offset in table["offset"].to_pylist()]


def test_records_deleted_after_planning_fail_the_task_or_are_passed_over(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 10)
    topics.cut(topic, before=6)
    with pytest.raises(DataLost, match=f"partition {topic}-0 no longer has offset 2"):
        offsets(task_of(topics.address, topic, 2, 9))
    assert offsets(task_of(topics.address, topic, 2, 9, failOnDataLoss="false")) == [6, 7, 8]
    assert offsets(task_of(topics.address, topic, 2, 5, failOnDataLoss="false")) == []


def test_a_log_that_ends_before_the_range_is_lost_data(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    with pytest.raises(DataLost, match="no longer has offset 7"):
        offsets(task_of(topics.address, topic, 7, 9))
    assert offsets(task_of(topics.address, topic, 7, 9, failOnDataLoss="false")) == []


def test_a_task_outlives_the_death_of_its_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topics = Topics(broker.address)
        topic = topics.new()
        topics.put(topic, [b"x" * 100] * 20_000)
        task = task_of(broker.address, topic, 0, 20_000, **{"kafka.max.partition.fetch.bytes": "50000"})
        batches = read_from_brokers(task)
        found = next(batches)["offset"].to_pylist()
        broker.kill()
        broker.start()
        for table in batches:
            found += table["offset"].to_pylist()
    assert found == list(range(20_000))


def test_a_topic_made_anew_is_read_from_its_first_record_by_a_stream_that_began_at_the_latest(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["old"] * 5)
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, "failOnDataLoss": "false"}
    stream = StreamReader(stream_options(given))
    start = stream.initialOffset()
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    assert stream.partitions(start, start) == []
    topics.delete(topic)
    topics.new(name=topic)
    topics.put(topic, ["new"] * 2)
    tasks = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    stream.stop()
    assert [batch["value"].to_pylist() for task in tasks for batch in read_task(task)] == [[b"new", b"new"]]


def test_small_ranges_are_read_together_as_one_batch(topics: Topics) -> None:
    names = [topics.new() for _ in range(3)]
    for count, name in enumerate(names, 2):
        topics.put(name, [name] * count)
    tasks = [task_of(topics.address, name, 1, count) for count, name in enumerate(names, 2)]
    (table,) = read_together(tasks)
    assert table["value"].to_pylist() == [name.encode() for count, name in enumerate(names, 1) for _ in range(count)]
    assert table["offset"].to_pylist() == [1, 1, 2, 1, 2, 3]


def test_a_leader_is_asked_for_all_small_ranges_by_one_fetch(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, arguments=["--metrics-port", "0"]) as broker:
        topics = Topics(broker.address)
        names = [topics.new() for _ in range(4)]
        for name in names:
            topics.put(name, [name] * 3)
        tasks = [task_of(broker.address, name, 0, 3) for name in names]
        before = metrics(broker).get(FETCHES, 0)
        (table,) = read_together(tasks)
        assert table.num_rows == 12
        assert metrics(broker)[FETCHES] == before + 1


def test_ranges_read_together_of_one_partition_or_with_one_that_is_lost_are_all_read(topics: Topics) -> None:
    whole, lost = topics.new(), topics.new()
    for name in (whole, lost):
        topics.put(name, [name] * 4)
    topics.cut(lost, before=2)
    tasks = [
        task_of(topics.address, name, start, stop, failOnDataLoss="false")
        for name, start, stop in ((whole, 0, 2), (lost, 0, 3), (whole, 2, 4))
    ]
    found = [
        (row["topic"], row["offset"])
        for table in read_together(tasks)
        for row in table.select(["topic", "offset"]).to_pylist()
    ]
    assert sorted(found) == sorted([(lost, 2), *((whole, offset) for offset in range(4))])


def test_ranges_read_together_keep_the_bound_of_one_fetch_and_can_be_left_in_the_middle(topics: Topics) -> None:
    names = [topics.new() for _ in range(4)]
    for name in names:
        topics.put(name, [b"x" * 1000] * 2_000)
    tasks = [task_of(topics.address, name, 0, 2_000) for name in names]
    sizes = [table.nbytes for table in read_together(tasks)]
    assert sum(sizes) >= 8_000_000
    assert max(sizes) < 3_000_000
    left = read_together(tasks)
    assert next(left).num_rows
    left.close()
    assert sum(table.num_rows for table in read_together(tasks)) == 8_000


def test_a_broker_that_stays_away_is_named(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topics = Topics(broker.address)
        topic = topics.new()
        topics.put(topic, ["x"])
        address = broker.address
    with pytest.raises(ConnectionError, match=f"nothing listens at {address}"):
        offsets(task_of(address, topic, 0, 1, **{"kafka.request.timeout.ms": "300"}))


def test_what_a_task_holds_is_bounded_by_its_fetches(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, [b"x" * 1000] * 5_000)
    task = task_of(topics.address, topic, 0, 5_000, **{"kafka.max.partition.fetch.bytes": "200000"})
    sizes = [table.nbytes for table in read_from_brokers(task)]
    assert len(sizes) >= 20
    assert max(sizes) < 300_000
