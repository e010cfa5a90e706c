"""Where records belong, without a lake."""

import datetime
from typing import Any

import pytest

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sinks.lake import options
from millstream.pipelines.connect.sinks.lake.partitioning import Partitioner, folders, partitioner


def made(is_table: bool = False, **given: str) -> Partitioner:
    named = {name.replace("_", "."): text for name, text in given.items()}
    config, errors = parse(options.COMMON, {"store.url": "/lake", **named})
    assert not errors, errors
    assert not options.complaints(config, is_table=is_table)
    return partitioner(config, is_table=is_table)


def path(by: Partitioner, value: Any, timestamp_ms: int | None = 0, now_ms: int = 0) -> str:
    record = Record("orders", value, partition=3, offset=0, timestamp_ms=timestamp_ms)
    return folders(by.place(record, value, now_ms))


def test_files_lie_by_the_topics_partitions_and_tables_have_none() -> None:
    assert path(made(), {}) == "partition=3"
    assert path(made(is_table=True), {}) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NL", "f=NL"),
        (5, "f=5"),
        (True, "f=true"),
        (datetime.date(2026, 11, 16), "f=2026-11-16"),
        (None, "f=__HIVE_DEFAULT_PARTITION__"),
        ("../x", "f=..%2Fx"),
        ("", "f="),
    ],
)
def test_a_fields_value_is_a_folder_and_never_leads_out_of_it(value: Any, expected: str) -> None:
    assert path(made(partitioner_class="FieldPartitioner", partition_field_name="f"), {"f": value}) == expected


@pytest.mark.parametrize("value", [1.5, ["x"], b"x", datetime.datetime(2026, 1, 1), "x" * 300])
def test_what_no_folder_can_be_called_is_refused(value: Any) -> None:
    with pytest.raises(DataError, match="field f: "):
        path(made(partitioner_class="FieldPartitioner", partition_field_name="f"), {"f": value})


def test_time_is_the_moment_of_writing_or_the_records() -> None:
    daily = "DailyPartitioner"
    assert path(made(partitioner_class=daily), {}, 0, 86_400_000) == "year=1970/month=01/day=02"
    by_record = made(partitioner_class=daily, timestamp_extractor="Record")
    assert path(by_record, {}, -1) == "year=1969/month=12/day=31"
    with pytest.raises(DataError, match="the record has no timestamp"):
        path(by_record, {}, None)


@pytest.mark.parametrize(
    "value",
    [3_600_000, 3_600_000.5, "1970-01-01T01:00:00", "1970-01-01T02:00:00+01:00", datetime.datetime(1970, 1, 1, 1)],
)
def test_a_field_may_say_its_time_in_many_ways(value: Any) -> None:
    by = made(partitioner_class="HourlyPartitioner", timestamp_extractor="RecordField", timestamp_field="at")
    assert path(by, {"at": value}) == "year=1970/month=01/day=01/hour=01"


@pytest.mark.parametrize("value", [None, True, "soon", 10**30, [1]])
def test_what_is_no_time_is_refused(value: Any) -> None:
    by = made(partitioner_class="HourlyPartitioner", timestamp_extractor="RecordField", timestamp_field="at")
    with pytest.raises(DataError):
        path(by, {"at": value})


def test_spans_begin_by_the_clock_of_their_zone() -> None:
    by = made(
        partitioner_class="io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        partition_duration_ms="86400000",
        path_format="'dt'=YYYY-MM-dd-HH",
        timezone="Asia/Kolkata",
        timestamp_extractor="Record",
    )
    assert path(by, {}, 18 * 3_600_000) == "dt=1970-01-01-00"
    assert path(by, {}, 19 * 3_600_000) == "dt=1970-01-02-00"
