"""Records as rows of a real PostgreSQL: each once, whatever comes again."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import DataError, Misconfigured, Unreachable
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import (
    BOOLEAN,
    DATE,
    INT32,
    STRING,
    TIMESTAMP,
    Schema,
    Type,
    decimal,
    struct,
)
from millstream.pipelines.connect.sinks.jdbc import JdbcSink
from tests.pipelines.connect.contract import Writing, config_of, refused
from tests.pipelines.connect.postgres import PostgresServer, TestDatabase

KEY = struct("key", id=INT32)
VALUE = struct("value", id=INT32, item=STRING.as_optional())


@pytest.fixture
def given(database: TestDatabase) -> dict[str, str]:
    return {"connection.url": database.url, "auto.create": "true", "auto.evolve": "true", "topics": "orders"}


UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "delete.enabled": "true"}


def order(offset: int, number: int, item: str | None) -> Record:
    """A record of the topic's one partition."""
    return Record("orders", {"id": number, "item": item}, {"id": number}, VALUE, KEY, partition=0, offset=offset)


def tombstone(offset: int, number: int) -> Record:
    return Record("orders", None, {"id": number}, None, KEY, partition=0, offset=offset)


def rows(database: TestDatabase) -> list[tuple[Any, ...]]:
    return database.rows("SELECT id, item FROM orders ORDER BY id, item")


def test_a_batch_that_comes_again_is_written_once(database: TestDatabase, given: dict[str, str]) -> None:
    writing = Writing(JdbcSink, given)
    first = [order(n, n % 3, f"item {n}") for n in range(6)]
    writing.write(first, 0)
    writing.write(first, 0)
    assert len(rows(database)) == 6
    writing.write([order(6, 1, "more")], 1)
    writing.write(first, 0, "another query")
    assert len(rows(database)) == 13, "whoever alters offsets means it"


def test_a_later_batch_is_new_though_its_topic_was_made_again(database: TestDatabase, given: dict[str, str]) -> None:
    """Its offsets begin anew, and nothing of it was written before."""
    writing = Writing(JdbcSink, given)
    writing.write([order(n, n, "first") for n in range(6)], 0)
    again = [order(n, n, "second") for n in range(3)]
    writing.write(again, 1)
    writing.write(again, 1)
    assert [item for _, item in rows(database)].count("second") == 3


def test_a_late_attempt_of_an_earlier_batch_writes_nothing(database: TestDatabase, given: dict[str, str]) -> None:
    writing = Writing(JdbcSink, given)
    for number in range(2):
        writing.write([order(number, number, "item")], number)
    writing.write([order(0, 0, "item")], 0)
    writing.write([order(1, 1, "item")], 1)
    assert len(rows(database)) == 2


def test_a_large_value_that_change_capture_does_not_know_stays(database: TestDatabase, given: dict[str, str]) -> None:
    database.run("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT NOT NULL, price INT)")
    database.run("INSERT INTO orders VALUES (1, 'large', 1)")
    writing = Writing(JdbcSink, {**given, **UPSERT})
    shape = struct("value", id=INT32, item=STRING, price=INT32)
    changed = {"id": 1, "item": "__debezium_unavailable_value", "price": 2}
    writing.write([Record("orders", changed, {"id": 1}, shape, KEY, partition=0, offset=0)], 0)
    assert database.rows("SELECT * FROM orders") == [(1, "large", 2)]
    assert writing.letters == []


def test_a_batch_of_which_a_part_was_written_is_completed(database: TestDatabase, given: dict[str, str]) -> None:
    given = {**given, "batch.size": "2"}
    records = [order(n, n, "item") for n in range(7)]

    def breaking() -> Iterator[Record]:
        yield from records[:5]
        raise ConnectionError("the worker died")

    sink = JdbcSink(config_of(JdbcSink, given))
    with pytest.raises(ConnectionError):
        sink.write(breaking(), Batch("query", 3))
    sink.close()
    assert len(rows(database)) == 4
    Writing(JdbcSink, given).write(records, 3)
    assert [number for number, _ in rows(database)] == list(range(7))


def test_records_of_one_key_are_one_row_and_a_tombstone_ends_it(database: TestDatabase, given: dict[str, str]) -> None:
    writing = Writing(JdbcSink, {**given, **UPSERT})
    writing.write([tombstone(0, 9)], 0)
    writing.write([order(1, 1, "a"), order(2, 2, "b"), order(3, 1, "c"), tombstone(4, 2), order(5, 3, None)], 1)
    assert rows(database) == [(1, "c"), (3, None)]
    writing.write([order(6, 2, "again"), tombstone(7, 1), order(8, 1, "x"), tombstone(9, 1)], 2)
    assert rows(database) == [(2, "again"), (3, None)]
    assert database.rows("SELECT next_offset FROM millstream_connect_offsets") == [(10,)]


