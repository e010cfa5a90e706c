"""Casts of fields and of whole values."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import DATE, INT32, STRING, TIMESTAMP, Schema, Type, decimal, struct
from millstream.pipelines.connect.transforms.cast import casts_of
from tests.unit.pipelines.connect.transforms.applied import schema_of, transform, value_of


@pytest.mark.parametrize(
    ("kind", "value", "cast"),
    [
        ("int8", 300, 44),
        ("int16", -40000, 25536),
        ("int32", 1e20, 2**31 - 1),
        ("int64", float("nan"), 0),
        ("int8", "-128", -128),
        ("int32", True, 1),
        ("int32", Decimal("12.9"), 12),
        ("float64", "1e3", 1000.0),
        ("float32", 0.1, 0.10000000149011612),
        ("boolean", "True", True),
        ("boolean", "yes", False),
        ("boolean", 2, True),
        ("string", 1e7, "1.0E7"),
        ("string", False, "false"),
        ("string", b"\x00\xff", "AP8="),
        ("string", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05.000Z"),
        ("string", date(2024, 1, 2), "2024-01-02"),
    ],
)
def test_a_whole_value_is_cast(kind: str, value: Any, cast: Any) -> None:
    assert value_of(transform("Cast$Value", spec=kind), value) == cast


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int8", "128"), ("int8", "x"), ("int32", "1_000"), ("float64", "one"), ("int8", [1]), ("string", {})],
)
def test_what_cannot_be_cast_is_an_error_of_that_record(kind: str, value: Any) -> None:
    with pytest.raises(DataError):
        value_of(transform("Cast$Value", spec=kind), value)


def test_fields_are_cast_with_their_schemas_and_defaults() -> None:
    level = Schema(Type.INT32, optional=True, default=7)
    schema = struct("Order", id=INT32, level=level, name=STRING)
    cast = transform("Cast$Value", spec="id:string,level:int8")
    assert value_of(cast, {"id": 5, "level": None, "name": "Ann"}, schema) == {"id": "5", "level": 7, "name": "Ann"}
    changed = schema_of(cast, {"id": 5, "level": 1, "name": "Ann"}, schema)
    assert changed == struct("Order", id=STRING, level=Schema(Type.INT8, optional=True, default=7), name=STRING)


def test_dates_are_cast_as_the_numbers_that_they_are() -> None:
    schema = struct(
        day=Schema(Type.INT32, name=DATE, version=1), at=Schema(Type.INT64, name=TIMESTAMP, version=1), price=decimal(2)
    )
    value = {"day": date(1970, 1, 3), "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "price": Decimal("2.50")}
    cast = transform("Cast$Value", spec="day:int64,at:int32,price:float64")
    assert value_of(cast, value, schema) == {"day": 2, "at": 1000, "price": 2.5}


def test_a_logical_name_goes_when_the_whole_value_is_cast() -> None:
    moment = Schema(Type.INT64, name=TIMESTAMP, version=1, doc="when")
    changed = schema_of(transform("Cast$Value", spec="string"), datetime(2024, 1, 1, tzinfo=UTC), moment)
    assert changed == Schema(Type.STRING, doc="when")


def test_keys_are_cast_and_values_left_alone() -> None:
    record = transform("Cast$Key", spec="int32").apply(Record("topic", "7", key="7"))
    assert record is not None
    assert (record.key, record.value) == (7, "7")


def test_what_is_missing_stays_missing() -> None:
    assert value_of(transform("Cast$Value", spec="int8"), None) is None


@pytest.mark.parametrize("spec", [(), ("a:",), ("a:bytes",), ("int8", "a:int8"), ("a:b:int8",), ("struct",)])
def test_a_spec_that_says_nothing_is_refused(spec: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="cast"):
        casts_of(spec)
