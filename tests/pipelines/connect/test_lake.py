"""Lake sinks, driven as Spark drives them and read back by others: DuckDB, pyarrow, deltalake, pyiceberg."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import ConnectError, DataError, Unreachable
from millstream.pipelines.connect.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    decimal,
    struct,
)
from tests.pipelines.connect.lakes import QUERY, SINKS, Lake, Rows, config_of, records

UTC = datetime.UTC
pytestmark = pytest.mark.parametrize("kind", list(SINKS))


def by(name: str, rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row[name])


def ids(lake: Lake, topic: str = "orders") -> list[int]:
    return sorted(row["id"] for row in lake.rows(topic))


def numbered(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": number, **more} for number in numbers]


def test_what_tasks_wrote_is_in_the_table_once_the_batch_is_committed(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    parts = lake.write(records(numbered(1, 2)), records(numbered(3), partition=1), [], number=0)
    assert not lake.files() or kind != "parquet"
    lake.sink.commit(Batch(QUERY, 0), parts)
    assert ids(lake) == [1, 2, 3]
    lake.put(records(numbered(4), offset=2), number=1)
    assert ids(lake) == [1, 2, 3, 4]
    assert lake.left() == []


def test_a_batch_that_was_committed_and_comes_again_changes_nothing(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records(numbered(1, 2)), number=0)
    for _ in range(2):
        lake.put(records(numbered(3), offset=2), number=1)
    assert ids(lake) == [1, 2, 3]
    lake.put(records(numbered(4), offset=3), number=2)
    assert ids(lake) == [1, 2, 3, 4]
    assert len(lake.files()) == 3, "what the second attempt wrote was not swept"
    assert lake.left() == []


def test_files_of_a_dead_attempt_are_never_read_and_are_swept(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.write(records(numbered(1, 2)), number=0)
    lake.put(records(numbered(1, 2)), number=0)
    assert ids(lake) == [1, 2]
    lake.put(records(numbered(3), offset=2), number=1)
    assert ids(lake) == [1, 2, 3]
    assert len(lake.files()) == 2
    assert lake.left() == []


def test_another_query_begins_its_numbers_anew(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records(numbered(1)), number=5, query="before")
    lake.put(records(numbered(2)), number=0, query="after")
    assert ids(lake) == [1, 2]


class _Killed(BaseException):
    """What stands for the end of the process."""


def _dies_at(step: int, real: Callable[..., Any], counted: list[int]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        counted[0] += 1
        if counted[0] == step:
            raise _Killed
        return real(*arguments, **named)

    return call


def test_a_commit_may_die_at_any_step_and_be_done_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that changes a file in the commit is the last one, in one run after another."""
    from millstream.pipelines.connect.sinks.lake.store import Store

    for step in range(1, 40):
        lake = Lake(kind, tmp_path / str(step))
        lake.put(records(numbered(1)), number=0)
        tasks = [records(numbered(2), 1), records(numbered(3, 4), partition=1)]
        parts = lake.write(*tasks, number=1)
        counted = [0]
        with monkeypatch.context() as patched:
            for name in ("put", "move", "delete", "delete_folder"):
                patched.setattr(Store, name, _dies_at(step, getattr(Store, name), counted))
            try:
                lake.sink.commit(Batch(QUERY, 1), parts)
                is_over = True
            except _Killed:
                is_over = False
        lake.put(*tasks, number=1)
        assert ids(lake) == [1, 2, 3, 4], f"step {step}"
        lake.put(records(numbered(5), 2), number=2)
        assert ids(lake) == [1, 2, 3, 4, 5], f"step {step}"
        assert lake.left() == []
        if is_over:
            assert step > 2
            return
    raise AssertionError("a commit has no end")