def test_only_rows_that_are_there_are_updated_where_that_is_asked_for(
    database: TestDatabase, given: dict[str, str]
) -> None:
    database.run("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)", "INSERT INTO orders VALUES (1, 'old')")
    update = {"insert.mode": "update", "pk.mode": "record_value", "pk.fields": "id"}
    Writing(JdbcSink, {**given, **update}).write([order(0, 1, "new"), order(1, 2, "none")], 0)
    assert rows(database) == [(1, "new")]


def test_a_record_s_place_may_be_its_key(database: TestDatabase, given: dict[str, str]) -> None:
    Writing(JdbcSink, {**given, "pk.mode": "kafka", "insert.mode": "upsert"}).write([order(5, 1, "a")], 0)
    found = database.rows("SELECT __connect_topic, __connect_partition, __connect_offset, item FROM orders")
    assert found == [("orders", 0, 5, "a")]


def test_tables_are_made_and_widened_for_what_records_hold(database: TestDatabase, given: dict[str, str]) -> None:
    wide = struct(
        "wide",
        id=INT32,
        flag=BOOLEAN,
        price=decimal(2),
        day=Schema(Type.INT32, name=DATE),
        at=Schema(Type.INT64, name=TIMESTAMP),
        data=Schema(Type.BYTES),
        tags=Schema(Type.ARRAY, values=STRING),
        doc=struct("doc", a=INT32),
    )
    at = datetime(2024, 2, 29, 12, 0, 0, 5000, tzinfo=UTC)
    value = {
        "id": 2,
        "flag": True,
        "price": Decimal("1.20"),
        "day": date(2024, 2, 29),
        "at": at,
        "data": b"\0\xff",
        "tags": ["a", 'b"c'],
        "doc": {"a": 1},
    }
    writing = Writing(JdbcSink, given)
    writing.write([order(0, 1, "a")], 0)
    writing.write([Record("orders", value, None, wide, partition=0, offset=1)], 1)
    (row,) = database.rows("SELECT flag, price, day, at, data, tags, doc, item FROM orders WHERE id = 2")
    plain = at.replace(tzinfo=None)
    assert row == (True, Decimal("1.20"), date(2024, 2, 29), plain, b"\0\xff", ["a", 'b"c'], {"a": 1}, None)
    nullable = database.rows(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'orders' AND is_nullable = 'NO'"
    )
    assert nullable == [("id",)]


def test_values_without_a_schema_are_taken_for_what_they_are(database: TestDatabase, given: dict[str, str]) -> None:
    value = {"id": 1, "item": "a", "ratio": 0.5, "list": [1, {"a": 2}], "nothing": None}
    Writing(JdbcSink, given).write([Record("orders", value, partition=0, offset=0)], 0)
    assert database.rows('SELECT id, item, ratio, "list", nothing FROM orders') == [(1, "a", 0.5, [1, {"a": 2}], None)]


def test_topics_have_tables_of_their_own_by_the_format_and_partitions_their_own_progress(
    database: TestDatabase, given: dict[str, str]
) -> None:
    database.run("CREATE SCHEMA lake")
    writing = Writing(JdbcSink, {**given, "table.name.format": "lake.copy_${topic}", "topics": "shop.orders"})
    for origin in ("a", "b"):  # Two topics that a transform gave one name.
        record = order(0, 1, origin)
        record.topic, record.origin = "shop.orders", origin
        writing.write([record], 0)
    assert database.rows('SELECT item FROM lake."copy_shop.orders" ORDER BY 1') == [("a",), ("b",)]


def test_an_envelope_of_change_capture_is_opened(database: TestDatabase, given: dict[str, str]) -> None:
    writing = Writing(JdbcSink, {**given, **UPSERT})

    def change(offset: int, op: str, before: Any, after: Any) -> Record:
        value = {"before": before, "after": after, "source": {}, "op": op, "ts_ms": 0}
        return Record("orders", value, {"id": 1}, None, KEY, partition=0, offset=offset)

    writing.write([change(0, "c", None, {"id": 1, "item": "a"}), change(1, "u", None, {"id": 1, "item": "b"})], 0)
    assert rows(database) == [(1, "b")]
    writing.write([change(2, "d", {"id": 1, "item": None}, None), tombstone(3, 1)], 1)
    assert rows(database) == []


