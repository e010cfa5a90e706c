"""Plain Parquet files in folders, as Hive lays them out: readers take whatever is there.

Files wait beside the table until the driver has written down which of them the batch is made of, and are then renamed
into it. A batch that comes again finishes what was written down and leaves its own files to be swept.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import parquet

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.sinks.lake import options
from millstream.pipelines.connect.sinks.lake.sink import LakeSink
from millstream.pipelines.connect.sinks.lake.table import OWN, Table, Written, attempts, earlier
from millstream.pipelines.connect.sinks.lake.types import plain_schema

#: Parquet's own name for the columns that the files of a folder have together.
COLUMNS = "_common_metadata"


class ParquetTable(Table):
    """A folder of files."""

    has_columns = False

    def schema(self) -> Any:
        data = self.store.get(COLUMNS)
        return None if data is None else plain_schema(parquet.read_schema(pa.BufferReader(data)))

    def evolve(self, schema: Any) -> None:
        stream = pa.BufferOutputStream()
        parquet.write_metadata(schema, stream)
        self.store.put(COLUMNS, stream.getvalue().to_pybytes())

    def begin(self, batch: Batch, mark: str, path: str) -> str:
        return _waiting(batch, mark)

    def has(self, batch: Batch) -> bool:
        decided = json.loads(self.store.get(_decision(batch)) or b"{}")
        if decided.get("batch", -1) < batch.number:
            return False
        if decided["batch"] == batch.number:
            self._publish(decided["files"])
        return True

    def add(self, batch: Batch, files: Sequence[Written]) -> None:
        decided = {_waiting(batch, file.mark): file.path for file in files}
        self.store.put(_decision(batch), json.dumps({"batch": batch.number, "files": decided}).encode())
        self._publish(decided)

    def _publish(self, files: Mapping[str, str]) -> None:
        for waiting, path in files.items():
            # A bucket's rename copies and then deletes; until both are done, it is done again.
            if self.store.size(waiting) is not None:
                self.store.move(waiting, path)

    def sweep(self, batch: Batch, files: Sequence[Written]) -> None:
        """Whatever of earlier batches still waits was never decided on."""
        for number in earlier(self.store, batch):
            self.store.delete_folder(f"{OWN}/{quote(batch.query, safe='')}/{number}")


def _waiting(batch: Batch, mark: str) -> str:
    return f"{attempts(batch)}/{mark}.waiting"


def _decision(batch: Batch) -> str:
    """Where it is written down which files the last batch is made of."""
    return f"{OWN}/{quote(batch.query, safe='')}/batch.json"


class ParquetSink(LakeSink):
    """Records as Parquet files in ``store.url``/``topics.dir``/TOPIC/…, exactly once."""

    options = (*options.COMMON, options.TOPICS_DIR)
    is_table = False

    def table(self, topic: str) -> Table:
        below = [part for part in (self.config[options.TOPICS_DIR].strip("/"), topic) if part]
        return ParquetTable(self._below(*below), self._partitioner())
