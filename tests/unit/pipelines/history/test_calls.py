"""Calls of ``topic(…)`` found in a query, read and replaced."""

import pytest

from millstream.pipelines.history.calls import Call, rewrite
from millstream.pipelines.history.errors import QueryError

ORDERS = Call("orders")


def test_a_call_becomes_a_view_named_like_its_topic() -> None:
    assert rewrite("SELECT * FROM topic('orders')") == ("SELECT * FROM `orders`       ", {"orders": ORDERS})


def test_what_stands_behind_a_call_stays_where_it_was() -> None:
    sql = "SELECT *\nFROM Topic ( 'orders' ,\n  schema => 'id INT'\n) o\nWHERE o.x = 1;"
    rewritten = rewrite(sql).sql
    assert rewritten.split() == ["SELECT", "*", "FROM", "`orders`", "o", "WHERE", "o.x", "=", "1"]
    assert [line.find("o.x") for line in rewritten.split("\n")] == [line.find("o.x") for line in sql.split("\n")]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'FROM topic(''orders'')'",
        "SELECT 1 -- FROM topic('orders')",
        "SELECT 1 /* FROM topic('orders') */",
        "SELECT `topic('orders')` FROM t",
        "SELECT count(topic) FROM t WHERE topic IN ('a') GROUP BY topic",
        "SELECT * FROM a JOIN b USING (topic)",
        "SELECT * FROM mine.topic('orders')",
        "WITH topic (a) AS (SELECT 1) SELECT a FROM topic",
    ],
)
def test_what_is_no_call_is_left_alone(sql: str) -> None:
    assert rewrite(sql).calls == {}
    assert rewrite(sql).sql == sql.partition(" -- ")[0].partition(" /*")[0]


def test_arguments_have_names_and_values_of_several_kinds() -> None:
    (call,) = rewrite(
        "FROM topic('orders', FORMAT => 'json', headers => TRUE, from_offset => -100, to_offset => 7L,"
        " from_time => TIMESTAMP '2026-01-31 12:00:00', to_time=>1700000000000)"
    ).calls.values()
    assert call.topic == "orders"
    assert dict(call.arguments) == {
        "format": "json",
        "headers": True,
        "from_offset": -100,
        "to_offset": 7,
        "from_time": "2026-01-31 12:00:00",
        "to_time": 1_700_000_000_000,
    }


@pytest.mark.parametrize(
    ("clause", "argument"),
    [
        ("VERSION AS OF 5", ("version", 5)),
        ("FOR SYSTEM_VERSION AS OF 5", ("version", 5)),
        ("TIMESTAMP AS OF '2026-01-31'", ("as_of", "2026-01-31")),
        ("for system_time as of DATE '2026-01-31'", ("as_of", "2026-01-31")),
        ("timestamp as of 1700000000000", ("as_of", 1_700_000_000_000)),
    ],
)
def test_a_table_may_be_asked_for_as_it_was(clause: str, argument: tuple[str, str | int]) -> None:
    rewritten = rewrite(f"SELECT * FROM topic('orders') {clause} AS o")
    assert rewritten.calls == {"orders": Call("orders", (argument,))}
    assert rewritten.sql.split() == ["SELECT", "*", "FROM", "`orders`", "AS", "o"]


def test_the_same_call_twice_is_one_view_and_another_call_another() -> None:
    rewritten = rewrite("FROM topic('a') x JOIN topic('a') y JOIN topic('a', headers => true) z JOIN topic('b')")
    assert rewritten.calls == {"a": Call("a"), "a_2": Call("a", (("headers", True),)), "b": Call("b")}
    assert rewritten.sql.split() == ["FROM", "`a`", "x", "JOIN", "`a`", "y", "JOIN", "`a_2`", "z", "JOIN", "`b`"]


@pytest.mark.parametrize(
    "named", ["WITH Orders AS (SELECT 1)", "WITH `orders` AS (SELECT 1)", "WITH RECURSIVE orders(n) AS (SELECT 1)"]
)
def test_a_view_never_takes_the_name_of_a_table_of_the_query_itself(named: str) -> None:
    assert list(rewrite(f"{named} SELECT * FROM topic('orders')").calls) == ["orders_2"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (" ; ", "the query is empty; write one such as SELECT * FROM topic('orders')"),
        ("SELECT 1; SELECT 2", "this is more than one statement"),
        ("FROM topic()", "the topic's name comes first, in quotes: topic('orders')"),
        ("FROM topic(orders)", "topic(orders…): the topic's name comes first"),
        ("FROM topic('')", "the topic's name comes first"),
        ("FROM topic('orders'", "the query ends within topic(…), where `)` is missing"),
        ("FROM topic('orders' 5)", "topic('orders'): `,` or `)` is missing before `5`"),
        ("FROM topic('orders', 'json')", "arguments have names: `format => 'json'`, not `'json'`"),
        ("FROM topic('orders', format = 'json')", "arguments have names: `format => 'json'`, not `format`"),
        ("FROM topic('orders', shema => 'a INT')", "topic('orders') has no argument shema; did you mean schema?"),
        ("FROM topic('orders', zzz => 1)", "topic('orders') has no argument zzz; there are format, schema, key"),
        ("FROM topic('orders', format => 5)", "topic('orders'): format => 5: must be text"),
        ("FROM topic('orders', headers => 'x')", "topic('orders'): headers => 'x': must be true or false"),
        ("FROM topic('orders', to_offset => true)", "to_offset => true: must be a whole number or text"),
        ("FROM topic('orders', to_offset => 1.5)", "to_offset takes text in quotes, a whole number, true or false"),
        ("FROM topic('orders', to_time => now())", "to_time takes text in quotes"),
        ("FROM topic('orders', headers => true, headers => true)", "topic('orders'): headers is given twice"),
        ("FROM topic('orders') VERSION AS OF '5'", "topic('orders'): VERSION AS OF takes a number of offsets"),
    ],
)
def test_a_wrong_call_is_refused_with_what_is_wrong(sql: str, said: str) -> None:
    with pytest.raises(QueryError) as refusal:
        rewrite(sql)
    assert said in str(refusal.value)
