"""What one kind of table has and another has not: logs that fence drivers, bounds, catalogs, folders as columns."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import ConnectError, DataError, Misconfigured, Unreachable
from millstream.pipelines.connect.sinks.lake.iceberg import IcebergSink
from tests.pipelines.connect.lakes import QUERY, Lake, config_of, records
from tests.pipelines.connect.rest_catalog import RestCatalog

logged = pytest.mark.parametrize("kind", ["delta", "iceberg"])


@logged
def test_a_table_that_is_partitioned_otherwise_is_refused(kind: str, tmp_path: Path) -> None:
    Lake(kind, tmp_path).put(records([{"id": 1, "at": "x"}]), number=0)
    lake = Lake(kind, tmp_path, partitioner_class="FieldPartitioner", **{"partition.field.name": "at"})
    with pytest.raises(Misconfigured, match="is partitioned by nothing, and the config says at"):
        lake.put(records([{"id": 2, "at": "x"}]), number=1)


@logged
def test_a_field_that_no_record_has_cannot_be_what_a_table_is_partitioned_by(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path, partitioner_class="FieldPartitioner", **{"partition.field.name": "contry"})
    with pytest.raises(DataError, match="field contry: has no value, and the table is to be partitioned by it"):
        lake.write(records([{"id": 1, "country": "NL"}]), number=0)


@logged
def test_a_field_may_not_be_called_as_a_column_of_times(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path, partitioner_class="DailyPartitioner")
    with pytest.raises(DataError, match="field day: its name is that of a column which the table is partitioned by"):
        lake.write(records([{"id": 1, "day": "Monday"}]), number=0)


@logged
def test_a_column_of_times_that_is_no_text_is_refused(kind: str, tmp_path: Path) -> None:
    by_field = Lake(kind, tmp_path, partitioner_class="FieldPartitioner", partition_field_name="year")
    by_field.put(records([{"id": 1, "year": 2026}]), number=0)
    by_time = {"partitioner_class": "TimeBasedPartitioner", "path_format": "'year'=YYYY", "partition_duration_ms": "1"}
    with pytest.raises(Misconfigured, match=r"the table's column year is int64, and path\.format makes texts"):
        Lake(kind, tmp_path, **by_time).write(records([{"id": 2}]), number=1)


@logged
def test_a_topic_may_have_the_longest_name_there_is(kind: str, tmp_path: Path) -> None:
    lake = Lake(kind, tmp_path)
    lake.put(records([{"id": 1}], topic="t" * 249), number=0)
    assert lake.rows("t" * 249) == [{"id": 1}]


@logged
def test_two_drivers_with_one_batch_list_it_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second looks before the first has committed, and commits afterwards."""
    lake = Lake(kind, tmp_path)
    lake.put(records([{"id": 1}]), number=0)
    first, second = (lake.write(records([{"id": 2}], 1), number=1) for _ in range(2))
    table = type(lake.sink.table("orders"))
    real = table.add

    def add(self: Any, batch: Batch, files: Any) -> None:
        monkeypatch.undo()
        lake.sink.commit(batch, first)
        real(self, batch, files)

    monkeypatch.setattr(table, "add", add)
    lake.sink.commit(Batch(QUERY, 1), second)
    assert sorted(row["id"] for row in lake.rows()) == [1, 2]