def test_what_cannot_be_written_is_refused_alone_and_again_when_its_batch_comes_again(
    database: TestDatabase, given: dict[str, str]
) -> None:
    database.run("CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(5) NOT NULL)")
    writing = Writing(JdbcSink, {**given, "auto.evolve": "false"})
    more = Record("orders", {"id": 7, "item": "a", "more": 1}, partition=0, offset=5)
    records = [
        order(0, 1, "a"),
        order(1, 1, "twice"),
        order(2, 2, "too long"),
        order(3, 3, None),
        order(4, 4, "b"),
        more,
    ]
    records.append(Record("orders", {"id": "x", "item": "a"}, partition=0, offset=6))
    records.append(Record("orders", {"id": 8, "item": "\0"}, partition=0, offset=7))
    records.append(Record("orders", {"id": True, "item": "a"}, partition=0, offset=8))
    records.append(Record("orders", "no struct", partition=0, offset=9))
    records.append(tombstone(10, 1))
    writing.write(records, 0)
    assert rows(database) == [(1, "a"), (4, "b")]
    letters = dict(writing.letters)
    assert letters.keys() == {1, 2, 3, 5, 6, 7, 8, 9, 10} and len(writing.letters) == 9
    for offset, words in (
        (1, "duplicate key"),
        (2, "too long"),
        (3, "not-null"),
        (5, "no column 'more'"),
        (6, "invalid input syntax"),
        (7, "NUL"),
        (8, "boolean"),
        (9, "no struct"),
        (10, "delete.enabled is false"),
    ):
        assert words in letters[offset], letters[offset]
    writing.letters.clear()
    writing.write(records, 0)
    assert dict(writing.letters) == letters
    assert rows(database) == [(1, "a"), (4, "b")]
    writing.write([order(11, 11, "c")], 1)
    assert dict(writing.letters) == letters


def test_a_record_that_stops_the_connector_leaves_nothing_of_its_transaction(
    database: TestDatabase, given: dict[str, str]
) -> None:
    database.run("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
    sink = JdbcSink(config_of(JdbcSink, given))
    with pytest.raises(DataError, match="duplicate key"):
        sink.write(iter([order(0, 1, "a"), order(1, 1, "b"), order(2, 2, "c")]), Batch("query", 0))
    sink.close()
    assert rows(database) == []
    database.run("ALTER TABLE orders DROP CONSTRAINT orders_pkey")
    Writing(JdbcSink, given).write([order(0, 1, "a"), order(1, 1, "b"), order(2, 2, "c")], 0)
    assert len(rows(database)) == 3


def test_a_transaction_that_loses_against_another_is_tried_again(database: TestDatabase, given: dict[str, str]) -> None:
    writing = Writing(JdbcSink, {**given, **UPSERT})
    writing.write([order(0, 1, "a"), order(1, 2, "a")], 0)
    database.run(f"ALTER DATABASE {database.name} SET deadlock_timeout = '2s'")  # The sink finds out first, and loses.
    with database.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("BEGIN")
        other.execute("UPDATE orders SET item = 'other' WHERE id = 2")
        written = pool.submit(writing.write, [order(2, 1, "b"), order(3, 2, "b")], 1)
        while not database.rows("SELECT FROM pg_locks WHERE NOT granted"):
            time.sleep(0.01)
        other.execute("UPDATE orders SET item = 'other' WHERE id = 1")
        other.execute("COMMIT")
        written.result(60)
    database.run(f"ALTER DATABASE {database.name} RESET deadlock_timeout")
    assert rows(database) == [(1, "b"), (2, "b")]


def test_a_server_that_is_away_is_tried_again_and_loses_nothing(
    database: TestDatabase, given: dict[str, str], postgres: PostgresServer
) -> None:
    writing = Writing(JdbcSink, given)
    writing.write([order(0, 1, "a")], 0)
    postgres.stop()
    try:
        assert refused(JdbcSink, given) == {}
        with pytest.raises(Unreachable):
            writing.write([order(1, 2, "b")], 1)
    finally:
        postgres.start()
    writing.write([order(1, 2, "b")], 1)
    assert rows(database) == [(1, "a"), (2, "b")]


def test_a_table_that_is_missing_or_has_no_such_key_waits_for_another_config(
    database: TestDatabase, given: dict[str, str]
) -> None:
    with pytest.raises(Misconfigured, match=r"no table orders, and auto\.create is false"):
        Writing(JdbcSink, {**given, "auto.create": "false", "topics": ""}).write([order(0, 1, "a")], 0)
    database.run("CREATE TABLE orders (id INT, item TEXT)")
    with pytest.raises(Misconfigured, match="no unique or exclusion constraint"):
        Writing(JdbcSink, {**given, **UPSERT}).write([order(0, 1, "a")], 0)


@pytest.mark.parametrize(
    ("said", "option", "words"),
    [
        ({"insert.mode": "sometimes"}, "insert.mode", "one of insert"),
        ({"insert.mode": "upsert"}, "pk.mode", "needs a key"),
        ({"delete.enabled": "true"}, "delete.enabled", "pk.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields", "three names"),
        ({"pk.mode": "record_key", "pk.fields": "no"}, "pk.fields", "no column 'no'"),
        ({"auto.create": "false", "topics": "nowhere"}, "table.name.format", "no table nowhere"),
        ({"connection.url": "jdbc:postgresql://h:99999/d"}, "connection.url", "jdbc:postgresql://HOST:PORT"),
        ({"connection.user": "nobody"}, "connection.user", "does not exist"),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_the_option_to_blame(
    database: TestDatabase, given: dict[str, str], said: dict[str, str], option: str, words: str
) -> None:
    database.run("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
    found = refused(JdbcSink, {**given, **said})
    assert list(found) == [option]
    assert words in str(found[option])
