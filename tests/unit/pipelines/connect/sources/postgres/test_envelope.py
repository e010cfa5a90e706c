"""Changes as records."""

from typing import Any

import pytest

from millstream.pipelines.connect.postgres.catalog import Column
from millstream.pipelines.connect.postgres.pgoutput import UNCHANGED, Delete, Insert, Truncate, Update
from millstream.pipelines.connect.postgres.types import PgType
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sources.postgres.envelope import Origin, Style, TableEnvelopes

COLUMNS = (
    Column("id", PgType("int4"), False),
    Column("item", PgType("text"), False),
    Column("data", PgType("bytea")),
    Column("list", PgType("_int4", element=PgType("int4"))),
)
WORDS = Column("words", PgType("_text", element=PgType("text")))
ORIGIN = Origin(5_000_000, 77, 12, 70)


def envelopes(key: tuple[str, ...] = ("id",), **style: Any) -> TableEnvelopes:
    return TableEnvelopes("public", "t", COLUMNS, key, Style("p", "db", **style), lambda: 9_000_001)


def ops(records: list[Record]) -> list[Any]:
    return [(record.value and record.value["op"], record.key) for record in records]


def test_an_insert_is_a_create_with_its_source() -> None:
    (record,) = envelopes().change(Insert(1, ("1", "a", None, "{1}")), ORIGIN)
    assert record.topic == "p.public.t" and record.key == {"id": 1}
    assert record.value["before"] is None
    assert record.value["after"] == {"id": 1, "item": "a", "data": None, "list": [1]}
    assert (record.value["op"], record.value["ts_ms"], record.value["ts_us"]) == ("c", 9_000, 9_000_001)
    source = record.value["source"]
    assert (source["ts_ms"], source["txId"], source["lsn"], source["snapshot"]) == (5_000, 12, 77, "false")
    assert source["sequence"] == '["70","77"]'


def test_every_value_has_the_fields_of_its_schema_in_their_order() -> None:
    record = envelopes().row(("1", "a", None, None), ORIGIN)
    schema = record.value_schema
    assert schema is not None
    assert list(record.value) == [field.name for field in schema.fields]
    source = schema.field("source")
    assert source is not None and list(record.value["source"]) == [field.name for field in source.fields]


def test_a_large_value_that_is_unchanged_is_named_where_it_is_text_and_else_null() -> None:
    (record,) = envelopes().change(Update(1, None, False, ("1", UNCHANGED, UNCHANGED, UNCHANGED)), ORIGIN)
    placeholder = "__debezium_unavailable_value"
    assert record.value["after"] == {"id": 1, "item": placeholder, "data": placeholder.encode(), "list": None}
    table = TableEnvelopes("public", "t", (COLUMNS[0], WORDS), ("id",), Style("p", "db"), lambda: 0)
    (record,) = table.change(Update(1, None, False, ("1", UNCHANGED)), ORIGIN)
    assert record.value["after"] == {"id": 1, "words": [placeholder]}


def test_a_full_row_before_fills_in_what_is_unchanged() -> None:
    old = ("1", "large", "\\x00", None)
    (record,) = envelopes().change(Update(1, old, True, ("1", UNCHANGED, None, None)), ORIGIN)
    assert record.value["op"] == "u"
    assert record.value["before"]["data"] == b"\0"
    assert record.value["after"]["item"] == "large"


def test_a_new_key_ends_the_old_one() -> None:
    found = list(envelopes().change(Update(1, ("1", None, None, None), False, ("2", "a", None, None)), ORIGIN))
    assert ops(found) == [("d", {"id": 1}), (None, {"id": 1}), ("c", {"id": 2})]


@pytest.mark.parametrize(("tombstones", "count"), [(True, 2), (False, 1)])
def test_a_delete_is_followed_by_a_tombstone_unless_told_otherwise(tombstones: bool, count: int) -> None:
    found = list(envelopes(tombstones=tombstones).change(Delete(1, ("1", None, None, None), False), ORIGIN))
    assert len(found) == count
    assert found[0].value["before"] == {"id": 1, "item": "", "data": None, "list": None}


def test_a_table_without_a_key_has_records_without() -> None:
    (record,) = envelopes(key=()).change(Delete(1, ("1", "a", None, None), True), ORIGIN)
    assert (record.key, record.key_schema) == (None, None)


def test_what_is_skipped_does_not_come() -> None:
    made = envelopes(skipped=frozenset("cud"))
    for change in (Insert(1, ("1", "a", None, None)), Update(1, None, False, ("1", "a", None, None))):
        assert list(made.change(change, ORIGIN)) == []
    assert list(made.change(Delete(1, ("1", None, None, None), False), ORIGIN)) == []
    assert ops(list(made.change(Truncate((1,)), ORIGIN))) == [("t", None)]
