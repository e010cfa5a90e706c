"""Spark's values as plain ones."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    DayTimeIntervalType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
    VariantVal,
)

from millstream.pipelines.history.values import labels, plain_rows

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def plain(ddl: str | DataType, value: Any) -> object:
    kind = ddl if isinstance(ddl, DataType) else None
    schema = StructType([StructField("a", kind)]) if kind else StructType.fromJson(_DDL[str(ddl)])
    return plain_rows(schema)([value])["a"]


def _field(kind: object) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": "a", "type": kind, "nullable": True, "metadata": {}}]}


#: Schemas as JSON, as DDL needs Java.
_DDL = {
    "int": _field("integer"),
    "boolean": _field("boolean"),
    "string": _field("string"),
    "binary": _field("binary"),
    "double": _field("double"),
    "decimal": _field("decimal(20,4)"),
    "date": _field("date"),
    "binaries": _field({"type": "array", "elementType": "binary", "containsNull": True}),
    "map": _field({"type": "map", "keyType": "integer", "valueType": "binary", "valueContainsNull": True}),
    "struct": _field(_field("binary")),
}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 5, 5),
        ("int", None, None),
        ("boolean", True, True),
        ("string", "x", "x"),
        ("binary", bytearray("é".encode()), "é"),
        ("binary", b"\xff\x00", "0xff00"),
        ("double", 1.5, 1.5),
        ("double", float("nan"), "NaN"),
        ("double", float("-inf"), "-Infinity"),
        ("decimal", Decimal("12.5000"), 12.5),
        ("decimal", Decimal("12.0000"), 12),
        ("decimal", Decimal("1234567890123456.7891"), "1234567890123456.7891"),
        ("date", dt.date(2026, 1, 31), "2026-01-31"),
        (TimestampNTZType(), dt.datetime(2026, 1, 31, 12), "2026-01-31T12:00:00.000"),
        (TimestampType(), NOON.astimezone().replace(tzinfo=None), "2026-01-31T12:00:00.000Z"),
        (
            TimestampType(),
            NOON.astimezone().replace(tzinfo=None, microsecond=1001),
            "2026-01-31T12:00:00.001001Z",
        ),
        (DayTimeIntervalType(), dt.timedelta(hours=1), "1:00:00"),
        (VariantType(), VariantVal.parseJson('{"b": [1, null]}'), {"b": [1, None]}),
        ("binaries", [b"x", None], ["x", None]),
        ("map", {1: b"x"}, {"1": "x"}),
        ("struct", (b"x",), {"a": "x"}),
    ],
)
def test_a_value_is_what_json_knows(kind: str | DataType, value: object, expected: object) -> None:
    assert plain(kind, value) == expected


def test_columns_of_one_name_are_told_apart() -> None:
    assert labels(["id", "x", "id", "id"]) == ["id", "x", "id_2", "id_3"]
