"""Records as rows of tables: more of them, in place of those with their key, or their end; options as Confluent's.

Rows and how far their topic partition is are written in one transaction, so a row is there exactly once however often
its record comes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from millstream.config.setting import BOOLEAN, INT, LIST, NOT_EMPTY, STRING, at_least, one_of
from millstream.pipelines.connect.base import Batch, Sink
from millstream.pipelines.connect.errors import DataError, Misconfigured, Unreachable
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.postgres import sql
from millstream.pipelines.connect.postgres.catalog import Catalog
from millstream.pipelines.connect.postgres.connection import translated
from millstream.pipelines.connect.postgres.options import SECRET, URL, USER, database, refusal
from millstream.pipelines.connect.postgres.rows import Row, Shape, row_of, stored, table_of, type_of
from millstream.pipelines.connect.record import Record

if TYPE_CHECKING:
    import psycopg

_GROUP = "Writes"

INSERT_MODE = Option[str](
    "insert.mode",
    STRING,
    default="insert",
    check=one_of("insert", "upsert", "update"),
    doc="insert: every record is a row more; upsert: a row more, or in place of the one with its key; update: rows "
    "that are there change, and no others.",
    importance="HIGH",
    group=_GROUP,
    recommended=("insert", "upsert", "update"),
)
PK_MODE = Option[str](
    "pk.mode",
    STRING,
    default="none",
    check=one_of("none", "kafka", "record_key", "record_value"),
    doc="Where a row's key comes from: nowhere; the record's topic, partition and offset; its key; its value.",
    importance="HIGH",
    group=_GROUP,
    recommended=("none", "kafka", "record_key", "record_value"),
)
PK_FIELDS = Option[tuple[str, ...]](
    "pk.fields",
    LIST,
    default=(),
    doc="The fields that are the key; all of the record's key or value when empty. For a key that is no struct, its "
    "column.",
    group=_GROUP,
)
FIELDS = Option[tuple[str, ...]](
    "fields.whitelist", LIST, default=(), doc="The value's fields that are written; all when empty.", group=_GROUP
)
TABLE = Option[str](
    "table.name.format",
    STRING,
    default="${topic}",
    check=NOT_EMPTY,
    doc="The table, or SCHEMA.TABLE, with ${topic} for the topic's name, dots and all.",
    group=_GROUP,
)
DELETES = Option[bool](
    "delete.enabled",
    BOOLEAN,
    default=False,
    doc="Whether a record without a value ends the row of its key; pk.mode must be record_key.",
    group=_GROUP,
)
CREATES = Option[bool](
    "auto.create", BOOLEAN, default=False, doc="Whether tables are made that are not there.", group=_GROUP
)
EVOLVES = Option[bool](
    "auto.evolve", BOOLEAN, default=False, doc="Whether tables get columns that they do not have.", group=_GROUP
)
BATCH_SIZE = Option[int](
    "batch.size", INT, default=3_000, check=at_least(1), doc="How many rows a transaction has at most.", group=_GROUP
)
RETRIES = Option[int](
    "max.retries",
    INT,
    default=10,
    check=at_least(0),
    doc="How often a transaction is tried again at once that lost against another.",
    importance="LOW",
    group=_GROUP,
)
PROGRESS_TABLE = Option[str](
    "offsets.table.name",
    STRING,
    default="millstream_connect_offsets",
    check=NOT_EMPTY,
    doc="The table that says how far each topic partition is; made where it is missing.",
    importance="LOW",
    group=_GROUP,
)

PROGRESS_COLUMNS = """(
    connector TEXT, query TEXT, topic TEXT, partition INT, next_offset BIGINT NOT NULL, batch BIGINT NOT NULL,
    refused JSONB NOT NULL, PRIMARY KEY (connector, query, topic, partition)
)"""


@dataclass
class Progress:
    """How far a topic partition is: all before ``next_offset`` was taken, but for those that were refused."""

    next_offset: int = 0
    batch: int = -1
    #: In this batch: their offsets, and why.  Should it come again, they are refused again.
    refused: dict[str, str] = field(default_factory=dict)


class JdbcSink(Sink):
    """Writes into tables of a PostgreSQL."""

    options = (
        *(URL, USER, SECRET, INSERT_MODE, PK_MODE, PK_FIELDS, FIELDS, TABLE, DELETES, CREATES, EVOLVES),
        *(BATCH_SIZE, RETRIES, PROGRESS_TABLE),
    )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._session = database(config).session()
        self._catalog = Catalog(self._session)
        self._shape = Shape(
            config[PK_MODE],
            config[PK_FIELDS],
            config[FIELDS],
            config[DELETES],
            changes=config[INSERT_MODE] != "insert",
            table_format=config[TABLE],
        )
        #: Tables that were looked at: their name in statements, and the columns they have.
        self._known: dict[tuple[str | None, str], tuple[str, set[str]]] = {}
        self._progress_is_there = False
        #: Whom the dead letters have, in this call of ``write``.
        self._refused: set[int] = set()

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        wrong = _inconsistent(config)
        if wrong:
            return wrong
        sink = cls(config)
        try:
            refused = refusal(sink._session)
            return sink._unfit() if refused == {} else refused or {}
        finally:
            sink.close()

    def _unfit(self) -> dict[str, str]:
        """What the database has not, by option; topics that are renamed on their way are not looked at."""
        if "transforms" in self.config.given:
            return {}
        for topic in filter(None, map(str.strip, self.config.given.get("topics", "").split(","))):
            schema, name = table_of(topic, self.config[TABLE])
            table = self._catalog.table(schema, name)
            if table is None:
                if not self.config[CREATES]:
                    return {TABLE.name: f"there is no table {name}, and {CREATES.name} is false"}
            elif missing := [column for column in self.config[PK_FIELDS] if table.column(column) is None]:
                return {PK_FIELDS.name: f"{name} has no column {missing[0]!r}"}
        return {}

    def close(self) -> None:
        self._session.close()

    # Writing.

    def write(self, records: Iterator[Record], batch: Batch) -> None:
        self._refused.clear()
        while taken := list(islice(records, self.config[BATCH_SIZE])):
            for left in range(self.config[RETRIES], -1, -1):
                try:
                    self._take(taken, batch)
                    break
                except Unreachable as error:
                    # Deadlocks and the like are nobody's fault, and over once one of the two gives way.
                    if not left or not str(getattr(error.__cause__, "sqlstate", None)).startswith("40"):
                        raise

    def _take(self, records: Sequence[Record], batch: Batch) -> None:
        """These, unless they were taken before, and how far that is, at once."""
        first = records[0]
        assert all(each.partition == first.partition for each in records), "a task has one topic partition"
        place = (self.config.name, batch.query, first.origin or first.topic, first.partition)
        self._ensure_progress()
        progress = self._progress(place, batch)
        rows = self._rows(records, progress)
        for table in {row.table: None for row in rows}:
            self._fit(table, [row for row in rows if row.table == table])
        with self._session.use() as connection, connection.transaction():
            now = self._progress(place, batch, "FOR UPDATE")
            for record in records if now.next_offset > progress.next_offset else ():
                # Another attempt, given up for dead, was quicker.
                if (why := now.refused.get(str(record.offset))) is not None:
                    self._refuse(record, DataError(why), progress)
            rows = [row for row in rows if _offset(row.record) >= now.next_offset]
            for _, alike in groupby(rows, _kind):
                group = list(alike)
                name, columns = self._known[group[0].table]
                if columns:  # Else there is no table yet that a row could be deleted from.
                    self._execute(connection, self._statement(name, group[0]), group, progress)
            progress.next_offset = max(progress.next_offset, now.next_offset, _offset(records[-1]) + 1)
            self._note(connection, place, progress)

    def _rows(self, records: Sequence[Record], progress: Progress) -> list[Row]:
        """The rows to write; those that cannot be are refused, now as they were before."""
        rows = []
        for record in records:
            if _offset(record) < progress.next_offset:
                if (why := progress.refused.get(str(record.offset))) is not None:
                    self._refuse(record, DataError(why), progress)
                continue
            try:
                row = row_of(record, self._shape)
                if row is not None:
                    self._check_columns(row)
                    rows.append(row)
            except DataError as error:
                self._refuse(record, error, progress)
        return rows

    def _refuse(self, record: Record, error: DataError, progress: Progress) -> None:
        if _offset(record) not in self._refused:  # Else a transaction is tried again.
            self.refuse(record, error)
            self._refused.add(_offset(record))
        progress.refused[str(record.offset)] = str(error)

    def _execute(
        self, connection: "psycopg.Connection[Any]", statement: str, rows: Sequence[Row], progress: Progress
    ) -> None:
        """All at once; where that fails, one by one, to find those that are to blame."""
        import psycopg

        def parameters(row: Row) -> list[Any]:
            cells = [row.cells[name] for name in row.key] if row.is_end else list(row.cells.values())
            if self._is_update(row):
                cells = [cell for name, cell in row.cells.items() if name not in row.key]
                cells += [row.cells[name] for name in row.key]
            return [stored(cell) for cell in cells]

        try:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(statement, [parameters(row) for row in rows])
            return
        except (DataError, psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError):
            pass
        for row in rows:
            try:
                with connection.transaction():
                    connection.execute(statement, parameters(row))
            except DataError as error:
                self._refuse(row.record, error, progress)
            except (psycopg.DataError, psycopg.IntegrityError) as error:
                self._refuse(row.record, DataError(str(translated(error))), progress)
            except psycopg.errors.DatatypeMismatch as error:
                self._refuse(row.record, DataError(str(translated(error))), progress)

    def _is_update(self, row: Row) -> bool:
        """Whether there must be a row: that is asked for, or only it has some of the values."""
        return not row.is_end and (self.config[INSERT_MODE] == "update" or row.is_partial)

    def _statement(self, table: str, row: Row) -> str:
        """What writes the row, and those that are alike."""
        columns = tuple(row.cells)
        if row.is_end:
            return sql.delete(table, row.key)
        if self._is_update(row):
            return sql.update(table, [column for column in columns if column not in row.key], row.key)
        if self.config[INSERT_MODE] == "upsert":
            return sql.upsert(table, columns, row.key)
        return sql.insert(table, columns)

    # Tables.

    def _fit(self, name: tuple[str | None, str], rows: Sequence[Row]) -> None:
        """Make the table, and columns, for these; in a transaction of its own, for others must not wait for rows."""
        table, columns = self._known[name]
        cells = {column: cell for row in rows if not row.is_end for column, cell in row.cells.items()}
        missing = {column: cell for column, cell in cells.items() if column not in columns}
        if not missing:
            return
        lock = f"{name[0]}.{name[1]}"
        with self._session.use(table) as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (lock,))
            if not columns:
                key = rows[0].key
                made = [(column, type_of(cell.schema), cell.schema.optional) for column, cell in cells.items()]
                connection.execute(sql.create(table, made, key), ())
            # It may have been there by now, with other columns.
            added = [(column, type_of(cell.schema)) for column, cell in missing.items()]
            connection.execute(sql.widen(table, added), ())
        columns.update(missing)

    def _check_columns(self, row: Row) -> None:
        """Whether the table can take the row, once what may be made is made."""
        if row.table not in self._known:
            schema, name = row.table
            found = self._catalog.table(schema, name)
            if found is None and not self.config[CREATES]:
                raise Misconfigured(f"{TABLE.name}: there is no table {name}, and {CREATES.name} is false")
            path = f"{sql.quoted(schema)}.{sql.quoted(name)}" if schema else sql.quoted(name)
            columns = {column.name for column in found.columns} if found else set()
            self._known[row.table] = (found.sql if found else path), columns
        columns = self._known[row.table][1]
        if columns and not self.config[EVOLVES]:
            for column in row.cells:
                if column not in columns:
                    raise DataError(f"{row.table[1]} has no column {column!r}, and {EVOLVES.name} is false")

    # How far it is.

    def _ensure_progress(self) -> None:
        if self._progress_is_there:
            return
        name = sql.quoted(self.config[PROGRESS_TABLE])
        if self._catalog.table(None, self.config[PROGRESS_TABLE]) is None:
            with self._session.use(PROGRESS_TABLE.name) as connection, connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (name,))
                connection.execute(f"CREATE TABLE IF NOT EXISTS {name} {PROGRESS_COLUMNS}", ())
        self._progress_is_there = True

    def _progress(self, place: Sequence[Any], batch: Batch, lock: str = "") -> Progress:
        name = sql.quoted(self.config[PROGRESS_TABLE])
        if lock:  # There must be a row, to be locked.
            insert = f"INSERT INTO {name} VALUES (%s, %s, %s, %s, 0, -1, '{{}}') ON CONFLICT DO NOTHING"
            with self._session.use() as connection:
                connection.execute(insert, place)
        which = "connector = %s AND query = %s AND topic = %s AND partition = %s"
        rows = self._session.rows(f"SELECT next_offset, batch, refused FROM {name} WHERE {which} {lock}", place)
        progress = Progress(*rows[0]) if rows else Progress()
        if progress.batch < batch.number:
            # All of it is new, whatever its offsets: a topic may have been made again.
            return Progress(batch=batch.number)
        return progress

    def _note(self, connection: "psycopg.Connection[Any]", place: Sequence[Any], progress: Progress) -> None:
        connection.execute(
            f"UPDATE {sql.quoted(self.config[PROGRESS_TABLE])} SET next_offset = %s, batch = %s, refused = %s "
            "WHERE connector = %s AND query = %s AND topic = %s AND partition = %s",
            (progress.next_offset, progress.batch, json.dumps(progress.refused), *place),
        )


def _offset(record: Record) -> int:
    assert record.offset is not None, "a sink is told offsets"
    return record.offset


def _kind(row: Row) -> tuple[Any, ...]:
    """Rows that are alike in this are written by one statement."""
    return row.table, tuple(row.cells), row.key, row.is_end, row.is_partial


def _inconsistent(config: Config) -> Mapping[str, str]:
    """What options say against each other."""
    mode, fields = config[PK_MODE], config[PK_FIELDS]
    if config[INSERT_MODE] != "insert" and mode == "none":
        return {PK_MODE.name: f"insert.mode={config[INSERT_MODE]} needs a key"}
    if config[DELETES] and mode != "record_key":
        return {DELETES.name: "deletes need pk.mode=record_key"}
    if mode == "kafka" and len(fields) not in (0, 3):
        return {PK_FIELDS.name: "pk.mode=kafka takes three names, for topic, partition and offset"}
    return {}
