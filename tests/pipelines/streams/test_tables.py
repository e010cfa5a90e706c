"""Tables and their joins against changes worked out by hand."""

import datetime
import functools
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams import TestDriver, Topic
from tests.pipelines.streams.feeding import plain, plain_steps

USERS = Topic("users", "name string", key="user long")
PLANS = Topic("plans", "plan string", key="user long")


def test_a_table_tells_each_change_in_the_topics_order_and_deletions_of_what_was_there(spark: SparkSession) -> None:
    with TestDriver(spark) as driver:
        driver.send(USERS, {"name": "Ann"}, key=1, at=10)
        driver.send(USERS, {"name": "Anna"}, key=1, at=5)
        driver.send(USERS, None, key=2, at=6)
        driver.step()
        driver.send(USERS, None, key=1, at=7)
        driver.send(USERS, {"name": "Bob"}, key=2, at=8)
        driver.step()
        driver.send(USERS, {"name": "Late"}, key=1, at=6)
        driver.send(USERS, None, key=2, at=9)
        driver.send(USERS, {"name": "Bo"}, key=2, at=9)
        by_offset = plain_steps(driver.steps(USERS.table()), "user", "name", "_timestamp", "_deleted")
        by_time = plain_steps(driver.steps(USERS.table(newest="timestamp")), "user", "name", "_timestamp", "_deleted")
    assert by_offset == [
        {(1, "Ann", 10, False), (1, "Anna", 5, False)},
        {(1, None, 7, True), (2, "Bob", 8, False)},
        {(1, "Late", 6, False), (2, None, 9, True), (2, "Bo", 9, False)},
        set(),
    ]
    assert by_time == [
        {(1, "Anna", 5, False), (1, "Ann", 10, False)},
        {(2, "Bob", 8, False)},
        {(2, None, 9, True), (2, "Bo", 9, False)},
        set(),
    ]


def test_a_tables_state_keeps_every_type(spark: SparkSession) -> None:
    plain_types = "t timestamp, d date, m decimal(10,2), b binary, n long"
    nested = "a array<struct<x: long, s: string>>, p map<string,double>"
    things = Topic("things", f"{plain_types}, {nested}", key="id long")
    seen = Topic("seen", "n2 long", key="id long")
    with TestDriver(spark) as driver:
        value = {
            "t": "2024-03-31T01:30:00.123456+00:00",
            "d": "2024-02-29",
            "m": "12.50",
            "b": b"\x00\xff",
            "a": [{"x": 2**60 + 1, "s": None}],
            "p": {"k": 0.5},
            "n": None,
        }
        driver.send(things, value, key=1, at=1)
        driver.step()
        driver.send(seen, {"n2": 7}, key=1, at=2)
        (row,) = driver.rows(things.table().join(seen.table()))
    assert row["t"].timestamp() == datetime.datetime(2024, 3, 31, 1, 30, 0, 123456, datetime.UTC).timestamp()
    assert (row["d"], row["m"]) == (datetime.date(2024, 2, 29), Decimal("12.50"))
    assert (bytes(row["b"]), row["a"], row["p"], row["n"], row["n2"]) == (
        b"\x00\xff",
        [Row(x=2**60 + 1, s=None)],
        {"k": 0.5},
        None,
        7,
    )


