"""Transforms of a record's place and headers, and predicates."""

import pytest

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.logical import timestamp_of
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import INT32, STRING, TIMESTAMP, Field, Schema, Type, struct
from tests.unit.pipelines.connect.transforms.applied import transform, wrong

HEADERS = [Header("a", 1), Header("b", 2), Header("a", 3)]


def record(**changes: object) -> Record:
    found = Record("shop.orders", {"id": 5}, partition=3, offset=42, timestamp_ms=1_709_211_907_089)
    found.headers = list(HEADERS)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_a_record_is_told_where_it_comes_from() -> None:
    insert = transform(
        "InsertField$Value",
        topic_field="t",
        partition_field="p!",
        offset_field="o",
        timestamp_field="at",
        static_field="s?",
        static_value="x",
    )
    changed = insert.apply(record())
    assert changed is not None
    assert changed.value == {"id": 5, "t": "shop.orders", "p": 3, "o": 42, "at": 1_709_211_907_089, "s": "x"}
    changed = insert.apply(record(value_schema=struct(id=INT32)))
    assert changed is not None
    assert changed.value["at"] == timestamp_of(1_709_211_907_089)
    assert changed.value_schema is not None
    assert changed.value_schema.fields[2] == Field("p", INT32)
    assert changed.value_schema.field("at") == Schema(Type.INT64, optional=True, name=TIMESTAMP, version=1)


def test_only_records_of_topics_have_an_offset() -> None:
    with pytest.raises(DataError, match="Only SinkRecord"):
        transform("InsertField$Value", offset_field="o").apply(record(offset=None))


def test_insertions_that_insert_nothing_are_refused() -> None:
    assert wrong("InsertField$Value") == {"topic.field": "No field insertion configured"}
    assert wrong("InsertField$Value", static_field="s") == {"static.value": "No value specified for static field: s"}


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        (r"shop\.(.*)", "store-$1", "store-orders"),
        ("orders", "x", "shop.orders"),
        (r"(?<a>\w+)\.(?<b>\w+)", "${b}.${a}", "orders.shop"),
        (r"(\p{Alpha})(.*)", r"\$1$2", "$1hop.orders"),
    ],
)
def test_topics_that_match_are_renamed(regex: str, replacement: str, topic: str) -> None:
    changed = transform("RegexRouter", regex=regex, replacement=replacement).apply(record())
    assert changed is not None
    assert changed.topic == topic


def test_a_topic_is_named_by_the_records_time() -> None:
    changed = transform("TimestampRouter", topic_format="${topic}_${timestamp}").apply(record())
    assert changed is not None
    assert changed.topic == "shop.orders_20240229"
    with pytest.raises(DataError, match="Timestamp missing"):
        transform("TimestampRouter").apply(record(timestamp_ms=None))


def test_filtered_records_are_gone() -> None:
    assert transform("Filter").apply(record()) is None


def test_headers_are_dropped_and_inserted() -> None:
    changed = transform("DropHeaders", headers="a").apply(record())
    assert changed is not None
    assert changed.headers == [Header("b", 2)]
    changed = transform("InsertHeader", header="n", value_literal="12").apply(record())
    assert changed is not None
    assert changed.headers == [*HEADERS, Header("n", 12, Schema(Type.INT8))]


def test_fields_become_headers() -> None:
    moved = transform("HeaderFrom$Value", fields="id,x", headers="h,i", operation="move").apply(
        record(value={"id": 5, "y": 6})
    )
    assert moved is not None
    assert (moved.value, moved.headers[3:]) == ({"y": 6}, [Header("h", 5), Header("i", None)])
    schema = struct("Row", id=INT32, name=STRING)
    copied = transform("HeaderFrom$Key", fields="id", headers="h", operation="copy").apply(
        record(key={"id": 5, "name": "Ann"}, key_schema=schema)
    )
    assert copied is not None
    assert (copied.key_schema, copied.headers[3:]) == (schema, [Header("h", 5, INT32)])
    assert "same number" in wrong("HeaderFrom$Value", fields="a,b", headers="h", operation="copy")["headers"]


def test_a_given_record_is_never_changed() -> None:
    before = record()
    transform("HeaderFrom$Value", fields="id", headers="h", operation="move").apply(before)
    transform("InsertField$Value", topic_field="t").apply(before)
    transform("InsertHeader", header="n", value_literal="12").apply(before)
    assert before == record()


@pytest.mark.parametrize(
    ("name", "options", "holds"),
    [
        ("HasHeaderKey", {"name": "a"}, True),
        ("HasHeaderKey", {"name": "c"}, False),
        ("RecordIsTombstone", {}, False),
        ("TopicNameMatches", {"pattern": "shop.*"}, True),
        ("TopicNameMatches", {"pattern": "shop"}, False),
    ],
)
def test_predicates_say_which_records_are_meant(name: str, options: dict[str, str], holds: bool) -> None:
    found = plugins.predicate(name)
    assert found(parse(found.options, options)[0]).test(record()) is holds


def test_a_record_without_a_value_is_a_tombstone() -> None:
    found = plugins.predicate("RecordIsTombstone")
    assert found(parse(found.options, {})[0]).test(record(value=None))
