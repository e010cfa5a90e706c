"""Records into the files of one table, in a worker."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import DataError, Misconfigured
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Schema, Type, struct
from millstream.pipelines.connect.sinks.lake import options, types
from millstream.pipelines.connect.sinks.lake.fitting import Misfit
from millstream.pipelines.connect.sinks.lake.partitioning import Place, folders
from millstream.pipelines.connect.sinks.lake.shape import Struct, columns
from millstream.pipelines.connect.sinks.lake.table import Table, Written

#: The column of values that are no structs.
VALUE = "value"
#: Of a topic's name in a file's, which may not be longer than 255 in all.
TOPIC_CHARACTERS_MAX = 160


@dataclass(slots=True)
class _Buffer:
    """Rows for one file, and the place of the first in its topic."""

    folders: str
    partition: int
    offset: int
    rows: list[Any] = field(default_factory=list)


def _check_times(schema: Any, names: tuple[str, ...]) -> None:
    for name in names:
        if not pa.types.is_string(schema.field(name).type):
            raise Misconfigured(f"the table's column {name} is {schema.field(name).type}, and path.format makes texts")


class TableWriter:
    """Takes records one by one; whatever is wrong with one is raised while it is taken, and leaves no trace."""

    def __init__(self, topic: str, table: Table, batch: Batch, config: Config, now_ms: int) -> None:
        self._topic, self._table, self._batch = topic, table, batch
        self._rows_max = config[options.FLUSH_SIZE]
        self._codec = config[options.PARQUET_CODEC]
        self._now_ms = now_ms
        #: Columns that only the place has.
        by_place = table.has_columns and not table.partitioner.is_by_fields
        self._times = table.partitioner.columns if by_place else ()
        self._shape = Struct(table.dialect)
        schema = table.schema()
        if schema is not None:
            _check_times(schema, self._times)
            self._shape.grow_fields(schema, True)
            self._shape.keep()
        #: Columns that its files do not have.
        self._elsewhere = frozenset(() if table.keeps_fields else table.partitioner.columns)
        self._has_columns = False
        self._schema: Schema | None = None
        self._buffers: dict[Place, _Buffer] = {}
        self._written: list[Written] = []

    def take(self, record: Record) -> None:
        """Add a record to a file."""
        try:
            row = self._row(record)
            place = self._table.partitioner.place(record, row, self._now_ms)
            buffer = self._buffers.get(place)
            if buffer is None:
                buffer = self._buffers[place] = _Buffer(folders(place), record.partition or 0, record.offset or 0)
        except (DataError, RecursionError) as error:
            self._shape.shrink()
            self._schema, self._has_columns = None, False
            if isinstance(error, DataError):
                raise
            raise DataError("the record's value is nested too deeply") from None
        self._shape.keep()
        buffer.rows.append(row)
        if len(buffer.rows) >= self._rows_max:
            self._write(place, self._buffers.pop(place))

    def _row(self, record: Record) -> dict[str, Any]:
        value, schema = record.value, record.value_schema
        is_struct = schema.type == Type.STRUCT if schema is not None else isinstance(value, dict)
        if schema is not None and schema is not self._schema:
            kind = types.of_schema(schema if is_struct else struct(**{VALUE: schema}))
            self._shape.grow(kind, False)
            self._schema = schema
        row: dict[str, Any] = self._shape.take(value if is_struct else {VALUE: value})
        for name in self._times:
            if name in row:
                raise Misfit(f"field {name}: its name is that of a column which the table is partitioned by")
        if self._table.has_columns and self._table.partitioner.is_by_fields:
            for name in self._table.partitioner.columns:
                slot = self._shape.slots.get(name)
                if slot is None or slot.kind is None:
                    raise Misfit(f"field {name}: has no value, and the table is to be partitioned by it")
        if not self._has_columns:
            self._has_columns = any(field.name not in self._elsewhere for field in self._shape.fields)
            if not self._has_columns:
                raise Misfit("no field of the record has a value, and the table has no columns yet")
        return row

    def close(self) -> list[Written]:
        """Write what is left; all files."""
        for place, buffer in self._buffers.items():
            self._write(place, buffer)
        self._buffers.clear()
        return self._written

    def _write(self, place: Place, buffer: _Buffer) -> None:
        mark = uuid4().hex
        topic = quote(self._topic, safe="")[:TOPIC_CHARACTERS_MAX]
        name = f"{topic}+{buffer.partition}+{buffer.offset:010d}+{mark}.parquet"
        path = "/".join(part for part in (self._table.data, buffer.folders, name) if part)
        data, schema = self._arrow(place, buffer)
        where = self._table.begin(self._batch, mark, path)
        seen: list[Any] = []
        with self._table.store.create(where) as stream:
            parquet.write_table(data, stream, compression=self._codec, metadata_collector=seen)
        size = self._table.store.size(where)
        assert size is not None, where
        statistics = self._table.statistics(seen[0])
        self._written.append(Written(self._topic, path, mark, place, schema, size, statistics))

    def _arrow(self, place: Place, buffer: _Buffer) -> tuple[Any, Any]:
        """The rows as a file has them, and all their columns."""
        table = self._table
        fields = [field for field in self._shape.fields if field.name not in self._times]
        arrays = columns(buffer.rows, fields)
        by_place = [(pa.field(str(name), pa.string()), value) for name, value in place] if self._times else []
        schema = pa.schema([*fields, *(field for field, _ in by_place)])
        if table.keeps_times:
            fields = list(schema)
            arrays += [pa.repeat(pa.scalar(value, pa.string()), len(buffer.rows)) for _, value in by_place]
        kept = [index for index, field in enumerate(fields) if field.name not in self._elsewhere]
        fields, arrays = [fields[index] for index in kept], [arrays[index] for index in kept]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields)), schema
