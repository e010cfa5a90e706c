"""Records of change capture: Debezium's envelope around rows before and after, keyed by the primary key.  Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from millstream import __version__
from millstream.pipelines.connect.postgres.catalog import Column
from millstream.pipelines.connect.postgres.pgoutput import UNCHANGED, Delete, Insert, Row, Truncate, Update
from millstream.pipelines.connect.postgres.types import Codec, Mapping, codec_of
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import INT64, STRING, Field, Schema, Type, struct

TEXT, NUMBER = STRING.as_optional(), INT64.as_optional()
SOURCE = struct(
    "io.debezium.connector.postgresql.Source",
    version=STRING,
    connector=STRING,
    name=STRING,
    ts_ms=INT64,
    snapshot=Schema(
        Type.STRING,
        optional=True,
        name="io.debezium.data.Enum",
        version=1,
        default="false",
        parameters=(("allowed", "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"),),
    ),
    db=STRING,
    sequence=TEXT,
    ts_us=NUMBER,
    ts_ns=NUMBER,
    schema=STRING,
    table=STRING,
    txId=NUMBER,
    lsn=NUMBER,
    xmin=NUMBER,
)
TRANSACTION = replace(
    struct("event.block", id=STRING, total_order=INT64, data_collection_order=INT64), optional=True, version=1
)
#: For a column that may not be null and whose value the server did not send.
FALLBACKS: dict[Type, Any] = {
    **dict.fromkeys((Type.INT8, Type.INT16, Type.INT32, Type.INT64), 0),
    **dict.fromkeys((Type.FLOAT32, Type.FLOAT64), 0.0),
    Type.BOOLEAN: False,
    Type.STRING: "",
}
ADAPTIVE = Mapping(times="adaptive", names_text=True, unlimited="variable")
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"


@dataclass(frozen=True, slots=True)
class Style:
    """What a config says of records."""

    prefix: str
    database: str
    mapping: Mapping = ADAPTIVE
    tombstones: bool = True
    skipped: frozenset[str] = frozenset("t")
    placeholder: str = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a change comes from."""

    at_us: int
    lsn: int
    xid: int | None = None
    #: Where the transaction before this one was committed.
    last_commit_lsn: int | None = None
    is_snapshot: bool = False


