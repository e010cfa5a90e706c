"""Sinks of lakes driven by hand, and their tables read back by other engines."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from millstream.pipelines.connect.base import Batch, Sink
from millstream.pipelines.connect.options import Config, parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sinks.lake.delta import DeltaSink
from millstream.pipelines.connect.sinks.lake.iceberg import IcebergSink
from millstream.pipelines.connect.sinks.lake.parquet import ParquetSink
from millstream.pipelines.connect.sinks.lake.sink import LakeSink

SINKS: dict[str, type[LakeSink]] = {"parquet": ParquetSink, "delta": DeltaSink, "iceberg": IcebergSink}
QUERY = "query"
Rows = list[dict[str, Any]]


def config_of(sink: type[Sink], **given: str) -> Config:
    """A config without a mistake."""
    named = {name.replace("_", "."): text for name, text in given.items()}
    config, errors = parse(sink.options, {"name": "lake", **named})
    assert not errors, errors
    return config


def records(
    values: Iterable[Any], offset: int = 0, partition: int = 0, topic: str = "orders", **more: Any
) -> list[Record]:
    """Records of one partition, one after another."""
    return [
        Record(topic, value, partition=partition, offset=offset + index, **{"timestamp_ms": 0, **more})
        for index, value in enumerate(values)
    ]


class Lake:
    """One sink's tables, in a folder."""

    def __init__(self, kind: str, folder: Path, **given: str) -> None:
        self.kind, self.folder = kind, folder
        self.config = config_of(SINKS[kind], store_url=str(folder), **given)

    @property
    def sink(self) -> LakeSink:
        """Built anew, as in each worker and driver."""
        return SINKS[self.kind](self.config)

    def write(self, *tasks: Sequence[Record], number: int, query: str = QUERY) -> list[Any]:
        """What workers do; what they return goes through a pickle, as in Spark."""
        batch = Batch(query, number)
        return [pickle.loads(pickle.dumps(self.sink.write(iter(task), batch))) for task in tasks]

    def put(self, *tasks: Sequence[Record], number: int, query: str = QUERY) -> None:
        """A whole batch."""
        self.sink.commit(Batch(query, number), self.write(*tasks, number=number, query=query))

    def rows(self, topic: str = "orders") -> Rows:
        """What an engine of somebody else's reads."""
        return READERS[self.kind](self.folder, topic)

    def files(self, topic: str = "orders") -> set[str]:
        """All Parquet files there are, listed or not."""
        root = self.folder / BELOW[self.kind] / topic
        return {str(path.relative_to(root)) for path in root.rglob("*.parquet")}

    def left(self, topic: str = "orders") -> list[str]:
        """What attempts noted or left waiting."""
        root = self.folder / BELOW[self.kind] / topic / "_millstream"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*/*/*") if path.is_file())


BELOW = {"parquet": "topics", "delta": ".", "iceberg": "default"}


def _parquet(folder: Path, topic: str) -> Rows:
    """By DuckDB, which takes all that lies there, and by pyarrow, which must see the same."""
    files = f"{folder}/topics/{topic}/**/*.parquet"
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT * FROM read_parquet('{files}', union_by_name=true, hive_partitioning=false)")
        rows = found.to_arrow_table().to_pylist()
    seen = pyarrow.dataset.dataset(f"{folder}/topics/{topic}", format="parquet")
    assert seen.count_rows() == len(rows)
    return rows  # type: ignore[no-any-return]


def _delta(folder: Path, topic: str) -> Rows:
    return DeltaTable(f"{folder}/{topic}").to_pyarrow_table().to_pylist()  # type: ignore[no-any-return]


def _iceberg(folder: Path, topic: str) -> Rows:
    catalog = load_catalog("iceberg", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    try:
        return catalog.load_table(("default", topic)).scan().to_arrow().to_pylist()  # type: ignore[no-any-return]
    finally:
        catalog.close()


READERS: dict[str, Callable[[Path, str], Rows]] = {"parquet": _parquet, "delta": _delta, "iceberg": _iceberg}