def test_two_tables_join_into_a_table(spark: SparkSession) -> None:
    with TestDriver(spark) as driver:
        driver.send(USERS, {"name": "Ann"}, key=1, at=10)
        driver.send(USERS, {"name": "Bob"}, key=2, at=10)
        driver.send(PLANS, {"plan": "free"}, key=1, at=11)
        driver.step()
        driver.send(USERS, {"name": "Anna"}, key=1, at=5)
        driver.send(PLANS, {"plan": "gold"}, key=3, at=20)
        driver.step()
        driver.send(PLANS, None, key=1, at=30)
        driver.send(USERS, None, key=2, at=30)
        driver.send(USERS, {"name": "Cid"}, key=3, at=31)
        ways = [
            USERS.table().join(PLANS.table(), how=how).changes().df.withColumn("how", F.lit(how))
            for how in ("inner", "left", "right", "full")
        ]
        steps = driver.steps(functools.reduce(DataFrame.unionByName, ways))

    def told(how: str) -> list[set[tuple[Any, ...]]]:
        columns = ("user", "name", "plan", "_timestamp", "_deleted")
        return plain_steps([[row for row in step if row["how"] == how] for step in steps], *columns)

    inner, left, right, full = (told(how) for how in ("inner", "left", "right", "full"))
    assert left == [
        {(1, "Ann", None, 10, False), (1, "Ann", "free", 11, False), (2, "Bob", None, 10, False)},
        {(1, "Anna", "free", 11, False)},
        {(1, "Anna", None, 5, False), (2, None, None, 30, True), (3, "Cid", "gold", 31, False)},
        set(),
    ]
    assert right == [
        {(1, "Ann", "free", 11, False)},
        {(1, "Anna", "free", 11, False), (3, None, "gold", 20, False)},
        {(1, None, None, 30, True), (3, "Cid", "gold", 31, False)},
        set(),
    ]
    assert inner == [
        {(1, "Ann", "free", 11, False)},
        {(1, "Anna", "free", 11, False)},
        {(1, None, None, 30, True), (3, "Cid", "gold", 31, False)},
        set(),
    ]
    assert full == [
        {(1, "Ann", None, 10, False), (1, "Ann", "free", 11, False), (2, "Bob", None, 10, False)},
        {(1, "Anna", "free", 11, False), (3, None, "gold", 20, False)},
        {(1, "Anna", None, 5, False), (2, None, None, 30, True), (3, "Cid", "gold", 31, False)},
        set(),
    ]


def test_a_foreign_key_follows_both_tables(spark: SparkSession) -> None:
    orders = Topic("orders", "item string, buyer long", key="order long")
    with TestDriver(spark) as driver:
        driver.send(USERS, {"name": "Ann"}, key=1, at=1)
        driver.send(orders, {"item": "tea", "buyer": 1}, key=100, at=2)
        driver.send(orders, {"item": "rum", "buyer": 2}, key=200, at=2)
        driver.send(orders, {"item": "gin", "buyer": None}, key=300, at=2)
        driver.step()
        driver.send(USERS, {"name": "Anna"}, key=1, at=3)
        driver.send(USERS, {"name": "Bob"}, key=2, at=3)
        driver.step()
        # To another buyer while the old one changes: only the new one's result may stay.
        driver.send(orders, {"item": "tea", "buyer": 2}, key=100, at=5)
        driver.send(USERS, {"name": "Annie"}, key=1, at=6)
        driver.step()
        driver.send(USERS, None, key=2, at=7)
        driver.step()
        driver.send(orders, None, key=100, at=8)
        driver.send(orders, {"item": "rum", "buyer": 1}, key=200, at=9)
        columns = ("order", "item", "name", "_deleted")
        inner = driver.steps(orders.table().join(USERS.table(), on="buyer"))
        left = driver.steps(orders.table().join(USERS.table(), on="buyer", how="left"))
    assert [{plain(row, *columns) for row in rows if not row["_deleted"]} for rows in inner] == [
        {(100, "tea", "Ann", False)},
        {(100, "tea", "Anna", False), (200, "rum", "Bob", False)},
        {(100, "tea", "Bob", False)},
        set(),
        {(200, "rum", "Annie", False)},
        set(),
    ]
    assert [{row["order"] for row in rows if row["_deleted"]} for rows in inner] == [
        set(),
        set(),
        set(),
        {100, 200},
        set(),
        set(),
    ]
    assert [{plain(row, *columns) for row in rows if not row["_deleted"]} for rows in left] == [
        {(100, "tea", "Ann", False), (200, "rum", None, False), (300, "gin", None, False)},
        {(100, "tea", "Anna", False), (200, "rum", "Bob", False)},
        {(100, "tea", "Bob", False)},
        {(100, "tea", None, False), (200, "rum", None, False)},
        {(200, "rum", "Annie", False)},
        set(),
    ]
    assert [{row["order"] for row in rows if row["_deleted"]} for rows in left] == [
        set(),
        set(),
        set(),
        set(),
        {100},
        set(),
    ]
