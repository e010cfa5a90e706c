"""Where a database is, and what its refusals mean."""

import psycopg
import pytest

from millstream.pipelines.connect.errors import ConnectError, DataError, Misconfigured, Unreachable
from millstream.pipelines.connect.postgres.connection import Database, database_of, translated


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("jdbc:postgresql://db:6543/shop", {"host": "db", "port": "6543", "dbname": "shop"}),
        ("jdbc:postgresql://db/shop", {"host": "db", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql:shop", {"host": "localhost", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql://[::1]/a%20b", {"host": "::1", "port": "5432", "dbname": "a b"}),
        (
            "jdbc:postgresql://db/shop?user=me&sslmode=require&loggerLevel=OFF",
            {"user": "me", "sslmode": "require", "host": "db", "port": "5432", "dbname": "shop"},
        ),
    ],
)
def test_a_url_of_jdbc_s_names_a_database(url: str, parameters: dict[str, str]) -> None:
    assert dict(database_of(url).parameters) == parameters


def test_a_user_that_is_named_apart_goes_before_the_url_s() -> None:
    found = dict(database_of("jdbc:postgresql://db/shop?user=me&password=a", "you", "b").parameters)
    assert (found["user"], found["password"]) == ("you", "b")


@pytest.mark.parametrize("url", ["jdbc:mysql://db/shop", "postgresql://db/shop", "jdbc:postgresql://db:port/shop"])
def test_what_names_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"jdbc:postgresql:|port"):
        database_of(url)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.UniqueViolation("x"), DataError),
        (psycopg.errors.NumericValueOutOfRange("x"), DataError),
        (psycopg.errors.UndefinedTable("x"), Misconfigured),
        (psycopg.errors.InvalidPassword("x"), Misconfigured),
        (psycopg.errors.DeadlockDetected("x"), Unreachable),
        (psycopg.errors.AdminShutdown("x"), Unreachable),
        (psycopg.errors.ObjectInUse("x"), Unreachable),
        (psycopg.OperationalError("connection refused"), Unreachable),
        (psycopg.OperationalError('FATAL:  database "x" does not exist'), Misconfigured),
        (psycopg.errors.InternalError_("x"), ConnectError),
    ],
)
def test_what_a_database_says_is_put_to_whom_it_concerns(error: psycopg.Error, kind: type[ConnectError]) -> None:
    found = translated(error, "here")
    assert type(found) is kind
    assert str(found).startswith("here: ")


def test_nobody_at_the_door_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        Database.at(host="127.0.0.1", port=1, dbname="x", user="y").connect()