def test_everything_that_schemas_can_say_is_read_back(kind: str, tmp_path: Path) -> None:
    schema = struct(
        small=Schema(Type.INT16),
        number=INT64,
        real=FLOAT64,
        half=Schema(Type.FLOAT32),
        flag=BOOLEAN,
        text=STRING,
        raw=BYTES,
        price=decimal(2),
        day=Schema(Type.INT32, name=DATE),
        clock=Schema(Type.INT32, name=TIME),
        at=Schema(Type.INT64, name=TIMESTAMP),
        tags=Schema(Type.ARRAY, values=STRING),
        counts=Schema(Type.MAP, keys=STRING, values=INT64),
        inner=struct(x=INT32, more=Schema(Type.ARRAY, values=struct(y=STRING))),
        missing=STRING.as_optional(),
    )
    value = {
        "small": -3,
        "number": 2**62,
        "real": 0.1,
        "half": 0.5,
        "flag": True,
        "text": "naïve 雪",
        "raw": b"\x00\xff",
        "price": Decimal("12345678901234567890.10"),
        "day": datetime.date(1969, 12, 31),
        "clock": datetime.time(23, 59, 59, 999000),
        "at": datetime.datetime(2026, 11, 16, 3, 4, 5, 678000, tzinfo=UTC),
        "tags": ["a", None],
        "counts": {"one": 1, "none": None},
        "inner": {"x": 1, "more": [{"y": "z"}]},
        "missing": None,
    }
    lake = Lake(kind, tmp_path)
    lake.put(records([value], value_schema=schema), number=0)
    (row,) = lake.rows()
    expected = {**value, "counts": [("one", 1), ("none", None)]}
    if kind == "delta":  # It has no times of day.
        expected["clock"] = "23:59:59.999000"
    assert row == expected


def test_new_fields_become_columns_and_old_rows_have_none_of_them(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records([{"id": 1, "inner": {"a": 1}}], value_schema=struct(id=INT64, inner=struct(a=INT32))), number=0)
    wider = struct(id=INT64, inner=struct(a=INT32, b=STRING.as_optional()), note=STRING.as_optional())
    lake.put(records([{"id": 2, "inner": {"a": 2, "b": "x"}, "note": "new"}], 1, value_schema=wider), number=1)
    lake.put(records([{"id": 3, "inner": None, "more": [1.5]}], 2), number=2)
    first, second, third = by("id", lake.rows())
    assert first["inner"]["a"] == 1
    assert first["note"] is None
    assert second == {"id": 2, "inner": {"a": 2, "b": "x"}, "note": "new", "more": None}
    assert third == {"id": 3, "inner": None, "note": None, "more": [1.5]}


def test_values_without_a_schema_get_the_narrowest_column_that_takes_them(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    values = [{"id": 1, "a": 1, "b": None, "c": []}, {"id": 2, "a": 2.5, "c": ["x"]}, {"id": 3, "c": None, "d": {}}]
    lake.put(records(values), number=0)
    assert by("id", lake.rows()) == [
        {"id": 1, "a": 1.0, "c": []},
        {"id": 2, "a": 2.5, "c": ["x"]},
        {"id": 3, "a": None, "c": None},
    ]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"id": "x"}, "field id: 'x' does not fit into a column of type int64"),
        ({"id": 2.5}, "field id: 2.5 does not fit into a column of type int64"),
        ({"id": 2**63}, "field id: 9223372036854775808 does not fit"),
        ({"id": 2, "deep": [{"x": True}]}, "field deep.x: True does not fit into a column of type string"),
        ({"id": 2, "deep": {"x": 1}}, "field deep: {'x': 1} is not a list"),
        ({"id": 2, "real": 2**53 + 1}, "field real: 9007199254740993 does not fit into a column of type double"),
        ({"ID": 2}, "field ID: its name differs from another's by capitals only"),
        ({"id": 2, "": 1}, "'' cannot be a column's name"),
        ("text", "field value: 'text' does not fit into a column of type bool"),
        (None, "behavior.on.null.values"),
    ],
)
def test_a_record_that_does_not_fit_is_refused_by_name_when_it_is_taken(
    kind: str, tmp_path: Path, value: Any, complaint: str
) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records([{"id": 1, "deep": [{"x": "s"}], "real": 0.5, "value": True}]), number=0)
    taken: list[int] = []

    def given() -> Any:
        for record in records([{"id": 2}, value, {"id": 3}], 1):
            taken.append(record.offset or 0)
            yield record

    with pytest.raises(DataError) as raised:
        lake.sink.write(given(), Batch(QUERY, 1))
    assert complaint in str(raised.value)
    assert taken == [1, 2], "it was not the last that was asked for"
    lake.put(records(numbered(2, 3), 1), number=1)
    assert ids(lake) == [1, 2, 3]


