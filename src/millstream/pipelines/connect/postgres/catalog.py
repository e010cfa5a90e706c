"""What a database has: its tables, their columns and keys, and what its types are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millstream.pipelines.connect.postgres.connection import Session
from millstream.pipelines.connect.postgres.sql import quoted
from millstream.pipelines.connect.postgres.types import TEXT, PgType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or of a query's answer."""

    name: str
    kind: PgType
    is_optional: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is now."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    #: The names of the primary key's columns; none without one.
    key: tuple[str, ...]

    @property
    def sql(self) -> str:
        """Its name in a statement."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((column for column in self.columns if column.name == name), None)


NAMES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\\_%%'
AND n.nspname <> 'information_schema' ORDER BY 1, 2
"""
COLUMNS = """
SELECT attname, atttypid, atttypmod, attnotnull FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
PRIMARY_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place
"""
TYPES = """
WITH RECURSIVE needed AS (
    SELECT * FROM pg_type WHERE oid = ANY(%s)
    UNION SELECT t.* FROM pg_type t JOIN needed n ON t.oid IN (n.typbasetype, n.typelem)
)
SELECT oid::bigint, typname, CASE typtype WHEN 'd' THEN typbasetype::bigint ELSE 0 END, typtypmod,
CASE typcategory WHEN 'A' THEN typelem::bigint ELSE 0 END FROM needed
"""
NAME = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
OID = "SELECT to_regclass(concat(quote_ident(%s::text) || '.', quote_ident(%s::text)))::oid::bigint"


class Catalog:
    """A database's catalog, asked over a session; types are asked for once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._types: dict[int, tuple[str, int, int, int]] = {}

    def names(self) -> list[tuple[str, str]]:
        """Schema and name of every table that is not the server's own."""
        return [(schema, name) for schema, name in self._session.rows(NAMES)]

    def table(self, schema: str | None, name: str) -> Table | None:
        """A table or view; without a schema it is looked for as an unqualified name is."""
        ((oid,),) = self._session.rows(OID, (schema, name))
        if oid is None:
            return None
        (found,) = self._session.rows(NAME, (oid,))
        key = tuple(column for (column,) in self._session.rows(PRIMARY_KEY, (oid,)))
        rows = self._session.rows(COLUMNS, (oid,))
        self.learn([row[1] for row in rows])
        columns = (Column(row[0], self.kind(row[1], row[2]), not row[3]) for row in rows)
        return Table(oid, found[0], found[1], tuple(columns), key)

    def columns_of(self, query: str) -> tuple[Column, ...]:
        """The columns of what a query answers."""
        with self._session.use("query") as connection:
            result = connection.execute(f"SELECT * FROM ({query}) AS query LIMIT 0".encode()).pgresult
            assert result is not None
            fields = [(result.fname(at), result.ftype(at), result.fmod(at)) for at in range(result.nfields)]
        self.learn([oid for _, oid, _ in fields])
        return tuple(Column((name or b"").decode(), self.kind(oid, modifier)) for name, oid, modifier in fields)

    def learn(self, oids: Sequence[int]) -> None:
        """Ask for those types that are not known yet, in one question."""
        if missing := sorted(set(oids) - self._types.keys()):
            for oid, name, base, base_modifier, element in self._session.rows(TYPES, (missing,)):
                self._types[oid] = name, base, base_modifier, element

    def kind(self, oid: int, modifier: int) -> PgType:
        """A type; text where it is gone by now."""
        if oid not in self._types:
            return TEXT
        name, base, base_modifier, element = self._types[oid]
        if base:
            return self.kind(base, base_modifier)
        if element:
            return replace(PgType(name), element=self.kind(element, modifier))
        return PgType(name, modifier)
