"""Records as rows."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.postgres.rows import (
    UNAVAILABLE,
    Cell,
    Shape,
    row_of,
    schema_of,
    stored,
    table_of,
    type_of,
)
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import INT32, INT64, STRING, Schema, Type, decimal, struct

KEY, VALUE = struct("key", id=INT32), struct("value", id=INT32, item=STRING)


def record(value: Any = None, key: Any = None, **others: Any) -> Record:
    return Record("t", value, key, partition=3, offset=9, **others)


@pytest.mark.parametrize(
    ("table_format", "table"),
    [
        ("${topic}", (None, "a.b")),
        ("copy_${topic}", (None, "copy_a.b")),
        ("lake.${topic}", ("lake", "a.b")),
        ("fixed", (None, "fixed")),
    ],
)
def test_a_topic_s_own_dots_are_no_schema(table_format: str, table: tuple[str | None, str]) -> None:
    assert table_of("a.b", table_format) == table


def test_a_row_has_its_key_s_columns_first() -> None:
    row = row_of(record({"item": "a", "id": 1}, {"id": 1}, value_schema=VALUE, key_schema=KEY), Shape("record_key"))
    assert row is not None and row.key == ("id",) and not row.is_end
    assert {name: cell.value for name, cell in row.cells.items()} == {"id": 1, "item": "a"}
    assert list(row.cells) == ["id", "item"]


def test_only_the_fields_that_are_chosen_are_written_and_the_key_always() -> None:
    row = row_of(record({"id": 1, "a": 2, "b": 3}), Shape("record_value", ("id",), fields=("b",)))
    assert row is not None and list(row.cells) == ["id", "b"]


@pytest.mark.parametrize("value", [UNAVAILABLE, UNAVAILABLE.encode(), [UNAVAILABLE]])
def test_a_value_that_change_capture_does_not_know_is_left_as_it_is(value: Any) -> None:
    changed = record({"id": 1, "large": value, "small": 2})
    row = row_of(changed, Shape("record_value", ("id",), changes=True))
    assert row is not None and list(row.cells) == ["id", "small"] and row.is_partial
    row = row_of(changed, Shape("record_value", ("id",)))
    assert row is not None and list(row.cells) == ["id", "large", "small"] and not row.is_partial
    assert row_of(record({"id": 1, "large": value}), Shape("record_value", ("id",), changes=True)) is None


def test_a_key_that_is_no_struct_has_the_column_that_is_named_for_it() -> None:
    row = row_of(record({"a": 1}, "k"), Shape("record_key", ("name",)))
    assert row is not None and row.cells["name"].value == "k" and row.key == ("name",)


def test_a_place_is_that_of_the_record_before_transforms() -> None:
    row = row_of(record({"a": 1}, origin="was"), Shape("kafka"))
    assert row is not None and [row.cells[name].value for name in row.key] == ["was", 3, 9]


def test_a_record_without_a_value_ends_the_row() -> None:
    row = row_of(record(None, {"id": 1}), Shape("record_key", deletes=True))
    assert row is not None and row.is_end and row.cells["id"].value == 1


def test_an_envelope_is_opened_by_its_schema_s_name() -> None:
    envelope = struct("t.Envelope", before=VALUE, after=VALUE, op=STRING)
    value = {"before": None, "after": {"id": 1, "item": "a"}, "op": "c"}
    row = row_of(record(value, value_schema=envelope), Shape())
    assert row is not None and row.cells["item"] == Cell(STRING, "a")
    gone = {"before": {"id": 1, "item": ""}, "after": None, "op": "d"}
    row = row_of(record(gone, {"id": 1}, value_schema=envelope), Shape("record_key", deletes=True))
    assert row is not None and row.is_end


def test_a_truncate_is_no_row() -> None:
    value: dict[str, Any] = {"before": None, "after": None, "source": {}, "op": "t"}
    assert row_of(record(value), Shape()) is None


@pytest.mark.parametrize(
    ("made", "shape", "words"),
    [
        (record("text"), Shape(), "no struct but str"),
        (record(None, {"id": 1}), Shape("record_key"), "delete.enabled is false"),
        (record({"a": 1}), Shape("record_key"), "has no key"),
        (record({"a": 1}, "k"), Shape("record_key"), "pk.fields must name"),
        (record({"a": 1}, {"id": None}), Shape("record_key"), "'id' is null"),
        (record({"a": 1}), Shape("record_value", ("b",)), "no field 'b'"),
    ],
)
def test_a_record_without_what_is_asked_for_is_refused(made: Record, shape: Shape, words: str) -> None:
    with pytest.raises(DataError, match=words):
        row_of(made, shape)


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (INT64, "BIGINT"),
        (decimal(2), "NUMERIC"),
        (Schema(Type.ARRAY, values=STRING), "TEXT[]"),
        (Schema(Type.ARRAY, values=VALUE), "JSONB"),
        (VALUE, "JSONB"),
        (Schema(Type.INT64, name="io.debezium.time.MicroTimestamp"), "TIMESTAMP"),
        (schema_of([1]), "JSONB"),
        (schema_of(True), "BOOLEAN"),
        (schema_of(datetime.now(UTC)), "TIMESTAMP"),
    ],
)
def test_columns_have_types_for_what_they_hold(schema: Schema, kind: str) -> None:
    assert type_of(schema) == kind


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("Date", 10, date(1970, 1, 11)),
        ("MicroTime", 1_500_000, time(0, 0, 1, 500_000)),
        ("Time", 1_500, time(0, 0, 1, 500_000)),
        ("MicroTimestamp", 2, datetime(1970, 1, 1, 0, 0, 0, 2, UTC)),
        ("Timestamp", 2, datetime(1970, 1, 1, 0, 0, 0, 2000, UTC)),
    ],
)
def test_debezium_s_times_are_times_again(name: str, value: int, kept: Any) -> None:
    assert stored(Cell(Schema(Type.INT64, name=f"io.debezium.time.{name}"), value)) == kept


def test_what_is_no_plain_value_is_json() -> None:
    assert stored(Cell(VALUE, {"a": Decimal("1.5"), "b": b"\0"})) == '{"a": "1.5", "b": "00"}'
    assert stored(Cell(schema_of([1]), [1, {"a": 2}])) == '[1, {"a": 2}]'
    assert stored(Cell(Schema(Type.ARRAY, values=INT32), [1, 2])) == [1, 2]


def test_what_cannot_be_kept_is_refused() -> None:
    with pytest.raises(DataError, match="NUL"):
        stored(Cell(STRING, "a\0"))
    with pytest.raises(DataError, match=r"no io\.debezium\.time\.Date"):
        stored(Cell(Schema(Type.INT32, name="io.debezium.time.Date"), "x"))
