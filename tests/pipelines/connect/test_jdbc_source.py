"""Tables and queries of a real PostgreSQL as records."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.errors import Misconfigured, Unreachable
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Type
from millstream.pipelines.connect.sources.jdbc import JdbcSource
from tests.pipelines.connect.contract import Reading, config_of, refused
from tests.pipelines.connect.postgres import PostgresServer, TestDatabase


@pytest.fixture
def given(database: TestDatabase) -> dict[str, str]:
    """The least that a config says, and no rest between questions."""
    return {"connection.url": database.url, "topic.prefix": "t-", "poll.interval.ms": "0"}


@pytest.fixture
def orders(database: TestDatabase) -> Iterator[TestDatabase]:
    database.run(
        "CREATE TABLE orders (id SERIAL PRIMARY KEY, item TEXT, changed TIMESTAMPTZ NOT NULL DEFAULT now())",
        "INSERT INTO orders (item) SELECT 'item ' || n FROM generate_series(1, 5) n",
    )
    yield database


def items(records: list[Record]) -> list[Any]:
    return [record.value["item"] for record in records]


INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}


def test_rows_with_higher_numbers_come_once_in_batches_of_a_bounded_size(
    orders: TestDatabase, given: dict[str, str]
) -> None:
    with closing(Reading(JdbcSource, {**given, **INCREMENTING})) as reading:
        first = reading.next(3)
        assert items(first) == ["item 1", "item 2", "item 3"]
        assert {record.topic for record in first} == {"t-orders"}
        assert items(reading.next(3)) == ["item 4", "item 5"]
        assert not reading.plan()
        orders.run("INSERT INTO orders (item) VALUES ('new')")
        assert items(reading.next()) == ["new"]
        assert list(reading.offsets.values()) == [{"incrementing": 6}]
        assert list(reading.offsets) == [f'{{"protocol":"1","table":"{orders.name}.public.orders"}}']


def test_a_range_that_is_read_again_after_a_crash_has_the_same_rows_whatever_came_meanwhile(
    orders: TestDatabase, given: dict[str, str]
) -> None:
    with closing(Reading(JdbcSource, {**given, **INCREMENTING})) as reading:
        assert reading.plan()
        before = reading.read()
        orders.run("INSERT INTO orders (item) VALUES ('later')")
        reading.restart()
        assert reading.read() == before
        reading.commit()
        assert items(reading.all()) == ["later"]


def test_a_row_of_a_transaction_that_commits_late_is_waited_for(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(JdbcSource, {**given, **INCREMENTING})) as reading, closing(orders.connect()) as slow:
        reading.all()
        slow.execute("BEGIN")
        slow.execute("INSERT INTO orders (item) VALUES ('slow')")
        orders.run("INSERT INTO orders (item) VALUES ('fast')")
        assert not reading.plan()
        slow.execute("COMMIT")
        assert items(reading.all()) == ["slow", "fast"]


def test_changed_rows_come_again_by_their_time(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("UPDATE orders SET changed = '2024-01-01 00:00:00.000001Z'")
    mode = {"mode": "timestamp", "timestamp.column.name": "changed"}
    with closing(Reading(JdbcSource, {**given, **mode})) as reading:
        assert len(reading.next(2)) == 5, "rows of one moment are never parted"
        assert list(reading.offsets.values()) == [{"timestamp": 1704067200000, "timestamp_nanos": 1000}]
        orders.run("UPDATE orders SET item = 'changed', changed = now() WHERE id = 2")
        assert items(reading.all()) == ["changed"]
        orders.run("INSERT INTO orders (item, changed) VALUES ('in the future', now() + interval '1 hour')")
        assert not reading.plan()


def test_rows_of_one_moment_are_told_apart_by_their_number(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("UPDATE orders SET changed = '2024-01-01'")
    mode = {**INCREMENTING, "mode": "timestamp+incrementing", "timestamp.column.name": "changed"}
    with closing(Reading(JdbcSource, {**given, **mode})) as reading:
        assert items(reading.next(2)) == ["item 1", "item 2"]
        assert items(reading.next(2)) == ["item 3", "item 4"]
        orders.run("UPDATE orders SET item = 'again', changed = '2024-01-02' WHERE id = 1")
        assert items(reading.all(2)) == ["item 5", "again"]


def test_rows_from_before_a_given_time_are_left_out(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("UPDATE orders SET changed = '2024-01-01' WHERE id < 5")
    mode = {"mode": "timestamp", "timestamp.column.name": "changed", "timestamp.initial": "1704067200000"}
    with closing(Reading(JdbcSource, {**given, **mode})) as reading:
        assert items(reading.all()) == ["item 5"]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_rows_from_before_the_start_are_left_out_and_none_since(
    orders: TestDatabase, given: dict[str, str], mode: str
) -> None:
    mine = {"mode": mode, "timestamp.column.name": "changed", "timestamp.initial": "-1"}
    with closing(Reading(JdbcSource, {**given, **mine})) as reading:
        assert reading.all() == []
        orders.run("INSERT INTO orders (id, item, changed) VALUES (6, 'item 6', clock_timestamp())")
        assert reading.plan()
        reading.restart()
        assert items(reading.read()) == ["item 6"]


def test_in_bulk_every_row_comes_each_time(orders: TestDatabase, given: dict[str, str]) -> None:
    given = {**given, "mode": "bulk", "poll.interval.ms": "1"}
    with closing(Reading(JdbcSource, given)) as reading:
        assert len(reading.next()) == 5
        while not reading.plan():
            pass
        assert len(reading.read()) == 5


def test_a_query_is_read_as_a_table_is(orders: TestDatabase, given: dict[str, str]) -> None:
    query = "SELECT id % 100 AS id, upper(item) AS item FROM orders WHERE item LIKE '%m 3'"
    with closing(Reading(JdbcSource, {**given, **INCREMENTING, "query": query, "topic.prefix": "three"})) as reading:
        (record,) = reading.all()
        assert (record.topic, record.value) == ("three", {"id": 3, "item": "ITEM 3"})


def test_tables_are_chosen_by_name_and_new_ones_are_found(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run('CREATE SCHEMA other; CREATE TABLE other."or%ders" (id INT PRIMARY KEY, item TEXT)')
    orders.run("CREATE TABLE left_out (id INT PRIMARY KEY)")
    chosen = {**given, "mode": "incrementing", "table.whitelist": "orders,other.or*,more*", "schema.pattern": "%"}
    orders.run("CREATE TABLE more1 (id INT PRIMARY KEY, item TEXT)")
    with closing(Reading(JdbcSource, chosen)) as reading:
        assert len(reading.all()) == 5
        orders.run("CREATE TABLE more2 (id INT PRIMARY KEY, item TEXT)", "INSERT INTO more2 VALUES (1, 'two')")
        orders.run("""INSERT INTO other."or%ders" VALUES (7, '100%')""")
        assert sorted(items(reading.all())) == ["100%", "two"]


def test_values_have_the_types_that_connect_has_for_them(database: TestDatabase, given: dict[str, str]) -> None:
    database.run(
        "CREATE DOMAIN price AS NUMERIC(10, 2)",
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        """CREATE TABLE things (small SMALLINT, id BIGINT PRIMARY KEY, ratio REAL, exact DOUBLE PRECISION, flag BOOLEAN,
        price price, wide NUMERIC(50, 20), anything NUMERIC, at TIMESTAMP, day DATE, clock TIME, data BYTEA, doc JSONB,
        mood mood, list INT[], names TEXT[], missing INT)""",
        """INSERT INTO things VALUES (-1, 9007199254740993, 0.5, 'NaN', true, 12.3, 123456789012345678901234567890.5,
        1e30, '2024-02-29 12:34:56.789', '2024-02-29', '12:34:56', '\\x00ff', '{"a": 1}', 'bad', '{1,NULL,3}',
        ARRAY['a,b', 'say "x"', ''], NULL)""",
    )
    with closing(Reading(JdbcSource, {**given, "mode": "incrementing"})) as reading:
        (record,) = reading.all()
    exact = record.value.pop("exact")
    assert exact != exact
    assert record.value == {
        "small": -1,
        "id": 9007199254740993,
        "ratio": 0.5,
        "flag": True,
        "price": Decimal("12.30"),
        "wide": Decimal("123456789012345678901234567890.50000000000000000000"),
        "anything": "1000000000000000000000000000000",
        "at": datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=UTC),
        "day": date(2024, 2, 29),
        "clock": time(12, 34, 56),
        "data": b"\x00\xff",
        "doc": '{"a": 1}',
        "mood": "bad",
        "list": [1, None, 3],
        "names": ["a,b", 'say "x"', ""],
        "missing": None,
    }
    schema = record.value_schema
    assert schema is not None
    types = {field.name: (field.schema.type, field.schema.name, field.schema.optional) for field in schema.fields}
    assert types["id"] == (Type.INT64, None, False)
    assert types["price"] == (Type.BYTES, DECIMAL, True)
    assert types["at"] == (Type.INT64, TIMESTAMP, True)
    assert types["day"] == (Type.INT32, DATE, True)
    assert types["clock"] == (Type.INT32, TIME, True)
    assert types["list"] == (Type.ARRAY, None, True)


def test_numbers_are_doubles_or_whole_where_that_is_asked_for(database: TestDatabase, given: dict[str, str]) -> None:
    database.run(
        "CREATE TABLE n (id INT PRIMARY KEY, a NUMERIC(8), b NUMERIC(8, 2))", "INSERT INTO n VALUES (1, 7, 7.25)"
    )
    with closing(Reading(JdbcSource, {**given, "mode": "incrementing", "numeric.mapping": "best_fit"})) as reading:
        (record,) = reading.all()
        assert record.value == {"id": 1, "a": 7, "b": 7.25}


@pytest.mark.parametrize(
    ("said", "option", "words"),
    [
        ({"mode": "sideways"}, "mode", "one of bulk"),
        ({"mode": "timestamp"}, "timestamp.column.name", "needs it"),
        ({"mode": "timestamp", "timestamp.column.name": "item"}, "timestamp.column.name", "is text"),
        ({"mode": "incrementing", "incrementing.column.name": "no"}, "incrementing.column.name", "no column 'no'"),
        ({"mode": "incrementing", "incrementing.column.name": "nullable"}, "incrementing.column.name", "may be null"),
        ({"mode": "bulk", "table.whitelist": "nowhere"}, "table.whitelist", "no table nowhere"),
        ({"mode": "bulk", "table.whitelist": "a", "table.blacklist": "b"}, "table.blacklist", "exclude"),
        ({"mode": "bulk", "query": "SELECT FROM FROM"}, "query", "syntax error"),
        ({"mode": "bulk", "query": "SELECT 1", "table.whitelist": "orders"}, "query", "exclude"),
        ({"mode": "incrementing", "query": "SELECT 1 AS id"}, "incrementing.column.name", "needs it"),
        ({"mode": "bulk", "connection.url": "jdbc:mysql://host/db"}, "connection.url", "jdbc:postgresql://"),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_the_option_to_blame(
    orders: TestDatabase, given: dict[str, str], said: dict[str, str], option: str, words: str
) -> None:
    orders.run("ALTER TABLE orders ADD COLUMN nullable INT")
    found = refused(JdbcSource, {**given, **said})
    assert list(found) == [option]
    assert words in str(found[option])


def test_a_database_or_a_user_that_is_not_there_is_refused(database: TestDatabase, given: dict[str, str]) -> None:
    nowhere = database.url.replace(database.name, "nowhere")
    assert (
        '"nowhere" does not exist'
        in refused(JdbcSource, {**given, "mode": "bulk", "connection.url": nowhere})["connection.url"]
    )
    nobody = refused(JdbcSource, {**given, "mode": "bulk", "connection.user": "nobody"})
    assert 'role "nobody" does not exist' in nobody["connection.user"]


def test_a_server_that_is_away_is_no_fault_of_the_config_and_loses_nothing(
    orders: TestDatabase, given: dict[str, str], postgres: PostgresServer
) -> None:
    given = {**given, **INCREMENTING}
    with closing(Reading(JdbcSource, given)) as reading:
        assert len(reading.next(3)) == 3
        postgres.stop()
        try:
            assert refused(JdbcSource, given) == {}
            with pytest.raises(Unreachable):
                reading.plan()
        finally:
            postgres.start()
        assert items(reading.all()) == ["item 4", "item 5"]


def test_a_table_that_went_away_needs_another_config(orders: TestDatabase, given: dict[str, str]) -> None:
    source = JdbcSource(config_of(JdbcSource, {**given, **INCREMENTING}))
    with closing(source):
        (partition,) = source.partitions()
        orders.run("DROP TABLE orders")
        with pytest.raises(Misconfigured, match=r"no table public\.orders any more"):
            source.latest(partition, None, 10)
