"""Change capture of a real PostgreSQL: rows and changes, each once, whatever is read again."""

import signal
from collections.abc import Sequence
from contextlib import closing
from threading import Event, Thread
from typing import Any

import pytest

from millstream.pipelines.connect.errors import Misconfigured, Unreachable
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sources.postgres import PostgresSource
from tests.pipelines.connect.contract import Reading, refused
from tests.pipelines.connect.postgres import PostgresServer, TestDatabase


@pytest.fixture
def given(database: TestDatabase) -> dict[str, str]:
    """The least that a config says; slots have names for all databases of a server."""
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": database.server.user,
        "database.dbname": database.name,
        "topic.prefix": "shop",
        "slot.name": f"slot_{database.name}",
    }


@pytest.fixture
def orders(database: TestDatabase) -> TestDatabase:
    database.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, item TEXT NOT NULL, price NUMERIC(8, 2))",
        "INSERT INTO orders SELECT n, 'item ' || n, n FROM generate_series(1, 5) n",
    )
    return database


def told(records: Sequence[Record]) -> list[tuple[str, Any, Any]]:
    """What happened to which key, and what its row is now."""
    return [
        (record.value["op"], record.key["id"], record.value["after"] and record.value["after"]["item"])
        if record.value is not None
        else ("tombstone", record.key["id"], None)
        for record in records
    ]


def folded(records: Sequence[Record]) -> dict[Any, Any]:
    """The table that the records make; each must make sense behind the one before."""
    rows: dict[Any, Any] = {}
    for record in records:
        if record.value is None:
            assert record.key["id"] not in rows
        elif record.value["op"] == "d":
            rows.pop(record.key["id"], None)
        else:
            assert record.value["op"] != "c" or record.key["id"] not in rows, f"{record.key} was there already"
            assert record.value["op"] != "r" or record.key["id"] not in rows, f"{record.key} came twice"
            rows[record.key["id"]] = record.value["after"]["item"]
    return rows


def table(database: TestDatabase, name: str = "orders") -> dict[Any, Any]:
    return dict(database.rows(f"SELECT id, item FROM {name}"))


