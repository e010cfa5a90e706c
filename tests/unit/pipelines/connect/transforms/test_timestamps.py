"""Timestamps in one form made timestamps in another."""

from datetime import UTC, date, datetime, time
from typing import Any

import pytest

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import DATE, INT32, INT64, STRING, TIME, TIMESTAMP, Schema, Type, struct
from tests.unit.pipelines.connect.transforms.applied import schema_of, transform, value_of, wrong

MOMENT = datetime(2024, 2, 29, 13, 5, 7, 89_000, UTC)
MOMENT_MS = 1_709_211_907_089
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSS"
FORMS: dict[str, tuple[Any, Schema]] = {
    "string": ("2024-02-29T13:05:07.089", STRING),
    "unix": (MOMENT_MS, INT64),
    "Date": (date(2024, 2, 29), Schema(Type.INT32, name=DATE, version=1)),
    "Time": (time(13, 5, 7, 89_000), Schema(Type.INT32, name=TIME, version=1)),
    "Timestamp": (MOMENT, Schema(Type.INT64, name=TIMESTAMP, version=1)),
}


@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("origin", ["string", "unix", "Timestamp"])
def test_every_form_is_made_of_every_whole_one(origin: str, target: str) -> None:
    convert = transform("TimestampConverter$Value", target_type=target, format=ISO)
    value, schema = FORMS[origin]
    assert value_of(convert, value) == FORMS[target][0]
    assert value_of(convert, value, schema) == FORMS[target][0]
    assert schema_of(convert, value, schema) == FORMS[target][1]


def test_a_field_is_converted_and_stays_optional() -> None:
    convert = transform("TimestampConverter$Value", target_type="unix", field="at")
    schema = struct("Row", at=FORMS["Timestamp"][1].as_optional(), n=INT32)
    assert value_of(convert, {"at": MOMENT, "n": 1}, schema) == {"at": MOMENT_MS, "n": 1}
    assert schema_of(convert, {"at": None, "n": 1}, schema) == struct("Row", at=INT64.as_optional(), n=INT32)
    assert value_of(convert, {"at": MOMENT_MS, "n": 1}) == {"at": MOMENT_MS, "n": 1}


@pytest.mark.parametrize(
    ("precision", "number"),
    [
        ("seconds", MOMENT_MS // 1000),
        ("milliseconds", MOMENT_MS),
        ("microseconds", MOMENT_MS * 1000),
        ("nanoseconds", MOMENT_MS * 1_000_000),
    ],
)
def test_numbers_count_what_they_are_said_to_count(precision: str, number: int) -> None:
    assert (
        value_of(transform("TimestampConverter$Value", target_type="unix", unix_precision=precision), MOMENT) == number
    )
    back = transform("TimestampConverter$Value", target_type="Timestamp", unix_precision=precision)
    assert abs((value_of(back, number) - MOMENT).total_seconds()) < 1


@pytest.mark.parametrize("value", ["yesterday", "", True, [1]])
def test_what_is_no_timestamp_is_an_error_of_that_record(value: Any) -> None:
    with pytest.raises(DataError):
        value_of(transform("TimestampConverter$Value", target_type="unix", format=ISO), value)


def test_a_number_of_32_bits_is_no_timestamp() -> None:
    with pytest.raises(DataError, match="does not correspond to a known timestamp type"):
        value_of(transform("TimestampConverter$Value", target_type="unix"), 5, INT32)


def test_texts_need_a_format() -> None:
    assert "requires format" in wrong("TimestampConverter$Value", target_type="string")["format"]
    with pytest.raises(DataError, match="no format"):
        value_of(transform("TimestampConverter$Value", target_type="unix"), "2024-02-29")
