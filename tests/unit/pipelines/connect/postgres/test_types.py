"""What text of PostgreSQL's means."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.postgres.types import Mapping, PgType, array_items, codec_of, precision_and_scale
from millstream.pipelines.connect.schema import Type

CONNECT = Mapping()
ADAPTIVE = Mapping(times="adaptive", names_text=True, unlimited="variable")


def modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale & 0x7FF) + 4


@pytest.mark.parametrize(
    ("kind", "text", "value", "schema_type"),
    [
        ("bool", "t", True, Type.BOOLEAN),
        ("bool", "f", False, Type.BOOLEAN),
        ("int2", "-5", -5, Type.INT16),
        ("int8", "9007199254740993", 9007199254740993, Type.INT64),
        ("float4", "0.5", 0.5, Type.FLOAT32),
        ("float8", "Infinity", float("inf"), Type.FLOAT64),
        ("bytea", "\\x00ff", b"\0\xff", Type.BYTES),
        ("bytea", "\\x", b"", Type.BYTES),
        ("mood", "bad", "bad", Type.STRING),
        ("interval", "P1DT2H", "P1DT2H", Type.STRING),
        ("date", "2024-02-29", date(2024, 2, 29), Type.INT32),
        ("date", "infinity", date.max, Type.INT32),
        ("date", "-infinity", date.min, Type.INT32),
        ("date", "0044-03-15 BC", date.min, Type.INT32),
        ("time", "23:59:59.5", time(23, 59, 59, 500_000), Type.INT32),
        ("time", "24:00:00", time.max, Type.INT32),
        ("timestamp", "2024-02-29 01:02:03.4", datetime(2024, 2, 29, 1, 2, 3, 400_000, UTC), Type.INT64),
        ("timestamptz", "2024-02-29 01:02:03+00", datetime(2024, 2, 29, 1, 2, 3, 0, UTC), Type.INT64),
        ("timestamp", "10000-01-01 00:00:00", datetime.max.replace(tzinfo=UTC), Type.INT64),
    ],
)
def test_values_are_what_connect_has_for_them(kind: str, text: str, value: Any, schema_type: Type) -> None:
    codec = codec_of(PgType(kind), CONNECT)
    assert codec.load(text) == value
    assert codec.schema.type is schema_type


@pytest.mark.parametrize(
    ("kind", "size", "text", "value", "name"),
    [
        ("date", -1, "1970-01-11", 10, "io.debezium.time.Date"),
        ("time", -1, "00:00:01.5", 1_500_000, "io.debezium.time.MicroTime"),
        ("time", 3, "24:00:00", 86_400_000, "io.debezium.time.Time"),
        ("timestamp", -1, "1970-01-01 00:00:01.000002", 1_000_002, "io.debezium.time.MicroTimestamp"),
        ("timestamp", 3, "1970-01-01 00:00:01.002", 1_002, "io.debezium.time.Timestamp"),
        ("timestamptz", -1, "1970-01-01 00:00:01+00", "1970-01-01T00:00:01Z", "io.debezium.time.ZonedTimestamp"),
        ("jsonb", -1, '{"a": 1}', '{"a": 1}', "io.debezium.data.Json"),
        ("uuid", -1, "0-0", "0-0", "io.debezium.data.Uuid"),
    ],
)
def test_values_are_what_debezium_has_for_them(kind: str, size: int, text: str, value: Any, name: str) -> None:
    codec = codec_of(PgType(kind, size), ADAPTIVE)
    assert codec.load(text) == value
    assert codec.schema.name == name


def test_numbers_keep_every_digit() -> None:
    codec = codec_of(PgType("numeric", modifier(60, 20)), CONNECT)
    text = "1234567890123456789012345678901234567890.12345678901234567890"
    assert codec.load(text) == Decimal(text)
    assert codec.load("1.5").as_tuple().exponent == -20
    assert codec.load("NaN") is None
    assert codec.schema.parameters == (("scale", "20"),)


def test_numbers_without_limits_are_text_or_carry_their_scale() -> None:
    assert codec_of(PgType("numeric"), CONNECT).load("1e3") == "1e3"
    variable = codec_of(PgType("numeric"), ADAPTIVE)
    assert variable.schema.name == "io.debezium.data.VariableScaleDecimal"
    for text, scale in (("-1.28", 2), ("128", 0), ("0", 0), ("12300", 0), ("0.001", 3)):
        found = variable.load(text)
        assert found["scale"] == scale
        unscaled = int.from_bytes(found["value"], "big", signed=True)
        assert Decimal(unscaled).scaleb(-scale) == Decimal(text)


@pytest.mark.parametrize(
    ("decimals", "precision", "scale", "text", "value"),
    [
        ("double", 8, 2, "1.25", 1.25),
        ("string", 8, 2, "1.25", "1.25"),
        ("best_fit", 8, 0, "7", 7),
        ("best_fit", 8, 2, "1.25", 1.25),
        ("best_fit", 30, 0, "123456789012345678901", Decimal("123456789012345678901")),
        ("precise", 4, -2, "12300", Decimal("12300")),
    ],
)
def test_numbers_are_what_is_asked_for(decimals: str, precision: int, scale: int, text: str, value: Any) -> None:
    assert codec_of(PgType("numeric", modifier(precision, scale)), Mapping(decimals=decimals)).load(text) == value


def test_precision_and_scale_are_in_the_modifier() -> None:
    assert precision_and_scale(-1) is None
    assert precision_and_scale(modifier(8, 2)) == (8, 2)
    assert precision_and_scale(modifier(4, -2)) == (4, -2)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{1,NULL,3}", ["1", None, "3"]),
        ('{"NULL","a,b","say \\"x\\"","back\\\\slash","","{}"}', ["NULL", "a,b", 'say "x"', "back\\slash", "", "{}"]),
        ("[0:1]={5,6}", ["5", "6"]),
        ("{{1,2},{3,4}}", ["1", "2", "3", "4"]),
    ],
)
def test_arrays_are_taken_apart(text: str, items: list[str | None]) -> None:
    assert list(array_items(text)) == items


def test_an_array_s_items_are_of_its_element_s_type() -> None:
    codec = codec_of(PgType("_int4", element=PgType("int4")), CONNECT)
    assert codec.load("{1,NULL}") == [1, None]
    assert codec.schema.values is not None and codec.schema.values.optional
