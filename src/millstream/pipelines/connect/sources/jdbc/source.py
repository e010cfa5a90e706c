"""The connector: finds tables, plans how far to read, and reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from millstream.model.clock import Clock, SystemClock
from millstream.pipelines.connect.base import Offset, Partition, Source
from millstream.pipelines.connect.errors import ConnectError, Misconfigured
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.places import TEXT, WHOLE, unlike
from millstream.pipelines.connect.postgres import sql
from millstream.pipelines.connect.postgres.catalog import Catalog, Column, Table
from millstream.pipelines.connect.postgres.options import database, refusal
from millstream.pipelines.connect.postgres.types import Mapping, codec_of, precision_and_scale
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Field, Schema, Type
from millstream.pipelines.connect.sources.jdbc.options import (
    BULK,
    INCREMENTING,
    MODE,
    NON_NULL,
    NUMBER_COLUMN,
    NUMERIC,
    OPTIONS,
    POLL_MS,
    PREFIX,
    QUERY,
    SCHEMA_PATTERN,
    TABLES,
    TABLES_NOT,
    TIME_COLUMNS,
    TIME_DELAY_MS,
    TIME_INITIAL,
    TIMESTAMP,
    inconsistent,
)
from millstream.pipelines.connect.sources.jdbc.order import Order

#: Types whose values rise in a way that numbers or times do.
NUMBER_TYPES = frozenset({"int2", "int4", "int8", "numeric", "oid"})
TIME_TYPES = frozenset({"timestamp", "timestamptz", "date"})
#: For ``timestamp.initial``.
NOW = -1
#: Transactions that have written to a table or one of its parts, and are not over.
WRITERS = """
SELECT DISTINCT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND relation IN (SELECT %s::oid UNION SELECT relid FROM pg_partition_tree(%s::oid::regclass))
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a partition is: a table, or the query."""

    sql: str
    name: str
    topic: str
    columns: tuple[Column, ...]
    table: Table | None = None


class JdbcSource(Source):
    """Reads tables or a query of a PostgreSQL."""

    options = OPTIONS

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        super().__init__(config)
        self._clock = clock or SystemClock()
        self._session = database(config).session()
        self._catalog = Catalog(self._session)
        #: By partition: until when it rests, and whom a place waits for.
        self._rests_until_ms: dict[str, int] = {}
        self._waiting: dict[str, tuple[Offset, set[str]]] = {}

    @classmethod
    def check(cls, config: Config) -> dict[str, str]:
        wrong = inconsistent(config)
        if wrong:
            return wrong
        source = cls(config)
        try:
            refused = refusal(source._session)
            return source._unfit() if refused == {} else refused or {}
        finally:
            source.close()

    @classmethod
    def check_place(cls, partition: Partition, offset: Offset) -> str:
        # Which of them it needs is its mode's matter; it says so itself.
        numbers = {name: WHOLE for name in ("timestamp", "timestamp_nanos", "incrementing") if name in offset}
        fields = {"query": TEXT} if "query" in partition else {"table": TEXT}
        return unlike("partition", partition, fields) or unlike("offset", offset, numbers)

    def _unfit(self) -> dict[str, str]:
        """What the database has not, by the option that names it."""
        if self.config[QUERY]:
            try:
                origin = self._query()
                self._order(origin)
            except _Unfit as error:
                return {error.option: str(error)}
            except ConnectError as error:
                return {QUERY.name: str(error)}
            return {}
        names = self._tables()
        for wanted in self.config[TABLES]:
            if not any(_matches(wanted, *name) for name in names):
                return {TABLES.name: f"there is no table {wanted}"}
        for schema, name in names:
            try:
                self._order(self._table(schema, name))
            except _Unfit as error:
                return {error.option: str(error)}
        return {}

    def close(self) -> None:
        self._session.close()

    # What there is.

    def partitions(self) -> Sequence[Partition]:
        if self.config[QUERY]:
            return [{"query": "query"}]
        ((database_name,),) = self._session.rows("SELECT current_database()")
        return [{"protocol": "1", "table": f"{database_name}.{schema}.{name}"} for schema, name in self._tables()]

    def _tables(self) -> list[tuple[str, str]]:
        chosen, left_out, pattern = self.config[TABLES], self.config[TABLES_NOT], self.config[SCHEMA_PATTERN]
        return [
            (schema, name)
            for schema, name in self._catalog.names()
            if (not chosen or any(_matches(wanted, schema, name) for wanted in chosen))
            and not any(_matches(unwanted, schema, name) for unwanted in left_out)
            and (not pattern or fnmatchcase(schema, pattern.replace("%", "*")))
        ]

    def _origin(self, partition: Partition) -> Origin:
        if "query" in partition:
            return self._query()
        _, schema, name = str(partition["table"]).split(".", 2)
        return self._table(schema, name)

    def _table(self, schema: str, name: str) -> Origin:
        table = self._catalog.table(schema, name)
        if table is None:
            raise Misconfigured(f"{TABLES.name}: there is no table {schema}.{name} any more")
        return Origin(table.sql, table.name, self.config[PREFIX] + table.name, table.columns, table)

    def _query(self) -> Origin:
        query = self.config[QUERY].strip().rstrip(";")
        columns = self._catalog.columns_of(query)
        return Origin(f"({query.replace('%', '%%')}) AS query", "query", self.config[PREFIX], columns)

    def _order(self, origin: Origin) -> Order | None:
        """How rows are ordered; None in bulk."""
        mode = self.config[MODE]
        if mode == BULK:
            return None
        expressions, casts = [], []
        if mode != INCREMENTING:
            kinds = [self._column(origin, name, TIME_COLUMNS, TIME_TYPES) for name in self.config[TIME_COLUMNS]]
            names = ", ".join(map(sql.quoted, self.config[TIME_COLUMNS]))
            expressions.append(f"COALESCE({names})" if len(kinds) > 1 else names)
            casts.append("timestamptz" if "timestamptz" in kinds else "timestamp")
        if mode != TIMESTAMP:
            name = self.config[NUMBER_COLUMN] or _only_key(origin)
            kind = self._column(origin, name, NUMBER_COLUMN, NUMBER_TYPES)
            expressions.append(sql.quoted(name))
            casts.append("numeric" if kind == "numeric" else "int8")
        return Order(tuple(expressions), tuple(casts), mode != INCREMENTING, mode != TIMESTAMP)

    def _column(self, origin: Origin, name: str, option: Option[Any], kinds: frozenset[str]) -> str:
        column = next((column for column in origin.columns if column.name == name), None)
        if column is None:
            raise _Unfit(option, f"{origin.name} has no column {name!r}")
        if column.kind.name not in kinds:
            raise _Unfit(option, f"{origin.name}.{name} is {column.kind.name}; it must be one of {sorted(kinds)}")
        if (limits := precision_and_scale(column.kind.modifier)) and column.kind.name == "numeric" and limits[1] > 0:
            raise _Unfit(option, f"{origin.name}.{name} has digits behind the point")
        nullable = origin.table is not None and column.is_optional
        if nullable and self.config[NON_NULL] and (option is NUMBER_COLUMN or len(self.config[TIME_COLUMNS]) == 1):
            raise _Unfit(option, f"{origin.name}.{name} may be null; declare it NOT NULL, or set {NON_NULL.name}=false")
        return column.kind.name

    # How far to read.

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        text = str(partition.get("table", ""))
        now_ms = self._clock.now_ms()
        if now_ms < self._rests_until_ms.get(text, 0):
            return start
        origin = self._origin(partition)
        order = self._order(origin)
        if order is None:
            self._rests_until_ms[text] = now_ms + self.config[POLL_MS]
            return {"read_ms": now_ms}
        if start is None and self._begins_now(order):
            return self._now(order)
        if text not in self._waiting:
            found = self._next(origin, order, start, limit)
            if found is None:
                self._rests_until_ms[text] = now_ms + self.config[POLL_MS]
                return start
            self._waiting[text] = found, self._writers(origin)
        found, writers = self._waiting[text]
        if writers and writers & self._writers(origin):
            return start
        del self._waiting[text]
        return found

    def _next(self, origin: Origin, order: Order, start: Offset | None, limit: int) -> Offset | None:
        conditions, parameters = self._behind(order, start)
        if order.has_time:
            delay = f"interval '{self.config[TIME_DELAY_MS]} milliseconds'"
            conditions.append(f"{order.expressions[0]} <= (clock_timestamp() - {delay})::{order.casts[0]}")
        rows = self._session.rows(sql.last_of(origin.sql, order.expressions, conditions), (*parameters, limit))
        return order.offset(rows[0]) if rows else None

    def _behind(self, order: Order, start: Offset | None) -> tuple[list[str], list[Any]]:
        if start is None and order.has_time and self.config[TIME_INITIAL] is not None:
            start = {"timestamp": self.config[TIME_INITIAL]}
        if start is None:
            return [f"{expression} IS NOT NULL" for expression in order.expressions], []
        return [sql.behind(order.expressions, order.casts)], order.values(start)

    def _begins_now(self, order: Order) -> bool:
        return order.has_time and bool(self.config[TIME_INITIAL] == NOW)

    def _now(self, order: Order) -> Offset:
        """This moment, by the database's clock: noted as the first place, for later it would be another."""
        ((text,),) = self._session.rows(f"SELECT clock_timestamp()::{order.casts[0]}::text")
        return replace(order, has_number=False).offset([text])

    def _writers(self, origin: Origin) -> set[str]:
        """Who may yet bring rows with numbers below those that are there."""
        if origin.table is None:
            return set()
        return {transaction for (transaction,) in self._session.rows(WRITERS, (origin.table.oid, origin.table.oid))}

    # Reading.

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        origin = self._origin(partition)
        order = self._order(origin)
        conditions: list[str] = []
        parameters: list[Any] = []
        ordered = ""
        if order is not None:
            if start is None and self._begins_now(order):
                return ()
            conditions, parameters = self._behind(order, start)
            conditions.append(sql.up_to(order.expressions, order.casts))
            parameters += order.values(end)
            ordered = f" ORDER BY {', '.join(order.expressions)}"
        columns = sql.listed([column.name for column in origin.columns])
        statement = f"SELECT {columns} FROM {origin.sql}{sql.where(conditions)}{ordered}"
        return self._records(origin, statement, parameters)

    def _records(self, origin: Origin, statement: str, parameters: Sequence[Any]) -> Iterator[Record]:
        mapping = Mapping(decimals="best_fit" if "best_fit" in self.config[NUMERIC] else "precise")
        codecs = [(column, codec_of(column.kind, mapping)) for column in origin.columns]
        fields = tuple(
            Field(column.name, codec.schema.as_optional() if column.is_optional else codec.schema)
            for column, codec in codecs
        )
        schema = Schema(Type.STRUCT, name=origin.name, fields=fields)
        loads = [(column.name, codec.load) for column, codec in codecs]
        for texts in self._session.texts(statement, parameters, origin.name):
            value = {
                name: None if text is None else load(text) for (name, load), text in zip(loads, texts, strict=True)
            }
            yield Record(origin.topic, value, value_schema=schema)


class _Unfit(Misconfigured):
    """A table that the config does not fit, and the option to blame."""

    def __init__(self, option: Option[Any], text: str) -> None:
        super().__init__(text)
        self.option = option.name


def _only_key(origin: Origin) -> str:
    if origin.table is None or len(origin.table.key) != 1:
        raise _Unfit(NUMBER_COLUMN, f"{origin.name} has no primary key of one column; name the column")
    return origin.table.key[0]


def _matches(wanted: str, schema: str, name: str) -> bool:
    return fnmatchcase(name, wanted) or fnmatchcase(f"{schema}.{name}", wanted)
