"""What a driver asks of a real cluster; without Spark."""

from collections.abc import Iterator

import pytest

from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.cluster import ClusterOrigin
from millstream.pipelines.spark.options import SourceOptions, stream_options
from tests.pipelines.topics import Topics


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.new(2)


@pytest.fixture
def options(topics: Topics, topic: str) -> SourceOptions:
    return stream_options({"kafka.bootstrap.servers": topics.address, "subscribe": topic})


@pytest.fixture
def origin(options: SourceOptions) -> Iterator[ClusterOrigin]:
    origin = ClusterOrigin(options)
    yield origin
    origin.close()


def test_bounds_are_of_the_partitions_that_there_are_each_time(
    topics: Topics, topic: str, options: SourceOptions, origin: ClusterOrigin
) -> None:
    """They are asked for those that there were while it is looked; what is new, or has gone, is found all the same."""
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    assert origin.bounds(options.selection) == ({first: 0, second: 0}, {first: 0, second: 0})
    topics.put(topic, ["x"] * 3)
    topics.cut(topic, before=2)
    assert origin.bounds(options.selection) == ({first: 2, second: 0}, {first: 3, second: 0})
    topics.grow(topic, 3)
    assert origin.bounds(options.selection)[1] == {first: 3, second: 0, third: 0}
    topics.delete(topic)
    assert origin.bounds(options.selection) == ({}, {})


def test_bounds_are_found_again_after_every_connection_was_lost(
    topics: Topics, topic: str, options: SourceOptions, origin: ClusterOrigin
) -> None:
    """Both questions would make the one connection anew, and one waits for the other to have made it."""
    topics.put(topic, ["x"])
    found = origin.bounds(options.selection)
    for _ in range(3):
        origin._here.cluster.close()
        assert origin.bounds(options.selection) == found
