"""What the test driver writes for a record, without Spark."""

import struct
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from millstream.pipelines.streams.driver import _encoded, _seconds
from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats import make_format

TWO = StructType([StructField("a", StringType()), StructField("b", LongType())])
ONE = StructType([StructField("n", LongType())])


def test_fields_are_written_in_the_topics_format() -> None:
    assert _encoded(make_format("json", TWO, {}), {"a": Decimal("1.5"), "b": 2}) == b'{"a": "1.5", "b": 2}'
    assert _encoded(make_format("csv", TWO, {}), {"b": 2, "a": "x,y"}) == b'"x,y",2'
    assert _encoded(make_format("raw", ONE, {}), -2) == struct.pack(">q", -2)


def test_bytes_and_nothing_are_left_as_they_are() -> None:
    assert _encoded(make_format("json", TWO, {}), b"broken") == b"broken"
    assert _encoded(make_format("json", TWO, {}), None) is None
    assert _encoded(None, "text") == b"text"
    with pytest.raises(StreamsError, match="takes bytes or text"):
        _encoded(None, 5)


def test_moments_are_utc_unless_they_say_otherwise() -> None:
    assert _seconds("1970-01-01 00:01") == _seconds(60) == _seconds(datetime(1970, 1, 1, 0, 1, tzinfo=UTC)) == 60
    assert _seconds("1970-01-01T01:00+01:00") == 0
