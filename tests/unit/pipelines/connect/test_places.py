"""Where sources are, as checkpoints and the topic of offsets keep it."""

from typing import Any

import pytest

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Source
from millstream.pipelines.connect.job import Place
from millstream.pipelines.connect.places import document_of, key_of, moved, places_of, value_of

A: Place = {"partition": {"filename": "a", "zone": "é"}, "offset": {"position": 3}}
B: Place = {"partition": {"filename": "b"}, "offset": {"position": 7}}


def test_places_survive_a_document_whatever_their_order() -> None:
    document = document_of([B, A])
    assert list(document) == list(document_of([A, B]))
    assert sorted(places_of(document), key=str) == sorted([A, B], key=str)


def test_a_partition_has_one_text_however_its_names_are_ordered() -> None:
    turned: Place = {"partition": {"zone": "é", "filename": "a"}, "offset": {"position": 3}}
    assert document_of([turned]) == document_of([A])
    assert key_of("c", turned["partition"]) == key_of("c", A["partition"])


def test_a_place_before_the_beginning_is_not_named() -> None:
    assert document_of([{"partition": {"filename": "a"}, "offset": None}]) == {}


def test_what_moved_is_what_is_new_or_another() -> None:
    later: Place = {"partition": {"filename": "b"}, "offset": {"position": 9}}
    assert moved(document_of([A, B]), document_of([A, later])) == [later]
    assert moved({}, document_of([B])) == [B]
    assert moved(document_of([B]), document_of([B])) == []


def test_the_topic_of_offsets_is_written_as_connect_writes_it() -> None:
    assert key_of("local-file", {"filename": "test.txt"}) == b'["local-file",{"filename":"test.txt"}]'
    assert value_of({"position": 12}) == b'{"position":12}'
    assert value_of(None) is None


@pytest.mark.parametrize(
    ("name", "partition", "offset", "complaint"),
    [
        ("FileSource", {"filename": "a"}, {"position": 3}, ""),
        ("FileSource", {"file": "a"}, {"position": 3}, 'partition {"file":"a"} must have \'filename\', a text'),
        (
            "FileSource",
            {"filename": "a"},
            {"position": "zero"},
            'offset {"position":"zero"} must have \'position\', a whole number, 0 or more',
        ),
        ("FileSource", {"filename": "a"}, {"position": True}, "offset"),
        ("FileSource", {"filename": "a"}, {"position": -1}, "offset"),
        ("FileSource", {"filename": "a"}, {}, "offset"),
        ("GeneratorSource", {"generator": 0}, {"count": 5, "ms": 1}, ""),
        ("GeneratorSource", {"generator": 0}, {"count": 5}, "offset"),
        ("GeneratorSource", {"generator": "0"}, {"count": 5, "ms": 1}, "partition"),
        ("PostgresSource", {"server": "shop"}, {"lsn": 5}, ""),
        ("PostgresSource", {"server": "shop"}, {"lsn": "0/5"}, "offset"),
        ("PostgresSource", {"server": "shop"}, {"lsn": 5, "snapshot": True}, "offset"),
        ("PostgresSource", {}, {"lsn": 5}, "partition"),
        ("JdbcSource", {"protocol": "1", "table": "shop.public.orders"}, {"incrementing": -5}, ""),
        ("JdbcSource", {"query": "query"}, {"timestamp": 5, "timestamp_nanos": 0}, ""),
        ("JdbcSource", {"query": "query"}, {"timestamp": "today"}, "offset"),
        ("JdbcSource", {"tables": "orders"}, {"incrementing": 5}, "partition"),
    ],
)
def test_a_source_says_where_it_could_not_go_on(
    name: str, partition: dict[str, Any], offset: dict[str, Any], complaint: str
) -> None:
    source = plugins.connector(name)
    assert issubclass(source, Source)
    said = source.check_place(partition, offset)
    assert said.startswith(complaint) and bool(said) == bool(complaint)
