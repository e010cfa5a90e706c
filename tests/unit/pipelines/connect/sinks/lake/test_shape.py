"""Shapes of tables: what they become, and what fits into them."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millstream.pipelines.connect.schema import INT32, STRING, Schema, Type, decimal, struct
from millstream.pipelines.connect.sinks.lake.fitting import Misfit
from millstream.pipelines.connect.sinks.lake.shape import Dialect, Struct
from millstream.pipelines.connect.sinks.lake.types import of_schema


def shape(**settled: Any) -> Struct:
    made = Struct(Dialect())
    made.grow_fields([pa.field(name, kind) for name, kind in settled.items()], True)
    made.keep()
    return made


def kind_of(*values: Any) -> Any:
    made = shape()
    for value in values:
        made.take({"f": value})
    return made.kind.field("f").type if made.kind is not None else None


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1], pa.int64()),
        ([1, 0.5], pa.float64()),
        ([0.5, 1], pa.float64()),
        ([True], pa.bool_()),
        ([None, "x"], pa.string()),
        ([Decimal("1.50")], pa.decimal128(38, 2)),
        ([datetime.datetime(2026, 1, 1)], pa.timestamp("us", "UTC")),
        ([[], [1], [0.5]], pa.list_(pa.float64())),
        ([{"a": 1}, {"b": ["x"]}], pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        ([None], None),
        ([[]], None),
        ([{}], None),
        ([{"a": []}], None),
    ],
)
def test_values_without_a_schema_make_a_column_of(values: list[Any], kind: Any) -> None:
    assert kind_of(*values) == kind


@pytest.mark.parametrize(
    "values",
    [(1, "x"), ("x", 1), (1, True), ([1], 1), ({"a": 1}, [1]), (2**53 + 1, 0.5), (2**63,), ("\ud800",), (object(),)],
)
def test_values_that_have_no_column_in_common_are_refused(values: tuple[Any, ...]) -> None:
    with pytest.raises(Misfit, match="field f: "):
        kind_of(*values)


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        (pa.int32(), 5.0, 5),
        (pa.int16(), -32768, -32768),
        (pa.float64(), 5, 5.0),
        (pa.decimal128(5, 2), 12, Decimal(12)),
        (pa.decimal128(5, 2), Decimal("1.500"), Decimal("1.500")),
        (pa.binary(), bytearray(b"x"), b"x"),
        (pa.string(), datetime.time(1, 2), "01:02:00"),
        (pa.map_(pa.string(), pa.int64()), {"a": 1}, [("a", 1)]),
    ],
)
def test_values_go_into_a_settled_column_where_nothing_is_lost(kind: Any, value: Any, taken: Any) -> None:
    assert shape(f=kind).take({"f": value}) == {"f": taken}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 2**31),
        (pa.int32(), 0.5),
        (pa.int64(), True),
        (pa.float64(), 2**53 + 1),
        (pa.decimal128(5, 2), Decimal("1.234")),
        (pa.decimal128(5, 2), Decimal(1000)),
        (pa.decimal128(5, 2), Decimal("NaN")),
        (pa.string(), 1),
        (pa.date32(), datetime.datetime(2026, 1, 1)),
        (pa.map_(pa.string(), pa.int64()), {None: 1}),
    ],
)
def test_values_that_would_lose_something_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(Misfit, match="field f: "):
        shape(f=kind).take({"f": value})


def test_what_a_column_must_have_is_asked_for() -> None:
    made = Struct(Dialect())
    made.grow_fields([pa.field("f", pa.int64(), nullable=False)], True)
    with pytest.raises(Misfit, match="field f has no value, and its column must have one"):
        made.take({"f": None})
    assert made.fields == [pa.field("f", pa.int64(), nullable=False)]


def test_growth_may_be_taken_back() -> None:
    made = shape(f=pa.int64())
    made.take({"g": 1})
    made.keep()
    made.take({"g": 0.5, "H": {"a": [1]}})
    made.shrink()
    assert made.fields == [pa.field("f", pa.int64()), pa.field("g", pa.int64())]
    made.take({"h": "x"})
    assert [field.name for field in made.fields] == ["f", "g", "h"]


def test_a_schema_may_say_more_than_the_one_before_it() -> None:
    made = Struct(Dialect())
    made.grow(of_schema(struct(a=INT32, b=struct(c=STRING))), False)
    made.grow(of_schema(struct(a=Schema(Type.INT64), b=struct(c=STRING, d=decimal(2)))), False)
    inner = pa.struct([("c", pa.string()), ("d", pa.decimal128(38, 2))])
    assert made.fields == [pa.field("a", pa.int64()), pa.field("b", inner)]
    with pytest.raises(Misfit, match=r"field b\.c: is int32 here, and string elsewhere"):
        made.grow(of_schema(struct(b=struct(c=INT32))), False)
