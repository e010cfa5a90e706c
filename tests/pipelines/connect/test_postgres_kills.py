"""PostgreSQL end to end: real Spark, a real broker, a real server, and kill -9; nothing is lost or doubled."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from millstream.pipelines.connect.reports import Batch
from tests.pipelines.connect.connectors import Connector
from tests.pipelines.connect.postgres import TestDatabase
from tests.pipelines.records import Found, records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
JSON = {
    f"{side}.converter{end}": value
    for side in ("key", "value")
    for end, value in (("", CONVERTER), (".schemas.enable", "false"))
}


@contextmanager
def writing(database: TestDatabase, step: Callable[[Any, int], None]) -> Iterator[None]:
    """A session that takes one step after another meanwhile, no more than a connector keeps up with."""
    over = Event()

    def run() -> None:
        with database.connect() as connection:
            number = 0
            while not over.wait(0.02):
                number += 1
                step(connection, number)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _folded(records: list[Found]) -> tuple[dict[int, str], dict[int, str]]:
    """The table that the records make, and how its keys came; each record must make sense behind the one before."""
    rows: dict[int, str] = {}
    came: dict[int, str] = {}
    for record in records:
        assert record.key is not None
        number = json.loads(record.key)["id"]
        if record.value is None:
            assert number not in rows
            continue
        value = json.loads(record.value)
        if value["op"] == "d":
            rows.pop(number, None)  # Not there if it went before it was read.
            continue
        item = value["after"]["item"]
        if value["op"] in "rc":
            assert number not in came, "nothing comes twice"
            came[number] = value["op"]
        else:
            # A row whose change was seen before it was read comes with the change alone.
            assert rows.get(number, item[:-1]) == item[:-1]
        rows[number] = item
    return rows, came


def kill_twice(connector: Connector) -> None:
    """The whole process behind its first batches, then a worker within one."""
    connector.wait(lambda: len(connector.told(Batch)) >= 2, "two batches")
    connector.kill()
    connector.start()
    connector.wait(lambda: len(connector.told(Batch)) >= 1 and connector.kill_worker(), "a worker to kill")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rows_and_changes_are_in_their_topic_once_whatever_is_killed(
    broker: BrokerProcess, topics: Topics, tmp_path: Path, database: TestDatabase
) -> None:
    database.run("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT NOT NULL)")
    database.run("INSERT INTO orders SELECT n, 'old' FROM generate_series(1, 3000) n")
    topic = topics.new(1, name=f"{database.name}.public.orders")
    config = {
        "name": "changes",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": database.server.user,
        "database.dbname": database.name,
        "topic.prefix": database.name,
        "slot.name": f"slot_{database.name}",
        "batch.max.rows": "1000",
        "poll.interval.ms": "50",
        **JSON,
    }

    def change(connection: Any, number: int) -> None:
        with connection.transaction():
            connection.execute("INSERT INTO orders VALUES (%s, 'new')", (10_000 + number,))
            connection.execute("UPDATE orders SET item = item || '.' WHERE id = %s", (number % 3000,))
        connection.execute("DELETE FROM orders WHERE id = %s", (10_000 + number - 5,))

    with Connector(broker.address, tmp_path, config) as connector:
        with writing(database, change):
            connector.wait(lambda: bool(connector.told(Batch)), "some of the rows")
            connector.kill()
            connector.start()
            connector.wait(lambda: any("snapshot" not in at for at in connector.offsets.values()), "changes")
            connector.wait(connector.kill_worker, "a worker to kill")
            connector.wait(lambda: len(connector.told(Batch)) > 3, "more changes", revives=True)
            connector.kill()
        ((end,),) = database.rows("SELECT pg_current_wal_lsn() - '0/0'")
        last = database.rows("SELECT max(id) FROM orders")[0][0]
        database.run("INSERT INTO orders VALUES (1000000, 'last')")

        def is_over() -> bool:
            return any(at["lsn"] > end for at in connector.offsets.values())

        connector.wait(is_over, "the last change", revives=True)
        connector.stop()
    rows, came = _folded(records_of(broker.address, topic))
    assert rows == dict(database.rows("SELECT id, item FROM orders"))
    first = min(number for number, op in came.items() if op == "c")
    assert came.keys() >= set(range(first, last + 1)), "nothing is left out"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_rows_with_rising_numbers_are_in_their_topic_once_whatever_is_killed(
    broker: BrokerProcess, topics: Topics, tmp_path: Path, database: TestDatabase
) -> None:
    database.run("CREATE TABLE lines (id SERIAL PRIMARY KEY, line TEXT)")
    database.run("INSERT INTO lines (line) SELECT 'old' FROM generate_series(1, 3000)")
    topic = topics.new(2, name=f"{database.name}-lines")
    config = {
        "name": "lines",
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": database.url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": f"{database.name}-",
        "batch.max.rows": "700",
        "poll.interval.ms": "50",
        **JSON,
    }

    def add(connection: Any, number: int) -> None:
        connection.execute("INSERT INTO lines (line) VALUES ('new')")

    with Connector(broker.address, tmp_path, config) as connector:
        with writing(database, add):
            kill_twice(connector)
        last = database.rows("SELECT max(id) FROM lines")[0][0]
        connector.wait(
            lambda: any(at["incrementing"] == last for at in connector.offsets.values()), "the last row", revives=True
        )
        connector.stop()
    found = [json.loads(record.value or b"")["id"] for record in records_of(broker.address, topic)]
    assert sorted(found) == list(range(1, last + 1))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_topic_is_in_its_table_once_whatever_is_killed(
    broker: BrokerProcess, topics: Topics, tmp_path: Path, database: TestDatabase
) -> None:
    topic = topics.new(2)
    count = 6000
    for partition in (0, 1):
        topics.put(topic, [json.dumps({"id": number, "item": "x"}) for number in range(partition, count, 2)], partition)
    topics.put(topic, ['{"id": "bad", "item": "x"}'], 1)
    config = {
        "name": "to-table",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": topic,
        "tasks.max": "2",
        "connection.url": database.url,
        "table.name.format": "copied",
        "auto.create": "true",
        "batch.size": "100",
        "consumer.override.max.poll.records": "700",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        **JSON,
    }
    with Connector(broker.address, tmp_path, config) as connector:
        kill_twice(connector)
        connector.wait(
            lambda: sum(at["kafka_offset"] for at in connector.offsets.values()) == count + 1, "the end", revives=True
        )
        connector.stop()
    assert [number for (number,) in database.rows("SELECT id FROM copied ORDER BY id")] == list(range(count))
    (dead,) = records_of(broker.address, f"{topic}-dead")
    assert dead.value == b'{"id": "bad", "item": "x"}'
