"""Where a group's offsets go, and what a file may say of it."""

import asyncio
import json
from pathlib import Path

import pytest

from millstream.cli.failure import CommandFailed
from millstream.cli.group.reset_plan import Move, Offsets, Place, Wish, plan, read_file
from millstream.client.cluster import Cluster
from millstream.client.partitions import EARLIEST, LATEST
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import ScriptedBroker, metadata_of

START, END = 10, 50
#: The only moment for which there is a record, and its offset.
MOMENT_MS, AT_MOMENT = 7_000, 30
ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def tell_offsets(request: Request) -> ListOffsetsResponse:
    assert isinstance(request, ListOffsetsRequest)
    offsets = {EARLIEST: START, LATEST: END, MOMENT_MS: AT_MOMENT}
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=row.partition_index, offset=offsets.get(row.timestamp, -1)
                    )
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def planned(wish: Wish, current: Offsets) -> list[Move]:
    """The plan against a topic ``orders`` of two partitions, each from 10 to 50."""

    async def scenario() -> list[Move]:
        async with ScriptedBroker({ListOffsetsRequest.API_KEY: tell_offsets}) as broker:
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, {"orders": [1, 1]})
            async with Cluster([broker.address]) as cluster:
                return await plan(cluster, wish, current)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("place", "number", "new_offset", "note"),
    [
        (Place.START, 0, START, ""),
        (Place.END, 0, END, ""),
        (Place.OFFSET, 15, 15, ""),
        (Place.OFFSET, 3, START, "3 is before the start"),
        (Place.OFFSET, 99, END, "99 is past the end"),
        (Place.MOMENT, MOMENT_MS, AT_MOMENT, ""),
        (Place.MOMENT, MOMENT_MS + 1, END, "nothing so late"),
        (Place.CURRENT, None, 20, ""),
        (Place.CURRENT, 5, 25, ""),
        (Place.CURRENT, -5, 15, ""),
        (Place.CURRENT, 0, 20, ""),
        (Place.CURRENT, -100, START, "-80 is before the start"),
        (Place.CURRENT, 100, END, "120 is past the end"),
    ],
)
def test_an_offset_goes_where_it_is_wished_within_the_partition(
    place: Place, number: int | None, new_offset: int, note: str
) -> None:
    wish = Wish(place, number, [("orders", [0])])
    assert planned(wish, {ONE: 20}) == [Move("orders", 0, 20, new_offset, note)]


def test_all_topics_are_those_the_group_has_offsets_of() -> None:
    assert planned(Wish(Place.START), {OTHER: 20}) == [Move("orders", 1, 20, START)]
    with pytest.raises(CommandFailed, match="the group has no offsets; say which topics with --topic"):
        planned(Wish(Place.START), {})


def test_a_topic_without_numbers_is_all_its_partitions() -> None:
    moves = planned(Wish(Place.END, 0, [("orders", None), ("orders", [0])]), {ONE: 20})
    assert moves == [Move("orders", 0, 20, END), Move("orders", 1, None, END)]


def test_what_was_never_committed_stays_at_the_end_and_cannot_be_shifted() -> None:
    choice = [("orders", [1])]
    assert planned(Wish(Place.CURRENT, None, choice), {}) == [Move("orders", 1, None, END, "never committed")]
    with pytest.raises(CommandFailed, match="orders-1 was never committed"):
        planned(Wish(Place.CURRENT, 5, choice), {})


def test_offsets_of_a_topic_that_is_gone_are_told() -> None:
    with pytest.raises(CommandFailed, match="gone-0 is not there"):
        planned(Wish(Place.START), {TopicPartition("gone", 0): 5})


def test_a_file_is_what_a_dry_run_printed_or_lines_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    wanted = {ONE: 15, OTHER: 16}
    moves = [{"group": "g", **Move("orders", 0, 1, 15)._asdict()}, {"group": "g", **Move("orders", 1, 1, 16)._asdict()}]
    for text in (
        json.dumps(moves),
        "orders,0,15\n\n# a word\norders, 1, 16\n",
        "g,orders,0,15\nother,orders,0,99\ng,orders,1,16\n",
        '\ufeff"orders",0,15\r\n"orders",1,16\r\n',
    ):
        path.write_text(text)
        assert read_file(str(path), "g") == wanted
    assert planned(Wish(Place.GIVEN, given={ONE: 15, OTHER: 99}), {}) == [
        Move("orders", 0, None, 15),
        Move("orders", 1, None, END, "99 is past the end"),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("orders,0\n", "line 1: 'orders,0' is not topic,partition,offset"),
        ("orders,0,15\norders,x,1\n", "line 2"),
        ("orders,0,-5\n", "line 1"),
        ("[{}]", "is not a list of offsets such as"),
        ("[5]", "is not a list of offsets such as"),
        ("{", "is not a list of offsets such as"),
        ("", "has no offsets for group 'g'"),
        ("other,orders,0,15\n", "has no offsets for group 'g'"),
    ],
)
def test_a_file_that_cannot_be_read_is_told(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text(text)
    with pytest.raises(CommandFailed, match=told):
        read_file(str(path), "g")
