"""Values as text, whose schema is guessed when they are read."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.literals import parse_literal, write_literal
from millstream.pipelines.connect.schema import Type


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("12", Type.INT8, 12),
        ("-300", Type.INT16, -300),
        ("70000", Type.INT32, 70000),
        ("1.5", Type.FLOAT32, 1.5),
        ("1e300", Type.FLOAT64, 1e300),
        ("9223372036854775808", Type.BYTES, Decimal(2**63)),
        ("true", Type.BOOLEAN, True),
        ("2024-02-29", Type.INT32, date(2024, 2, 29)),
        ("2024-02-30", Type.STRING, "2024-02-30"),
        ("13:05:07.089Z", Type.INT32, time(13, 5, 7, 89_000)),
        ("2024-02-29T13:05:07.089Z", Type.INT64, datetime(2024, 2, 29, 13, 5, 7, 89_000, UTC)),
        ("[1, 300]", Type.ARRAY, [1, 300]),
        ('{"a": [1.5]}', Type.MAP, {"a": [1.5]}),
        ("[1,null]", Type.STRING, "[1,null]"),
        ("[1,2] and more", Type.STRING, "[1,2] and more"),
        ("12:30", Type.STRING, "12:30"),
        ("1_000", Type.STRING, "1_000"),
        ("", Type.STRING, ""),
        ("[" * 5000, Type.STRING, "[" * 5000),
        ("1e99999999999999999999", Type.STRING, "1e99999999999999999999"),
    ],
)
def test_a_literal_is_what_it_looks_like(text: str, kind: Type, value: Any) -> None:
    schema, found = parse_literal(text)
    assert schema is not None
    assert (schema.type, found) == (kind, value)


def test_null_has_no_schema() -> None:
    assert parse_literal("null") == (None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        (["a", 1, None], '["a",1,null]'),
        ({"a": 'b"\\'}, '{"a":"b\\"\\\\"}'),
        (b"\x00", "AA=="),
        (date(2024, 2, 29), "2024-02-29"),
        (1.5, "1.5"),
    ],
)
def test_values_are_written(value: Any, text: str) -> None:
    assert write_literal(None, value) == text
