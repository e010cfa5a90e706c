"""Topics asked in SQL, with results worked out by hand."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from millstream.cli.times import parse_moment_ms
from millstream.pipelines.history.complaints import complaint
from millstream.pipelines.history.errors import QueryError
from millstream.pipelines.history.query import Query, prepare
from millstream.pipelines.history.values import plain_rows
from tests.pipelines.tables import read_count
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

#: 2023-11-14T22:13:20Z.
THEN_MS = 1_700_000_000_000
ORDERS = "schema => 'id INT, customer STRING, amount DOUBLE'"
#: A command that starts Spark may take more than a minute on a machine with much else to do.
COMMAND_TIMEOUT_S = 240
END_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def orders(topics: Topics) -> str:
    """Six orders of three customers in two partitions, a millisecond apart in each."""
    topic = topics.new(partitions=2, name="orders")
    rows = [(1, "ann", 10.0), (2, "bob", 5.5), (3, "ann", 2.5), (4, "cy", 1.0), (5, "bob", 4.0), (6, "ann", 7.0)]
    texts = [json.dumps(dict(zip(("id", "customer", "amount"), row, strict=True))) for row in rows]
    topics.put(topic, texts[:4], 0, timestamp_ms=THEN_MS)
    topics.put(topic, texts[4:], 1, timestamp_ms=THEN_MS + 1000)
    return topic


def prepared(topics: Topics, sql: str, /, **options: str) -> Query:
    given = {"kafka.bootstrap.servers": topics.address, **options}
    return prepare(sql, given, lambda text: parse_moment_ms(text, THEN_MS + 5000))


def ask(spark: SparkSession, topics: Topics, sql: str) -> list[Mapping[str, object]]:
    """The rows of a query, as the command prints them."""
    return rows_of(prepared(topics, sql).rows(spark))


def rows_of(answer: DataFrame) -> list[Mapping[str, object]]:
    return [plain_rows(answer.schema)(row) for row in answer.collect()]


def test_topics_are_joined_and_summed_up(spark: SparkSession, topics: Topics, orders: str) -> None:
    topics.put(topics.new(name="vips"), ['{"name": "ann"}', '{"name": "cy"}'])
    answer = ask(
        spark,
        topics,
        f"SELECT o.customer, count(*) AS n, sum(o.amount) AS total FROM topic('orders', {ORDERS}) o "
        "JOIN topic('vips', schema => 'name STRING') v ON v.name = o.customer GROUP BY 1 ORDER BY 1",
    )
    assert answer == [{"customer": "ann", "n": 3, "total": 19.5}, {"customer": "cy", "n": 1, "total": 1.0}]


def test_a_topic_without_a_schema_has_the_columns_of_the_source(
    spark: SparkSession, topics: Topics, orders: str
) -> None:
    (row,) = ask(spark, topics, "SELECT * FROM topic('orders') WHERE orders.offset = 0 AND partition = 1")
    assert row == {
        "key": None,
        "value": '{"id": 5, "customer": "bob", "amount": 4.0}',
        "topic": "orders",
        "partition": 1,
        "offset": 0,
        "timestamp": "2023-11-14T22:13:21.000Z",
        "timestampType": 0,
    }


def test_time_travel_by_offset_and_by_timestamp(spark: SparkSession, topics: Topics, orders: str) -> None:
    (row,) = ask(
        spark,
        topics,
        "SELECT (SELECT count(*) FROM topic('orders') VERSION AS OF 1) AS first, "
        "(SELECT count(*) FROM topic('orders') TIMESTAMP AS OF '2023-11-14T22:13:20.002Z') AS then, "
        "(SELECT count(*) FROM topic('orders', from_time => '-4s')) AS late, "
        "(SELECT sum(offset) FROM topic('orders', from_offset => -1)) AS last, "
        """(SELECT count(*) FROM topic('orders', from_offset => '{"0": 3}')) AS mixed""",
    )
    assert row == {"first": 2, "then": 3, "late": 2, "last": 3 + 1, "mixed": 1 + 2}


def test_all_tables_are_as_they_were_when_the_query_began(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["a", "b"])
    query = prepared(topics, f"SELECT count(*) AS n FROM topic('{topic}') x CROSS JOIN topic('{topic}') y")
    topics.put(topic, ["c"])
    assert query.offsets == 2
    assert rows_of(query.rows(spark)) == [{"n": 4}]


def test_a_where_reads_no_more_than_it_asks_for_through_a_schema_too(
    spark: SparkSession, topics: Topics, orders: str
) -> None:
    for where, rows, read in (
        ("offset >= 1 AND partition = 0", 3, 3),
        ("timestamp >= TIMESTAMP '2023-11-14 22:13:21'", 2, 2),
        ("amount > 6 AND offset < 1", 1, 2),
    ):
        answer = prepared(topics, f"SELECT id FROM topic('orders', {ORDERS}) WHERE {where}").rows(spark)
        assert read_count(answer) == (rows, read), where


def test_json_without_a_schema_is_looked_into(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ['{"who": {"name": "ann"}, "n": 1}', None, '{"who": {"name": "bob"}, "n": "two"}'])
    answer = ask(
        spark,
        topics,
        f"SELECT value:who.name::string AS name, value:n, value IS NULL AS gone "
        f"FROM topic('{topic}', format => 'json') ORDER BY offset",
    )
    assert answer == [
        {"name": "ann", "n": 1, "gone": False},
        {"name": None, "n": None, "gone": True},
        {"name": "bob", "n": "two", "gone": False},
    ]


def test_a_schemas_columns_go_before_the_records_own(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["7,x"], key=b"k", headers=[("trace", b"1")], timestamp_ms=THEN_MS)
    table = f"topic('{topic}', format => 'csv', schema => 'offset INT, name STRING', key_format => 'text')"
    (row,) = ask(spark, topics, f"SELECT * FROM {table.replace(')', ', headers => true)')}")
    assert list(row) == [
        *("key", "offset", "name", "_key", "value", "topic", "partition", "_offset", "timestamp", "timestampType"),
        "headers",
    ]
    assert (row["key"], row["offset"], row["name"], row["_offset"]) == ("k", 7, "x", 0)
    assert row["headers"] == [{"key": "trace", "value": "1"}]


def test_records_that_do_not_fit_are_never_silent(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ['{"id": 1}', '{"id": "x"}', "no"])
    with pytest.raises(PySparkException) as refusal:
        ask(spark, topics, f"SELECT id FROM topic('{topic}', schema => 'id INT')")
    assert complaint(str(refusal.value)) == (
        f"a record of topic {topic}, partition 0, offset 1 does not fit: not JSON of struct<id:int>; "
        "errors => 'column' shows such records"
    )
    kept = f"topic('{topic}', schema => 'id INT', errors => 'column')"
    assert ask(spark, topics, f"SELECT id, value FROM {kept} WHERE _error IS NOT NULL ORDER BY offset") == [
        {"id": None, "value": '{"id": "x"}'},
        {"id": None, "value": "no"},
    ]


def test_isolation_is_an_argument(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    with topics.transaction("kept", topic, ["a"]) as producer:
        producer.commit_transaction(30)
    with topics.transaction("given-up", topic, ["b"]) as producer:
        producer.abort_transaction(30)
    counts = f"SELECT (SELECT count(*) FROM topic('{topic}', isolation => 'read_committed')) AS committed, "
    assert ask(spark, topics, counts + f"(SELECT count(*) FROM topic('{topic}')) AS all") == [
        {"committed": 1, "all": 2}
    ]


def test_files_are_asked_without_a_broker(spark: SparkSession, broker: BrokerProcess, orders: str) -> None:
    query = prepare(f"SELECT max(id) AS id FROM topic('orders', {ORDERS})", {"path": str(broker.data)}, int)
    assert rows_of(query.rows(spark)) == [{"id": 6}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nope FROM topic('orders')", "with name `nope` cannot be resolved"),
        ("SELECT * FROM orders_of_old", "`orders_of_old` cannot be found; a topic is read with FROM topic('name')"),
        ("SELECT 1 FROM topic('orders') WHERE )", "Syntax error at or near ')': extra input ')' (line 1, pos 36)"),
        ("SELECT key::int FROM topic('orders')", "cannot resolve"),
    ],
)
def test_wrong_sql_is_told_in_a_line_with_its_place(
    spark: SparkSession, topics: Topics, orders: str, sql: str, said: str
) -> None:
    with pytest.raises(PySparkException) as refusal:
        ask(spark, topics, sql)
    line = complaint(str(refusal.value))
    assert said.lower() in line.lower()
    assert "\n" not in line and "SQLSTATE" not in line


def test_a_topic_that_is_not_there_and_a_schema_that_cannot_be_are_named(
    spark: SparkSession, topics: Topics, orders: str
) -> None:
    with pytest.raises(QueryError, match=f"there is no topic 'nope' at {topics.address}"):
        ask(spark, topics, "SELECT * FROM topic('nope')")
    with pytest.raises(QueryError, match=r"schema => 'id INTT': is no schema of json: .*INTT"):
        ask(spark, topics, "SELECT * FROM topic('orders', schema => 'id INTT')")


def command(sql: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "millstream", "query", *arguments, sql]


def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has no Java, and a folder of its own for what is written on the way."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "cat", "env", "ps", "uname", "nice", "readlink"):
        for folder in ("/bin", "/usr/bin"):
            if os.path.exists(f"{folder}/{name}") and not (tools / name).exists():
                (tools / name).symlink_to(f"{folder}/{name}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "PYSPARK", "SPARK"))}
    return {**kept, "PATH": str(tools), "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}


@pytest.mark.long
@pytest.mark.timeout(COMMAND_TIMEOUT_S + END_TIMEOUT_S)
def test_the_command_answers_on_a_machine_without_java_and_says_nothing_else(
    topics: Topics, orders: str, tmp_path: Path
) -> None:
    sql = f"SELECT customer, sum(amount) AS total FROM topic('orders', {ORDERS}) GROUP BY 1 ORDER BY 1"
    ended = subprocess.run(
        command(sql, "-b", topics.address, "-o", "csv", "-n", "2", "-c", "spark.master=local[2]"),
        capture_output=True,
        text=True,
        env=without_java(tmp_path),
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert ended.stdout == "customer,total\nann,19.5\nbob,9.5\n"
    assert ended.stderr == "millstream: these are the first 2 rows; -n N shows more, -n 0 all\n"
    assert ended.returncode == 0
    assert not list(tmp_path.glob("millstream-query-*"))


@pytest.mark.timeout(COMMAND_TIMEOUT_S + END_TIMEOUT_S)
def test_an_interrupted_command_ends_without_a_word_and_takes_spark_along(
    topics: Topics, orders: str, tmp_path: Path
) -> None:
    """Even in the moment in which Java starts, which does not end by itself if its starter leaves then."""
    process = subprocess.Popen(
        command("SELECT count(*) FROM topic('orders')", "-b", topics.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    until(lambda: bool(processes_of(tmp_path)))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=END_TIMEOUT_S)
    assert (process.returncode, out, err) == (130, b"", b"")
    until(lambda: not processes_of(tmp_path))
    assert not list(tmp_path.glob("millstream-query-*"))


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + END_TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come to pass"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[int]:
    """The processes whose command lines name this folder: a query's Java does."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(folder) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # It has just ended.
            continue
    return found