class TableEnvelopes:
    """Makes records of one table, as it is at a time."""

    def __init__(
        self,
        schema: str,
        table: str,
        columns: Sequence[Column],
        key: Sequence[str],
        style: Style,
        now_us: Callable[[], int],
    ) -> None:
        self.schema, self.table, self.style = schema, table, style
        self.topic = f"{style.prefix}.{schema}.{table}"
        self._now_us = now_us
        self._columns: list[tuple[str, Codec]] = []
        for column in columns:
            codec = codec_of(column.kind, style.mapping)
            optional = column.is_optional and column.name not in key
            self._columns.append((column.name, replace(codec, schema=replace(codec.schema, optional=optional))))
        places = {name: place for place, (name, _) in enumerate(self._columns)}
        self._key = [places[name] for name in key if name in places]
        fields = tuple(Field(name, codec.schema) for name, codec in self._columns)
        row = Schema(Type.STRUCT, optional=True, name=f"{self.topic}.Value", fields=fields)
        self._key_schema = Schema(Type.STRUCT, name=f"{self.topic}.Key", fields=tuple(fields[at] for at in self._key))
        self._value_schema = replace(
            struct(
                f"{self.topic}.Envelope",
                before=row,
                after=row,
                source=SOURCE,
                transaction=TRANSACTION,
                op=STRING,
                ts_ms=NUMBER,
                ts_us=NUMBER,
                ts_ns=NUMBER,
            ),
            version=2,
        )

    # Records of changes.

    def row(self, row: Row, origin: Origin) -> Record:
        """A row of the snapshot."""
        return self._record("r", None, row, origin)

    def change(self, change: Insert | Update | Delete | Truncate, origin: Origin) -> Iterator[Record]:
        """What a change is to readers: often one record, more when a key ends."""
        skipped = self.style.skipped
        if isinstance(change, Insert):
            if "c" not in skipped:
                yield self._record("c", None, change.new, origin)
        elif isinstance(change, Update):
            if "u" not in skipped:
                yield from self._update(change, origin)
        elif isinstance(change, Delete):
            if "d" not in skipped:
                yield from self._end(change.old, origin)
        elif "t" not in skipped:
            yield Record(self.topic, self._value("t", None, None, origin), value_schema=self._value_schema)

    def _update(self, change: Update, origin: Origin) -> Iterator[Record]:
        old, new = change.old, self._filled(change)
        if old is None or not self._key or self._key_texts(old) == self._key_texts(new):
            yield self._record("u", old if change.is_full else None, new, origin)
            return
        # A row under another key is, to whoever reads by keys, another row.
        before, after = self._key_value(old), self._key_value(new)
        yield from self._end(old, origin, [Header(NEW_KEY, after, self._key_schema)])
        created = self._record("c", None, new, origin)
        created.headers.append(Header(OLD_KEY, before, self._key_schema))
        yield created

    def _end(self, old: Row, origin: Origin, headers: Sequence[Header] = ()) -> Iterator[Record]:
        ended = self._record("d", old, None, origin)
        ended.headers.extend(headers)
        yield ended
        if self.style.tombstones and self._key:
            yield Record(self.topic, None, ended.key, key_schema=ended.key_schema)

    def _filled(self, change: Update) -> Row:
        """The new row, with what it left unchanged from the old one where that has it."""
        old = change.old
        if old is None:
            return change.new
        at = range(len(change.new))
        has = [change.is_full or place in self._key for place in at]
        return tuple(old[n] if change.new[n] is UNCHANGED and has[n] else change.new[n] for n in at)

    def _record(self, op: str, before: Row | None, after: Row | None, origin: Origin) -> Record:
        row = after if after is not None else before
        assert row is not None
        value = self._value(op, before, after, origin)
        if not self._key:
            return Record(self.topic, value, value_schema=self._value_schema)
        return Record(self.topic, value, self._key_value(row), self._value_schema, self._key_schema)

    # Their parts.

    def _key_texts(self, row: Row) -> list[Any]:
        return [row[at] for at in self._key]

    def _key_value(self, row: Row) -> dict[str, Any]:
        return {self._columns[at][0]: self._loaded(self._columns[at][1], row[at]) for at in self._key}

    def _row_value(self, row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        return {name: self._loaded(codec, text) for (name, codec), text in zip(self._columns, row, strict=True)}

    def _loaded(self, codec: Codec, text: Any) -> Any:
        schema = codec.schema
        if text is None:
            return None if schema.optional else FALLBACKS.get(schema.type)
        if text is not UNCHANGED:
            return codec.load(text)
        if schema.type is Type.STRING:
            return self.style.placeholder
        if schema.type is Type.BYTES and schema.name is None:
            return self.style.placeholder.encode()
        if schema.type is Type.ARRAY and schema.values is not None and schema.values.type is Type.STRING:
            return [self.style.placeholder]
        return None if schema.optional else FALLBACKS.get(schema.type)

    def _value(self, op: str, before: Row | None, after: Row | None, origin: Origin) -> dict[str, Any]:
        now_us = self._now_us()
        return {
            "before": self._row_value(before),
            "after": self._row_value(after),
            "source": self._source(origin),
            "transaction": None,
            "op": op,
            "ts_ms": now_us // 1000,
            "ts_us": now_us,
            "ts_ns": now_us * 1000,
        }

    def _source(self, origin: Origin) -> dict[str, Any]:
        last = "null" if origin.last_commit_lsn is None else f'"{origin.last_commit_lsn}"'
        return {
            "version": __version__,
            "connector": "postgresql",
            "name": self.style.prefix,
            "ts_ms": origin.at_us // 1000,
            "snapshot": "true" if origin.is_snapshot else "false",
            "db": self.style.database,
            "sequence": f'[{last},"{origin.lsn}"]',
            "ts_us": origin.at_us,
            "ts_ns": origin.at_us * 1000,
            "schema": self.schema,
            "table": self.table,
            "txId": origin.xid,
            "lsn": origin.lsn,
            "xmin": None,
        }