def test_rows_come_first_and_then_every_change(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        assert told(reading.all()) == [("r", n, f"item {n}") for n in range(1, 6)]
        orders.run(
            "INSERT INTO orders VALUES (6, 'six')",
            "UPDATE orders SET item = 'new' WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
            "UPDATE orders SET id = 30 WHERE id = 3",
        )
        records = reading.all()
        assert told(records) == [
            ("c", 6, "six"),
            ("u", 1, "new"),
            ("d", 2, None),
            ("tombstone", 2, None),
            ("d", 3, None),
            ("tombstone", 3, None),
            ("c", 30, "item 3"),
        ]
        assert [(header.name, header.value) for header in records[4].headers] == [("__debezium.newkey", {"id": 30})]
        assert [(header.name, header.value) for header in records[6].headers] == [("__debezium.oldkey", {"id": 3})]
        assert reading.all() == []


def test_an_envelope_says_what_debezium_s_does(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        first = reading.all()[0]
        orders.run("DELETE FROM orders WHERE id = 1")
        deleted = reading.all()[0]
    assert first.topic == "shop.public.orders"
    assert first.key == {"id": 1} and first.key_schema is not None and first.key_schema.name == "shop.public.orders.Key"
    schema = first.value_schema
    assert schema is not None and schema.name == "shop.public.orders.Envelope"
    assert [field.name for field in schema.fields][:5] == ["before", "after", "source", "transaction", "op"]
    row = schema.field("after")
    assert row is not None and row.name == "shop.public.orders.Value" and row.optional
    assert [(field.name, field.schema.optional) for field in row.fields] == [
        ("id", False),
        ("item", False),
        ("price", True),
    ]
    source = first.value["source"]
    assert (source["db"], source["schema"], source["table"]) == (orders.name, "public", "orders")
    assert (source["connector"], source["name"], source["snapshot"]) == ("postgresql", "shop", "true")
    assert deleted.value["before"] == {"id": 1, "item": "", "price": None}, "only the key is known"
    source = deleted.value["source"]
    assert source["snapshot"] == "false" and source["txId"] and source["lsn"] and source["ts_ms"]
    assert set(deleted.value) == {field.name for field in schema.fields}


def test_the_snapshot_is_read_in_pieces_while_rows_change(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("CREATE TABLE a_log (line TEXT)", "INSERT INTO a_log VALUES ('x'), ('x')", "CREATE TABLE empty (id INT)")
    orders.run("CREATE TABLE items (kind TEXT, id INT, item TEXT, PRIMARY KEY (kind, id))")
    orders.run("INSERT INTO items SELECT 'k' || n % 3, n, 'thing' FROM generate_series(1, 7) n")
    with closing(Reading(PostgresSource, given)) as reading:
        pieces = []
        while reading.plan(2) and any(offset.get("snapshot") for _, _, offset in reading.planned):
            pieces.append(reading.read())
            # Behind and before the place where it is: of each, the change comes and the row does not.
            orders.run(f"INSERT INTO orders VALUES ({len(pieces) * 10}, 'new'), ({-len(pieces)}, 'new')")
            orders.run(f"UPDATE orders SET item = 'changed {len(pieces)}' WHERE id IN (1, 5)")
            orders.run("INSERT INTO a_log VALUES ('x')", "INSERT INTO items VALUES ('k9', 1, 'late')")
            orders.run("DELETE FROM items WHERE kind = 'k9'")
            reading.commit()
        pieces.append(reading.read())
        reading.commit()
        assert max(map(len, pieces)) == 2
        records = [record for piece in pieces for record in piece] + reading.all()
    by_topic: dict[str, list[Record]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    assert folded(by_topic["shop.public.orders"]) == table(orders)
    assert len(by_topic["shop.public.a_log"]) == orders.rows("SELECT count(*) FROM a_log")[0][0]
    rows = [record.key["id"] for record in by_topic["shop.public.items"] if record.value and record.value["op"] == "r"]
    assert sorted(rows) == list(range(1, 8))


def test_a_piece_of_the_snapshot_that_is_read_again_doubles_no_change_and_loses_none(
    orders: TestDatabase, given: dict[str, str]
) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        assert reading.plan()
        assert len(reading.read()) == 5
        orders.run("INSERT INTO orders VALUES (6, 'six')", "UPDATE orders SET item = 'x' WHERE id = 1")
        orders.run("DELETE FROM orders WHERE id = 2")
        reading.restart()
        records = reading.read()
        assert told(records) == [("r", 3, "item 3"), ("r", 4, "item 4"), ("r", 5, "item 5")]
        reading.commit()
        records += reading.all()
        assert told(records[3:]) == [("c", 6, "six"), ("u", 1, "x"), ("d", 2, None), ("tombstone", 2, None)]
        assert folded(records) == table(orders)


def test_nothing_is_lost_or_doubled_between_rows_and_changes_under_load(
    orders: TestDatabase, given: dict[str, str]
) -> None:
    over = Event()

    def load() -> None:
        with orders.connect() as connection:
            number = 100
            while not over.is_set():
                number += 1
                connection.execute("SET synchronous_commit = off")
                with connection.transaction():
                    connection.execute("INSERT INTO orders VALUES (%s, 'new')", (number,))
                    connection.execute("UPDATE orders SET item = item || '.' WHERE id = %s", (number - 7,))
                connection.execute("DELETE FROM orders WHERE id = %s", (number - 13,))

    writer = Thread(target=load)
    writer.start()
    try:
        with closing(Reading(PostgresSource, given)) as reading:
            records: list[Record] = []
            for turn in range(30):
                if reading.plan(5 + turn):
                    if turn % 3 == 0:
                        reading.read()
                        reading.restart()
                    records += reading.read()
                    reading.commit()
            over.set()
            writer.join()
            records += reading.all()
            assert folded(records) == table(orders)
            created = [record.key["id"] for record in records if record.value and record.value["op"] == "c"]
            assert len(created) == len(set(created)) and len(created) > 10
    finally:
        over.set()
        writer.join()


def test_a_range_of_changes_that_is_read_again_is_the_same(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        orders.run(*(f"UPDATE orders SET item = '{n}' WHERE id = 1" for n in range(10)))
        assert reading.plan(4)
        first = told(reading.read())
        orders.run("UPDATE orders SET item = 'later' WHERE id = 1")
        reading.restart()
        assert told(reading.read()) == first and 4 <= len(first) < 10
        reading.commit()
        rest = told(reading.all(4))
        assert [item for _, _, item in (*first, *rest)] == [*map(str, range(10)), "later"]


def test_a_slot_that_was_not_moved_on_gives_nothing_twice(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        orders.run(*(f"UPDATE orders SET item = '{n}' WHERE id = 1" for n in range(20)))
        assert reading.plan()
        reading.read()
        ((_, _, end),) = reading.planned
        reading.offsets = dict.fromkeys(reading.offsets, end)  # And it died before it could tell the source.
        reading.restart()
        orders.run("INSERT INTO orders VALUES (7, 'seven')")
        assert told(reading.next(2)) == [("c", 7, "seven")]


def test_the_slot_moves_on_though_only_other_tables_change(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("CREATE TABLE noise (id INT)")
    chosen = {"publication.autocreate.mode": "filtered", "table.include.list": r"public\.orders"}
    with closing(Reading(PostgresSource, {**given, **chosen})) as reading:
        reading.all()

        def position() -> Any:
            ((found,),) = orders.rows("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")
            return found

        before = position()
        reading.restart()  # It has just been moved on, and is not at once again.
        orders.run("INSERT INTO noise SELECT generate_series(1, 1000)")
        assert reading.all() == []
        assert position() > before + 10_000
        orders.run("INSERT INTO noise SELECT generate_series(1, 1000)")
        assert not reading.plan()
        orders.run("INSERT INTO orders VALUES (6, 'six')")
        assert told(reading.all()) == [("c", 6, "six")]
        reading.restart()
        assert reading.all() == []


def test_a_table_that_the_config_names_later_is_published(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("CREATE TABLE more (id INT PRIMARY KEY, item TEXT)")
    filtered = {**given, "publication.autocreate.mode": "filtered", "table.include.list": r"public\.orders"}
    with closing(Reading(PostgresSource, filtered)) as reading:
        reading.all()
        offsets = reading.offsets
    with closing(Reading(PostgresSource, {**filtered, "table.include.list": r"public\.(orders|more)"})) as reading:
        reading.offsets = offsets
        reading.all()
        orders.run("INSERT INTO more VALUES (1, 'one')")
        assert told(reading.all()) == [("c", 1, "one")]


def test_tables_change_their_columns_in_the_middle_of_the_stream(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        orders.run(
            "UPDATE orders SET item = 'before' WHERE id = 1",
            "ALTER TABLE orders ADD COLUMN note TEXT DEFAULT 'none'",
            "UPDATE orders SET item = 'after' WHERE id = 1",
            "ALTER TABLE orders DROP COLUMN price",
            "ALTER TABLE orders RENAME COLUMN note TO remark",
            "UPDATE orders SET item = 'last' WHERE id = 1",
            "CREATE TABLE more (id INT PRIMARY KEY, item TEXT)",
            "INSERT INTO more VALUES (1, 'more')",
        )
        records = reading.all()
        assert [set(record.value["after"]) for record in records] == [
            {"id", "item", "price"},
            {"id", "item", "price", "note"},
            {"id", "item", "remark"},
            {"id", "item"},
        ]
        assert records[-1].topic == "shop.public.more"
        for record in records:
            row = record.value_schema and record.value_schema.field("after")
            assert row and {field.name for field in row.fields} == set(record.value["after"])


def test_a_table_in_parts_is_one_table(database: TestDatabase, given: dict[str, str]) -> None:
    database.run(
        "CREATE TABLE parted (id INT PRIMARY KEY, item TEXT) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high PARTITION OF parted FOR VALUES FROM (100) TO (200)",
        "INSERT INTO parted VALUES (1, 'low'), (101, 'high')",
    )
    with closing(Reading(PostgresSource, {**given, "table.include.list": r"public\.parted"})) as reading:
        assert reading.plan()
        database.run("INSERT INTO parted VALUES (2, 'more')", "UPDATE parted SET id = 102 WHERE id = 1")
        records = reading.read()
        reading.commit()
        records += reading.all()
        assert {record.topic for record in records} == {"shop.public.parted"}
        assert folded(records) == table(database, "parted")


def test_a_full_identity_shows_the_row_before(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("ALTER TABLE orders REPLICA IDENTITY FULL", "ALTER TABLE orders ALTER COLUMN item SET STORAGE EXTERNAL")
    with closing(Reading(PostgresSource, {**given, "tombstones.on.delete": "false"})) as reading:
        reading.all()
        orders.run(
            "UPDATE orders SET item = repeat('x', 10000) WHERE id = 1",
            "UPDATE orders SET price = 7 WHERE id = 1",
            "DELETE FROM orders WHERE id = 1",
        )
        first, second, gone = reading.all()
        assert first.value["before"]["item"] == "item 1"
        assert second.value["after"]["item"] == "x" * 10_000
        assert gone.value["before"]["item"] == "x" * 10_000
        assert gone.key == {"id": 1}


def test_a_large_value_that_did_not_change_is_named_as_such(orders: TestDatabase, given: dict[str, str]) -> None:
    orders.run("ALTER TABLE orders ALTER COLUMN item SET STORAGE EXTERNAL")
    orders.run("UPDATE orders SET item = repeat('x', 10000) WHERE id = 1")
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        orders.run("UPDATE orders SET price = 7 WHERE id = 1")
        (record,) = reading.all()
        assert record.value["after"]["item"] == "__debezium_unavailable_value"


def test_a_truncate_is_a_record_where_it_is_asked_for(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, {**given, "skipped.operations": "none"})) as reading:
        reading.all()
        orders.run("TRUNCATE orders")
        (record,) = reading.all()
        assert (record.value["op"], record.key) == ("t", None)


def test_changes_alone_or_rows_alone_may_be_asked_for(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, {**given, "snapshot.mode": "no_data"})) as reading:
        assert reading.all() == []
        orders.run("INSERT INTO orders VALUES (6, 'six')")
        assert told(reading.all()) == [("c", 6, "six")]
    only = {**given, "snapshot.mode": "initial_only", "slot.name": f"{given['slot.name']}_b"}
    with closing(Reading(PostgresSource, only)) as reading:
        assert len(reading.all()) == 6
        orders.run("INSERT INTO orders VALUES (7, 'seven')")
        assert reading.all() == []
        slots = orders.rows("SELECT slot_name FROM pg_replication_slots")
        assert slots == [(given["slot.name"],)], "one that nobody reads would keep the server's log for ever"


def test_a_slot_that_is_gone_is_said_and_nothing_is_passed_over(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        orders.run(f"SELECT pg_drop_replication_slot('{given['slot.name']}')")
        with pytest.raises(Misconfigured, match="is gone, and with it the changes since"):
            reading.plan()


@pytest.mark.parametrize("is_in_snapshot", [False, True])
def test_a_slot_that_was_made_again_is_not_taken_for_the_one_before(
    orders: TestDatabase, given: dict[str, str], is_in_snapshot: bool
) -> None:
    """As after a failover to a server that had none: what happened meanwhile is in no slot."""
    with closing(Reading(PostgresSource, given)) as reading:
        if is_in_snapshot:
            reading.next(2)
        else:
            reading.all()
        orders.run(f"SELECT pg_drop_replication_slot('{given['slot.name']}')")
        orders.run("INSERT INTO orders VALUES (6, 'six')")
        orders.run(f"SELECT pg_create_logical_replication_slot('{given['slot.name']}', 'pgoutput')")
        with pytest.raises(Misconfigured, match="it was made again, or moved on by somebody else"):
            reading.plan()


def test_a_server_that_is_behind_what_was_read_is_another(orders: TestDatabase, given: dict[str, str]) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        reading.offsets = {place: {"lsn": offset["lsn"] + (1 << 40)} for place, offset in reading.offsets.items()}
        with pytest.raises(Misconfigured, match="it is another server, or was brought back to an earlier time"):
            reading.plan()


def test_a_large_value_from_before_the_slot_is_not_lost_when_its_row_changes_during_the_snapshot(
    orders: TestDatabase, given: dict[str, str]
) -> None:
    orders.run("ALTER TABLE orders ALTER COLUMN item SET STORAGE EXTERNAL")
    orders.run("UPDATE orders SET item = repeat('x', 10000) WHERE id = 5")
    with closing(Reading(PostgresSource, given)) as reading:
        assert len(reading.next(2)) == 2
        orders.run("UPDATE orders SET price = 7 WHERE id = 5")
        records = reading.all()
    assert [record.value["op"] for record in records if record.key["id"] == 5] == ["r", "u"]
    assert [record.value["after"]["item"] for record in records if record.key["id"] == 5] == [
        "x" * 10_000,
        "__debezium_unavailable_value",
    ]


def test_a_server_that_crashes_and_comes_back_has_lost_nothing(
    orders: TestDatabase, given: dict[str, str], postgres: PostgresServer
) -> None:
    with closing(Reading(PostgresSource, given)) as reading:
        reading.all()
        orders.run("INSERT INTO orders VALUES (6, 'six')")
        assert reading.plan()
        postgres.stop(signal.SIGQUIT)
        try:
            with pytest.raises(Unreachable):
                reading.read()
            assert refused(PostgresSource, given) == {}
        finally:
            postgres.start()
        assert told(reading.read()) == [("c", 6, "six")]
        reading.restart()
        reading.commit()
        orders.run("INSERT INTO orders VALUES (7, 'seven')")
        assert told(reading.all()) == [("c", 7, "seven")]


@pytest.mark.parametrize(
    ("said", "option", "words"),
    [
        ({"database.user": "nobody"}, "database.user", "does not exist"),
        ({"database.user": "weak"}, "database.user", "may not replicate"),
        ({"database.dbname": "nowhere"}, "database.dbname", "does not exist"),
        ({"table.include.list": r"public\.nothing"}, "table.include.list", "no table matches"),
        ({"table.include.list": "("}, "table.include.list", "regular expressions"),
        ({"publication.autocreate.mode": "disabled"}, "publication.name", "no publication dbz_publication"),
        ({"slot.name": "Not a name"}, "slot.name", "small letters"),
        ({"snapshot.mode": "sometimes"}, "snapshot.mode", "one of initial"),
        ({"plugin.name": "wal2json"}, "plugin.name", "one of pgoutput"),
    ],
)
def test_a_config_that_cannot_work_is_refused_by_the_option_to_blame(
    orders: TestDatabase, given: dict[str, str], said: dict[str, str], option: str, words: str
) -> None:
    orders.run("DROP ROLE IF EXISTS weak", "CREATE ROLE weak LOGIN")
    found = refused(PostgresSource, {**given, **said})
    assert list(found) == [option]
    assert words in str(found[option])
