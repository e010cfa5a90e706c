"""Connections to a PostgreSQL, and what its refusals mean to a connector."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from millstream.pipelines.connect.errors import ConnectError, DataError, Misconfigured, Unreachable

if TYPE_CHECKING:
    import psycopg

CONNECT_TIMEOUT_S = 10
SCHEME = "jdbc:postgresql:"
#: Values come as text; this is the text that ``types`` reads.
SESSION = {
    "datestyle": "ISO, YMD",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}
#: What pgjdbc calls a parameter -> what libpq calls it.  Others of pgjdbc's are for Java, and are passed over.
PARAMETERS = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslrootcert": "sslrootcert",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "options": "options",
}

#: How a SQLSTATE begins -> what it is to us; the longest beginning counts, and anything else may pass with another try.
MEANINGS: dict[str, type[ConnectError]] = {
    "08": Unreachable,  # The connection broke.
    "22": DataError,
    "23": DataError,
    "28": Misconfigured,  # Not let in.
    "3D": Misconfigured,  # No such database.
    "3F": Misconfigured,  # No such schema.
    "40": Unreachable,  # Deadlocks.
    "42": Misconfigured,  # No such table or column, no right to it, no SQL at all.
    "53": Unreachable,  # Full.
    "55006": Unreachable,  # The slot is in use: by somebody that was killed, and is not gone yet.
    "55000": Misconfigured,  # Not for such a table; wal_level is not logical.
    "57P": Unreachable,  # Starting, stopping.
}


#: A row, each value as the text that PostgreSQL writes.
Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Database:
    """Where a database is, and as whom to go there."""

    parameters: tuple[tuple[str, str], ...]

    @classmethod
    def at(cls, **parameters: str | int | None) -> "Database":
        """By libpq's names; what is None or empty is left to libpq."""
        return cls(tuple((name, str(value)) for name, value in parameters.items() if value not in (None, "")))

    def session(self) -> "Session":
        """A connection, not yet open."""
        return Session(self)

    def connect(self) -> "psycopg.Connection[Any]":
        """A session in which each statement is a transaction, unless one is begun."""
        try:
            import psycopg
        except ImportError:
            raise Misconfigured("PostgreSQL needs psycopg: pip install 'millstream[postgres]'") from None
        chosen: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "millstream"}
        chosen.update(self.parameters)
        with meaning():
            connection = psycopg.connect(autocommit=True, **chosen)
            settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SESSION.items())
            connection.execute(f"SELECT {settings}")
        return connection


class Session:
    """A connection that is opened when it is first used, and anew when something went wrong with the last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None

    @contextmanager
    def use(self, where: str = "") -> "Iterator[psycopg.Connection[Any]]":
        """The connection; errors in here are ours, with ``where`` in front."""
        if self._connection is None:
            self._connection = self._database.connect()
        try:
            with meaning(where):
                yield self._connection
        except BaseException:
            self.close()  # Whatever state it was left in, nobody meets it again.
            raise

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query answers, all at once."""
        with self.use() as connection:
            return connection.execute(statement, parameters).fetchall()

    def run(self, statement: str) -> None:
        """A statement that answers nothing."""
        with self.use() as connection:
            connection.execute(statement, ())

    def texts(self, statement: str, parameters: Sequence[Any] = (), where: str = "") -> Iterator[Texts]:
        """What a query answers, as text and row by row, however much it is."""
        copied = f"COPY ({statement}) TO STDOUT"
        with self.use(where) as connection, connection.cursor() as cursor, cursor.copy(copied, parameters) as copy:
            yield from copy.rows()

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def database_of(url: str, user: str | None = None, password: str | None = None) -> Database:
    """The database of pgjdbc's ``jdbc:postgresql://HOST:PORT/NAME?PARAMETERS``; a ValueError says what is wrong."""
    if not url.startswith(SCHEME):
        raise ValueError(f"must begin with {SCHEME}//, for PostgreSQL is the only database that is known")
    rest = url.removeprefix(SCHEME)
    parts = urlsplit(rest if rest.startswith("//") else f"//localhost/{rest}")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port must be a number up to 65535") from None
    name = unquote(parts.path.removeprefix("/"))
    if "/" in name:
        raise ValueError("must be jdbc:postgresql://HOST:PORT/DATABASE")
    given = {PARAMETERS[key]: value for key, value in parse_qsl(parts.query) if key in PARAMETERS}
    given |= {key: value for key, value in (("user", user), ("password", password)) if value}
    return Database.at(**given, host=parts.hostname or "localhost", port=port or 5432, dbname=name)


@contextmanager
def meaning(where: str = "") -> Iterator[None]:
    """What psycopg raises, as what it means to a connector."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise translated(error, where) from error


def translated(error: "psycopg.Error", where: str = "") -> ConnectError:
    """An error of psycopg's as one of ours, in a line."""
    import psycopg

    line = re.sub(r"\s*\n\s*", "; ", str(error).strip())
    text = f"{where}: {line}" if where else line
    state = error.sqlstate
    if state is None:
        # Never got as far as being answered, or no longer: libpq gives no code when it is not let in, either.
        if "password authentication failed" in text or "no password supplied" in text or re.search(_NO_SUCH, text):
            return Misconfigured(text)
        return Unreachable(text) if isinstance(error, psycopg.OperationalError) else ConnectError(text)
    found = next((MEANINGS[state[:size]] for size in (5, 3, 2) if state[:size] in MEANINGS), ConnectError)
    return found(text)


_NO_SUCH = r'(role|database) "[^"]*" does not exist|no pg_hba.conf entry'