def test_of_two_drivers_that_commit_to_delta_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake("delta", tmp_path)
    lake.put(records([{"id": 1}]), number=0)
    first, second = (lake.write(records([{"id": 2}], 1), number=1) for _ in range(2))
    real = DeltaTable.create_write_transaction

    def commit(self: DeltaTable, *given: Any, **named: Any) -> None:
        monkeypatch.undo()
        lake.sink.commit(Batch(QUERY, 1), first)
        real(self, *given, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
    with pytest.raises(ConnectError, match="Concurrent transaction") as raised:
        lake.sink.commit(Batch(QUERY, 1), second)
    assert not raised.value.is_final
    lake.put(records([{"id": 2}], 1), number=1)
    assert sorted(row["id"] for row in lake.rows()) == [1, 2]


def test_of_two_drivers_that_commit_to_iceberg_at_once_one_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import Transaction

    lake = Lake("iceberg", tmp_path)
    lake.put(records([{"id": 1}]), number=0)
    first, second = (lake.write(records([{"id": 2}], 1), number=1) for _ in range(2))
    real = Transaction.add_files

    def add_files(self: Transaction, *given: Any, **named: Any) -> None:
        monkeypatch.undo()
        lake.sink.commit(Batch(QUERY, 1), first)
        real(self, *given, **named)

    monkeypatch.setattr(Transaction, "add_files", add_files)
    lake.sink.commit(Batch(QUERY, 1), second)
    assert sorted(row["id"] for row in lake.rows()) == [1, 2]


def test_somebody_elses_commit_to_iceberg_in_between_keeps_none_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import Transaction

    lake = Lake("iceberg", tmp_path)
    lake.put(records([{"id": 1}]), number=0)
    part = lake.write(records([{"id": 2}], 1), number=1)
    real = Transaction.add_files

    def add_files(self: Transaction, *given: Any, **named: Any) -> None:
        monkeypatch.undo()
        lake.put(records([{"id": 3}]), number=0, query="another")
        real(self, *given, **named)

    monkeypatch.setattr(Transaction, "add_files", add_files)
    lake.sink.commit(Batch(QUERY, 1), part)
    assert sorted(row["id"] for row in lake.rows()) == [1, 2, 3]


def test_readers_of_delta_may_pass_over_files_by_their_bounds(tmp_path: Path) -> None:
    lake = Lake("delta", tmp_path)
    lake.put(records([{"id": 1, "s": "a", "f": float("nan")}, {"id": 2, "s": "b" * 40, "f": 1.0}]), number=0)
    (row,) = pa.table(DeltaTable(tmp_path / "orders").get_add_actions(flatten=True)).to_pylist()
    assert (row["num_records"], row["min.id"], row["max.id"], row["null_count.s"]) == (2, 1, 2, 0)
    assert row.get("max.s") is None


def test_a_snapshot_of_iceberg_says_which_batch_it_is(tmp_path: Path) -> None:
    lake = Lake("iceberg", tmp_path)
    lake.put(records([{"id": 1}]), number=7)
    catalog = load_catalog("iceberg", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db")
    table = catalog.load_table("default.orders")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert (snapshot.summary["millstream.query"], snapshot.summary["millstream.batch"]) == (QUERY, "7")
    assert table.properties[f"millstream.batch.{QUERY}"] == "7"
    assert "commit.retry.num-retries" not in table.properties, "others may wish to try again"
    catalog.close()


def test_a_catalog_may_be_spoken_to_by_rest(tmp_path: Path) -> None:
    with RestCatalog(tmp_path, token="secret") as server:
        options = {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": server.url, "iceberg.namespace": "shop"}
        lake = Lake("iceberg", tmp_path, partitioner_class="DailyPartitioner", **options)
        with pytest.raises(Unreachable, match="who are you"):
            lake.put(records([{"id": 1}]), number=0)
        lake = Lake("iceberg", tmp_path, **options, **{"iceberg.catalog.token": "secret"})
        lake.put(records([{"id": 1}]), records([{"id": 2}], partition=1), number=0)
        for _ in range(2):
            lake.put(records([{"id": 3, "new": "x"}], 1), number=1)
        found = server.catalog.load_table("shop.orders").scan().to_arrow().to_pylist()
        server.catalog.close()
    assert sorted((row["id"], row["new"]) for row in found) == [(1, None), (2, None), (3, "x")]


def test_a_catalog_that_is_no_file_must_be_named(tmp_path: Path) -> None:
    config = config_of(IcebergSink, store_url=str(tmp_path), **{"iceberg.catalog.type": "rest"})
    assert "iceberg.catalog.uri" in IcebergSink.check(config)


def test_a_columns_name_that_delta_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="field unit price: a column's name may have none of ' '"):
        Lake("delta", tmp_path).write(records([{"unit price": 1}]), number=0)


def test_duckdb_reads_folders_of_times_as_columns(tmp_path: Path) -> None:
    lake = Lake("parquet", tmp_path, partitioner_class="HourlyPartitioner", timestamp_extractor="Record")
    lake.put(records([{"id": 1}], timestamp_ms=0), records([{"id": 2}], partition=1, timestamp_ms=3_600_000), number=0)
    lake.put(records([{"id": 3, "new": "x"}], 1, timestamp_ms=86_400_000), number=1)
    files = f"{tmp_path}/topics/orders/**/*.parquet"
    with duckdb.connect() as connection:
        table = f"read_parquet('{files}', hive_partitioning=true, union_by_name=true)"
        found = connection.sql(f"SELECT id, new, day, hour FROM {table} WHERE year = 1970 ORDER BY id").fetchall()
    assert [(number, new, int(day), int(hour)) for number, new, day, hour in found] == [
        (1, None, 1, 0),
        (2, None, 1, 1),
        (3, "x", 2, 0),
    ]
