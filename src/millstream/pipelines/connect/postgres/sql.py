"""Statements, put together from names and options.  Values are always parameters, in psycopg's manner (``%s``)."""

from collections.abc import Sequence


def quoted(name: str) -> str:
    """A name in a statement that has parameters."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def listed(names: Sequence[str]) -> str:
    """Names with commas between."""
    return ", ".join(map(quoted, names))


def holes(count: int) -> str:
    """Places for so many values."""
    return ", ".join(["%s"] * count)


def row(expressions: Sequence[str]) -> str:
    """Several expressions as one that can be compared; one is itself."""
    return expressions[0] if len(expressions) == 1 else f"({', '.join(expressions)})"


def behind(expressions: Sequence[str], casts: Sequence[str]) -> str:
    """What lies behind a place, in the order of the expressions."""
    return f"{row(expressions)} > {row([f'%s::{cast}' for cast in casts])}"


def up_to(expressions: Sequence[str], casts: Sequence[str]) -> str:
    """What lies at or before a place."""
    return f"{row(expressions)} <= {row([f'%s::{cast}' for cast in casts])}"


def where(conditions: Sequence[str]) -> str:
    """All of these; nothing without any."""
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def last_of(source: str, expressions: Sequence[str], conditions: Sequence[str], counted: bool = False) -> str:
    """The place of the last of the next so many rows (a parameter more) in order, as text; and how many there are."""
    names = [f"c{number}" for number in range(len(expressions))]
    chosen = ", ".join(f"{expression} AS {name}" for expression, name in zip(expressions, names, strict=True))
    inner = f"SELECT {chosen} FROM {source}{where(conditions)} ORDER BY {', '.join(names)} LIMIT %s"
    backwards = ", ".join(f"{name} DESC" for name in names)
    shown = ", ".join(f"{name}::text" for name in names)
    if counted:
        shown += ", count(*) OVER ()"
    return f"SELECT {shown} FROM ({inner}) AS next ORDER BY {backwards} LIMIT 1"


# A sink's statements.


def insert(table: str, columns: Sequence[str]) -> str:
    """A row more."""
    if not columns:
        return f"INSERT INTO {table} DEFAULT VALUES"
    return f"INSERT INTO {table} ({listed(columns)}) VALUES ({holes(len(columns))})"


def upsert(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    """A row more, or in place of the one with its key."""
    rest = [column for column in columns if column not in key]
    assigned = ", ".join(f"{quoted(column)} = EXCLUDED.{quoted(column)}" for column in rest)
    action = f"DO UPDATE SET {assigned}" if rest else "DO NOTHING"
    return f"{insert(table, columns)} ON CONFLICT ({listed(key)}) {action}"


def update(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    """The row of a key, changed; parameters are those of the columns, then the key's."""
    assigned = ", ".join(f"{quoted(column)} = %s" for column in columns)
    return f"UPDATE {table} SET {assigned} WHERE {_is(key)}"


def delete(table: str, key: Sequence[str]) -> str:
    """The row of a key, gone."""
    return f"DELETE FROM {table} WHERE {_is(key)}"


def _is(key: Sequence[str]) -> str:
    return " AND ".join(f"{quoted(column)} = %s" for column in key)


def create(table: str, columns: Sequence[tuple[str, str, bool]], key: Sequence[str]) -> str:
    """A table of columns, each with its type and whether it may be null."""
    parts = [f"{quoted(name)} {kind}{'' if optional else ' NOT NULL'}" for name, kind, optional in columns]
    if key:
        parts.append(f"PRIMARY KEY ({listed(key)})")
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(parts)})"


def widen(table: str, columns: Sequence[tuple[str, str]]) -> str:
    """More columns, which rows that are there have no values for."""
    return f"ALTER TABLE {table} " + ", ".join(f"ADD COLUMN IF NOT EXISTS {quoted(n)} {kind}" for n, kind in columns)