def test_records_that_are_refused_leave_no_trace_and_the_rest_is_taken(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    values = [
        {"id": 1},
        {"new": 1, "deep": {"a": 1}, "id": "x"},
        {"id": 2, "new": "text", "big": 2**60},
        {"id": 3, "big": 0.5},
        {"id": 4, "deep": {"a": "text"}},
        None,
    ]
    refused: list[tuple[int | None, str]] = []
    sink = lake.sink
    sink.refuse = lambda record, error: refused.append((record.offset, str(error)))  # type: ignore[method-assign]
    part = sink.write(iter(records(values)), Batch(QUERY, 0))
    lake.sink.commit(Batch(QUERY, 0), [part])
    assert [offset for offset, _ in refused] == [1, 3, 5]
    assert by("id", lake.rows()) == [
        {"id": 1, "new": None, "big": None, "deep": None},
        {"id": 2, "new": "text", "big": 2**60, "deep": None},
        {"id": 4, "new": None, "big": None, "deep": {"a": "text"}},
    ]


def test_values_that_lose_nothing_go_into_the_column_that_is_there(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records([{"id": 1, "real": 0.5}], value_schema=struct(id=INT32, real=FLOAT64)), number=0)
    lake.put(records([{"id": 2, "real": 3}], 1, value_schema=struct(id=INT64, real=INT64)), number=1)
    lake.put(records([{"id": 3.0, "real": 4}], 2), number=2)
    assert by("id", lake.rows()) == [{"id": 1, "real": 0.5}, {"id": 2, "real": 3.0}, {"id": 3, "real": 4.0}]


def test_tasks_that_disagree_on_a_new_column_settle_it_and_write_again(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    tasks = [records([{"id": 1, "x": 1}]), records([{"id": 2, "x": 0.5}], partition=1)]
    with pytest.raises(ConnectError, match=r"field x.* written again") as raised:
        lake.put(*tasks, number=0)
    assert not raised.value.is_final
    assert not isinstance(raised.value, DataError)
    lake.put(*tasks, number=0)
    assert by("id", lake.rows()) == [{"id": 1, "x": 1.0}, {"id": 2, "x": 0.5}]
    tasks = [records([{"id": 3, "y": 1}], 1), records([{"id": 4, "y": "one"}], 1, 1)]
    with pytest.raises(ConnectError, match="field y"):
        lake.put(*tasks, number=1)
    with pytest.raises(DataError, match="field y: 'one' does not fit"):
        lake.put(*tasks, number=1)
    lake.put(tasks[0], number=1)
    assert ids(lake) == [1, 2, 3]


def test_values_that_are_no_structs_go_into_a_column_of_their_own(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records(["a", "b"], value_schema=STRING), records(["c"], partition=1), number=0)
    assert sorted(row["value"] for row in lake.rows()) == ["a", "b", "c"]


def test_records_without_a_value_are_passed_over_where_the_config_says_so(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path, behavior_on_null_values="ignore")
    lake.put(records([{"id": 1}, None]), records([None], partition=1), number=0)
    assert ids(lake) == [1]


def test_a_table_by_field_has_its_rows_in_that_fields_folders(kind: str, tmp_path: Path) -> None:
    given = {"partitioner_class": "io.confluent.connect.storage.partitioner.FieldPartitioner"}
    lake = Lake(kind, tmp_path, **given, **{"partition.field.name": "country, kind"})
    odd = "a/b=c %é"
    values = [
        {"id": 1, "country": "NL", "kind": 1},
        {"id": 2, "country": odd, "kind": 1},
        {"id": 3, "country": None, "kind": 2},
        {"id": 4, "country": "NL", "kind": 1},
    ]
    lake.put(records(values), number=0)
    lake.put(records([{"id": 5, "country": odd, "kind": None}], 4), number=1)
    rows = by("id", lake.rows())
    assert [row["country"] for row in rows] == ["NL", odd, None, "NL", odd]
    assert [row["kind"] for row in rows] == [1, 1, 2, 1, None]
    folders = {path.rpartition("/")[0].removeprefix("data/") for path in lake.files()}
    assert len(folders) == 4
    assert {"country=NL/kind=1", "country=__HIVE_DEFAULT_PARTITION__/kind=2"} < folders


def test_a_table_by_time_has_its_rows_in_folders_of_the_clock_of_a_zone(kind: str, tmp_path: Path) -> None:
    lake = Lake(
        kind,
        tmp_path,
        partitioner_class="HourlyPartitioner",
        timezone="America/New_York",
        timestamp_extractor="RecordField",
        timestamp_field="at.when",
    )
    times = ["2026-03-08T06:59:59Z", "2026-03-08T07:00:00Z", 1772953200000]
    lake.put(records([{"id": number, "at": {"when": str(at)}} for number, at in enumerate(times[:2])]), number=0)
    folders = {path.rpartition("/")[0].removeprefix("data/") for path in lake.files()}
    # At two in the night the clocks were put forward to three.
    assert folders == {f"year=2026/month=03/day=08/hour={hour}" for hour in ("01", "03")}
    if kind != "parquet":
        assert [row["hour"] for row in by("id", lake.rows())] == ["01", "03"]
    with pytest.raises(DataError, match=r"field at\.when: None is no time"):
        lake.write(records([{"id": 3}], 2), number=1)


def test_a_span_of_time_is_as_long_as_the_config_says(kind: str, tmp_path: Path) -> None:
    lake = Lake(
        kind,
        tmp_path,
        partitioner_class="TimeBasedPartitioner",
        path_format="'dt'=YYYY-MM-dd-HH",
        partition_duration_ms=str(6 * 3_600_000),
        timestamp_extractor="Record",
    )
    hours = [0, 5, 6, 23]
    for number, hour in enumerate(hours):
        lake.put(records(numbered(number), number, timestamp_ms=hour * 3_600_000), number=number)
    folders = sorted(path.rpartition("/")[0].removeprefix("data/") for path in lake.files())
    assert folders == [f"dt=1970-01-01-{start}" for start in ("00", "00", "06", "18")]
    assert ids(lake) == [0, 1, 2, 3]


def test_files_end_where_flush_size_says(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path, flush_size="2")
    lake.put(records(numbered(1, 2, 3, 4, 5)), number=0)
    assert len(lake.files()) == 3
    assert ids(lake) == [1, 2, 3, 4, 5]


def test_topics_have_tables_of_their_own_and_none_leads_out_of_the_lake(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path / "lake")
    lake.put([*records(numbered(1)), *records(numbered(2), topic="some.other-topic")], number=0)
    assert ids(lake) == [1]
    assert ids(lake, "some.other-topic") == [2]
    with pytest.raises(DataError, match=r"topic '\.\./outside' cannot be"):
        lake.write(records(numbered(3), topic="../outside"), number=1)


@pytest.mark.parametrize(
    ("given", "blamed"),
    [
        ({"store_url": "/proc/version/lake"}, "store.url"),
        ({"store_url": "gopher://lake"}, "store.url"),
        ({"partitioner_class": "FieldPartitioner"}, "partition.field.name"),
        ({"partitioner_class": "TimeBasedPartitioner", "path_format": "YYYY'"}, "path.format"),
        ({"partitioner_class": "TimeBasedPartitioner", "path_format": "'q'=qq"}, "path.format"),
        ({"partitioner_class": "TimeBasedPartitioner", "path_format": "'y'=YYYY"}, "partition.duration.ms"),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_the_option_to_blame(
    kind: str, tmp_path: Path, given: dict[str, str], blamed: str
) -> None:
    sink = SINKS[kind]
    assert sink.check(config_of(sink, store_url=str(tmp_path / "new"))) == {}
    found = sink.check(config_of(sink, **{"store_url": str(tmp_path), **given}))
    assert blamed in found


def test_a_lake_that_cannot_be_written_to_is_tried_again(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    lake = Lake(kind, tmp_path / "file")
    with pytest.raises(Unreachable, match="file"):
        lake.put(records(numbered(1)), number=0)
