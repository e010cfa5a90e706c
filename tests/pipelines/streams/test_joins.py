"""Joins against results worked out by hand: streams within a time, and streams with tables."""

import functools

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams import StreamsError, TestDriver, Topic
from tests.pipelines.streams.feeding import plain, plain_steps

HOW = ("inner", "left", "right", "full")

ORDERS = Topic("orders", "order string", key="user string", lateness="10 seconds")
PAYMENTS = Topic("payments", "payment string", key="user string", lateness="10 seconds")
USERS = Topic("users", "name string", key="user string")


def _feed_orders_and_payments(driver: TestDriver) -> None:
    """Both sides' watermarks are 50 once step 2 is read, so that step 4 drops what is older."""
    steps = [
        ([("a", "o1", 1), ("b", "o2", 2)], [("a", "p1", 4), ("b", "p2", 9)]),
        ([("a", "o3", 12)], [("a", "p3", 8)]),
        ([("c", "o4", 60)], [("c", "p4", 60)]),
        ([("d", "o5", 100)], [("d", "p5", 200)]),
        ([("a", "o6", 3)], [("a", "p6", 3), ("d", "p7", 101)]),
    ]
    for orders, payments in steps:
        for user, order, at in orders:
            driver.send(ORDERS, {"order": order}, key=user, at=at)
        for user, payment, at in payments:
            driver.send(PAYMENTS, {"payment": payment}, key=user, at=at)
        driver.step()


def test_streams_join_within_a_time_and_tell_what_found_nothing(spark: SparkSession) -> None:
    """Every way of joining, side by side in one query."""
    with TestDriver(spark) as driver:
        _feed_orders_and_payments(driver)
        ways = []
        for how in HOW:
            joined = ORDERS.stream().join(PAYMENTS.stream(), within="5 seconds", how=how)
            assert set(joined.df.columns) == {"user", "order", "payment", "_timestamp"}
            ways.append(joined.df.withColumn("how", F.lit(how)))
        rows = driver.rows(functools.reduce(DataFrame.unionByName, ways))
    assert len(set(rows)) == len(rows)
    found = {how: {plain(row, "order", "payment", "_timestamp") for row in rows if row["how"] == how} for how in HOW}
    pairs = {("o1", "p1", 1), ("o3", "p3", 12), ("o4", "p4", 60), ("o5", "p7", 100)}
    order, payment = {("o2", None, 2)}, {(None, "p2", 9)}
    assert found == {
        "inner": pairs,
        "left": pairs | order,
        "right": pairs | payment,
        "full": pairs | order | payment,
    }


def test_a_stream_sees_the_table_as_it_was_at_its_time_within_a_batch_and_as_it_is_across_them(
    spark: SparkSession,
) -> None:
    with TestDriver(spark) as driver:
        driver.send(USERS, {"name": "Ann"}, key="a", at=5)
        driver.send(ORDERS, {"order": "too early"}, key="a", at=4)
        driver.send(ORDERS, {"order": "at once"}, key="a", at=5)
        driver.send(ORDERS, {"order": "unknown"}, key="b", at=6)
        driver.step()
        driver.send(USERS, {"name": "Anna"}, key="a", at=20)
        driver.send(USERS, {"name": "Bob"}, key="b", at=1)
        driver.send(ORDERS, {"order": "old name"}, key="a", at=19)
        driver.send(ORDERS, {"order": "known now"}, key="b", at=31)
        driver.step()
        driver.send(ORDERS, {"order": "out of order"}, key="a", at=18)
        driver.step()
        driver.send(USERS, None, key="a", at=22)
        driver.send(ORDERS, {"order": "deleted"}, key="a", at=40)
        driver.send(ORDERS, {"order": "too late"}, key="b", at=7)
        ways = [ORDERS.stream().join(USERS.table(), how=how).df.withColumn("how", F.lit(how)) for how in HOW[:2]]
        steps = driver.steps(ways[0].unionByName(ways[1]))
    columns = ("user", "order", "name", "_timestamp")
    inner, left = (
        plain_steps([[row for row in step if row["how"] == how] for step in steps], *columns) for how in HOW[:2]
    )
    assert inner == [{row for row in step if row[2] is not None} for step in left]
    assert left == [
        {("a", "too early", None, 4), ("a", "at once", "Ann", 5), ("b", "unknown", None, 6)},
        {("a", "old name", "Ann", 19), ("b", "known now", "Bob", 31)},
        {("a", "out of order", "Anna", 18)},
        {("a", "deleted", None, 40)},
        set(),
    ]


def test_a_global_table_is_looked_up_by_any_column(spark: SparkSession) -> None:
    shops = Topic("shops", "city string", key="shop long")
    sales = Topic("sales", "sale string, at_shop long")
    with TestDriver(spark) as driver:
        for shop, city in ((1, "Rome"), (2, "Oslo"), (1, "Roma"), (3, "Bern")):
            driver.send(shops, {"city": city}, key=shop)
        driver.send(shops, None, key=3)
        for sale, shop in (("x", 1), ("y", 2), ("z", 3)):
            driver.send(sales, {"sale": sale, "at_shop": shop})
        inner = sales.stream().join(shops.global_table(), on={"at_shop": "shop"})
        left = sales.stream().join(shops.global_table(), on={"at_shop": "shop"}, how="left")
        assert plain_steps(driver.steps(inner), "sale", "city")[0] == {("x", "Roma"), ("y", "Oslo")}
        assert plain_steps(driver.steps(left), "sale", "city")[0] == {("x", "Roma"), ("y", "Oslo"), ("z", None)}


def test_what_a_join_needs_is_said_before_anything_starts(spark: SparkSession) -> None:
    with TestDriver(spark):
        orders, users = ORDERS.stream(), USERS.table()
        with pytest.raises(StreamsError, match="needs a time: within="):
            orders.join(PAYMENTS.stream())  # type: ignore[call-overload]
        with pytest.raises(StreamsError, match="needs to know how late"):
            orders.join(Topic("payments", "payment string", key="user string").stream(), within="5 seconds")
        with pytest.raises(StreamsError, match="how='full': stream and table are joined by inner, left"):
            orders.join(users, how="full")
        with pytest.raises(StreamsError, match="both sides have order"):
            orders.join(ORDERS.stream(), within="5 seconds")
        with pytest.raises(StreamsError, match="do not go together"):
            Topic("sales", "sale string").stream().join(users)
        with pytest.raises(StreamsError, match="the table has name"):
            users.join(USERS.table(), on="shop")
