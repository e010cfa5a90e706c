"""Numbers as Kafka's own serializers write them."""

from typing import Any

import pytest

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.converters.base import Data
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import Schema, Type
from tests.unit.pipelines.connect.converters.made import made

KINDS: list[tuple[str, Type, Any, bytes]] = [
    ("ShortConverter", Type.INT16, -2, b"\xff\xfe"),
    ("IntegerConverter", Type.INT32, 258, b"\x00\x00\x01\x02"),
    ("LongConverter", Type.INT64, -1, b"\xff" * 8),
    ("FloatConverter", Type.FLOAT32, 1.5, b"\x3f\xc0\x00\x00"),
    ("DoubleConverter", Type.FLOAT64, 1.5, b"\x3f\xf8" + bytes(6)),
    ("BooleanConverter", Type.BOOLEAN, True, b"\x01"),
]


@pytest.mark.parametrize(("name", "kind", "value", "data"), KINDS)
def test_a_number_is_a_few_bytes(name: str, kind: Type, value: Any, data: bytes) -> None:
    converter = made(plugins.converter(f"org.apache.kafka.connect.converters.{name}"))
    schema = Schema(kind, optional=True)
    assert converter.encode("t", schema, value) == data
    assert converter.decode("t", data) == Data(schema, value)
    assert converter.encode("t", schema, None) is None
    assert converter.decode("t", None) == Data(schema, None)
    for wrong in ("1", 2**64, b"1", 5 if kind is Type.BOOLEAN else False):
        if kind in (Type.FLOAT64, Type.FLOAT32) and wrong == 2**64:
            continue
        with pytest.raises(DataError):
            converter.encode("t", schema, wrong)
    for short in (data[1:], data + b"\x00"):
        with pytest.raises(DataError):
            converter.decode("t", short)


def test_a_byte_that_is_no_truth_is_refused() -> None:
    with pytest.raises(DataError):
        made(plugins.converter("BooleanConverter")).decode("t", b"\x02")
