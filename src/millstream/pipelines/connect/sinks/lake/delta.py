"""Delta tables: files in the table's folder, listed by a commit that carries the query and the batch's number.

The commit is a transaction of an application, as Delta calls it: whoever commits a batch that is in the table already
is refused, also when both are at it in the same moment.
"""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from millstream.model.clock import SystemClock
from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.sinks.lake import options
from millstream.pipelines.connect.sinks.lake.partitioning import text_of
from millstream.pipelines.connect.sinks.lake.shape import Dialect
from millstream.pipelines.connect.sinks.lake.sink import LakeSink
from millstream.pipelines.connect.sinks.lake.statistics import of_file
from millstream.pipelines.connect.sinks.lake.table import Table, Written
from millstream.pipelines.connect.sinks.lake.types import plain_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable as Log


class DeltaTable(Table):
    """A table under Delta's log."""

    dialect = Dialect(has_times=False, forbidden=" ,;{}()\n\t=")
    keeps_fields = False

    def _log(self) -> "Log | None":
        from deltalake import DeltaTable as Log
        from deltalake.exceptions import TableNotFoundError

        try:
            log = Log(self.store.location)
        except TableNotFoundError:
            return None
        self.check_partitions(log.metadata().partition_columns)
        return log

    def schema(self) -> Any:
        log = self._log()
        return None if log is None else plain_schema(pa.schema(log.schema()))

    def has(self, batch: Batch) -> bool:
        log = self._log()
        return log is not None and _has(log, batch)

    def evolve(self, schema: Any) -> None:
        from deltalake import DeltaTable as Log
        from deltalake import Schema

        log = self._log()
        if log is None:
            columns = list(self.partitioner.columns)
            Log.create(self.store.location, schema, mode="ignore", partition_by=columns)
            return
        known = plain_schema(pa.schema(log.schema()))
        new = [field for field in schema if field.name not in known.names or field != known.field(field.name)]
        log.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)

    def add(self, batch: Batch, files: Sequence[Written]) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        log = self._log()
        assert log is not None, "a table is made before it is added to"
        if _has(log, batch):  # From here on, Delta refuses whoever comes second.
            return
        now_ms = SystemClock().now_ms()
        added = [
            AddAction(
                path=file.path,
                size=file.bytes,
                partition_values={str(name): text_of(value) for name, value in file.place},
                modification_time=now_ms,
                data_change=True,
                stats=file.statistics,
            )
            for file in files
        ]
        log.create_write_transaction(
            list(added),
            "append",
            log.schema(),
            list(self.partitioner.columns),
            commit_properties=CommitProperties(app_transactions=[Transaction(_application(batch), batch.number)]),
        )

    def statistics(self, metadata: Any) -> str:
        return json.dumps(of_file(metadata))

    def listed(self) -> set[str]:
        log = self._log()
        return set() if log is None else {unquote(uri).rpartition("/")[2] for uri in log.file_uris()}


def _application(batch: Batch) -> str:
    return f"millstream/{batch.query}"


def _has(log: "Log", batch: Batch) -> bool:
    last = log.transaction_version(_application(batch))
    return last is not None and last >= batch.number


class DeltaSink(LakeSink):
    """Records in Delta tables ``store.url``/``table.name.format``, exactly once."""

    options = (*options.COMMON, options.TABLE_NAME_FORMAT)

    @classmethod
    def missing(cls) -> str:
        return "" if find_spec("deltalake") else "deltalake"

    def table_name(self, topic: str) -> str:
        return self.config[options.TABLE_NAME_FORMAT].replace("${topic}", topic)

    def table(self, topic: str) -> Table:
        return DeltaTable(self._below(self.table_name(topic)), self._partitioner())
