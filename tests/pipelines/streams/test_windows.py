"""Windows against results worked out by hand, with rows out of order, and too late.

Rows may be 10 s late. Spark closes windows by the watermark that the batch before left, and drops rows by the one
before that, so what each step gives is settled.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams import StreamsError, TestDriver, Topic, hopping, session, sliding, tumbling
from tests.pipelines.streams.feeding import plain_steps

CLICKS = Topic("clicks", "id string", key="user string", lateness="10 seconds")
#: By step: (user, time). At step 3 the watermark that drops rows is 15, and the one that closes windows 30.
FED = [
    [("a", 1), ("a", 12), ("b", 5)],
    [("a", 3), ("b", 25)],
    [("a", 14), ("b", 40)],
    [("a", 2), ("a", 16)],
]


@pytest.fixture(scope="module")
def driver(spark: SparkSession) -> Iterator[TestDriver]:
    with TestDriver(spark) as driver:
        for number, step in enumerate(FED):
            if number:
                driver.step()
            for user, at in step:
                driver.send(CLICKS, {"id": f"{user}{at}"}, key=user, at=at)
        yield driver


def _join_ids(so_far: dict[str, Any], row: Row) -> dict[str, Any]:
    return {"ids": f"{so_far['ids']} {row['id']}"}


def test_a_tumbling_window_tells_each_change(driver: TestDriver) -> None:
    counts = CLICKS.stream().group_by().window(tumbling("10 seconds")).count()
    assert plain_steps(driver.steps(counts), "user", "window", "count") == [
        {("a", (0, 10), 1), ("a", (10, 20), 1), ("b", (0, 10), 1)},
        {("a", (0, 10), 2), ("b", (20, 30), 1)},
        {("a", (10, 20), 2), ("b", (40, 50), 1)},
        {("a", (10, 20), 3)},
        set(),
    ]


def test_suppressed_a_tumbling_window_tells_only_its_end(driver: TestDriver) -> None:
    counts = CLICKS.stream().group_by().window(tumbling("10 seconds")).count().suppress()
    assert plain_steps(driver.steps(counts), "user", "window", "count", "_timestamp") == [
        set(),
        set(),
        {("a", (0, 10), 2, 9.999999), ("b", (0, 10), 1, 9.999999)},
        {("a", (10, 20), 3, 19.999999), ("b", (20, 30), 1, 29.999999)},
        set(),
    ]


def test_a_row_is_in_every_hopping_window_that_covers_it_and_is_still_open(driver: TestDriver) -> None:
    counts = CLICKS.stream().group_by().window(hopping("20 seconds", "10 seconds")).count().suppress()
    assert plain_steps(driver.steps(counts), "user", "window", "count") == [
        set(),
        set(),
        {("a", (-10, 10), 2), ("b", (-10, 10), 1)},
        {("a", (0, 20), 6), ("a", (10, 30), 3), ("b", (0, 20), 1), ("b", (10, 30), 1)},
        set(),
    ]


def test_a_late_row_joins_two_sessions(driver: TestDriver) -> None:
    sessions = CLICKS.stream().group_by().window(session("10 seconds")).agg(n=F.count("id"), first=F.min("id"))
    assert plain_steps(driver.steps(sessions), "user", "window", "n", "first") == [
        set(),
        set(),
        {("b", (5, 15), 1, "b5")},
        {("a", (1, 26), 5, "a1")},
        set(),
    ]


def test_a_sliding_window_ends_at_each_row(driver: TestDriver) -> None:
    sliding_counts = (
        CLICKS.stream().group_by().window(sliding("10 seconds")).agg(ids=F.sort_array(F.collect_list("id")))
    )
    assert plain_steps(driver.steps(sliding_counts), "user", "window", "ids") == [
        set(),
        {("a", (-9, 1), ("a1",))},
        {
            ("a", (-7, 3), ("a1", "a3")),
            ("a", (2, 12), ("a12", "a3")),
            ("a", (4, 14), ("a12", "a14")),
            ("b", (-5, 5), ("b5",)),
        },
        {("a", (6, 16), ("a12", "a14", "a16")), ("b", (15, 25), ("b25",))},
        set(),
    ]


def test_a_sliding_window_keeps_nothing_of_groups_that_are_over(spark: SparkSession) -> None:
    """Else a stream with ever new keys would keep the last rows of each for ever."""
    out = Topic("slid", "n long", key="user string")
    with TestDriver(spark) as driver:
        for number in range(6):
            driver.send(CLICKS, {"id": "x"}, key=f"user {number}", at=100 * (number + 1))
            driver.step()
        counts = CLICKS.stream().group_by().window(sliding("10 seconds")).agg(n=F.count("id"))
        counts.to(out, name="slid")
        kept = spark.read.format("statestore").option("operatorId", 1).option("stateVarName", "rows")
        users = [row["key"]["user"] for row in kept.load(f"{driver.checkpoints}/slid").select("key").collect()]
        assert len(driver.records(out)) == 5
        assert "user 5" in users and len(users) <= 3


def test_a_function_folds_a_windows_rows_in_order_of_time_within_a_batch(driver: TestDriver) -> None:
    ids = CLICKS.stream().group_by().window(tumbling("10 seconds")).aggregate({"ids": ""}, _join_ids, "ids string")
    assert plain_steps(driver.steps(ids), "user", "window", "ids") == [
        {("a", (0, 10), " a1"), ("a", (10, 20), " a12"), ("b", (0, 10), " b5")},
        {("a", (0, 10), " a1 a3"), ("b", (20, 30), " b25")},
        {("a", (10, 20), " a12 a14"), ("b", (40, 50), " b40")},
        {("a", (10, 20), " a12 a14 a16")},
        set(),
    ]
    assert plain_steps(driver.steps(ids.suppress()), "user", "window", "ids") == [
        set(),
        set(),
        {("a", (0, 10), " a1 a3"), ("b", (0, 10), " b5")},
        {("a", (10, 20), " a12 a14 a16"), ("b", (20, 30), " b25")},
        set(),
    ]


def test_without_a_window_an_aggregate_runs_on(driver: TestDriver) -> None:
    grouped = CLICKS.stream().group_by()
    reduced = grouped.reduce(lambda one, other: {"id": max(one["id"], other["id"])})
    assert plain_steps(driver.steps(reduced), "user", "id") == [
        {("a", "a12"), ("b", "b5")},
        {("a", "a3"), ("b", "b5")},
        {("a", "a3"), ("b", "b5")},
        {("a", "a3")},
        set(),
    ]
    assert plain_steps(driver.steps(grouped.count()), "user", "count", "_timestamp") == [
        {("a", 2, 12), ("b", 1, 5)},
        {("a", 3, 12), ("b", 2, 25)},
        {("a", 4, 14), ("b", 3, 40)},
        {("a", 6, 16)},
        set(),
    ]


def test_a_column_may_say_when_a_row_happened(spark: SparkSession) -> None:
    """The records' own timestamps, which would put all of them into one window, are not looked at."""
    trips = Topic("trips", "km long, left timestamp", key="car string", time="left", lateness="10 seconds")
    with TestDriver(spark) as driver:
        for number, step in enumerate([[(1, 12), (2, 3)], [(3, 4), (4, 40)], [(5, 2), (6, 35)], [(7, 1), (8, 59)]]):
            if number:
                driver.step()
            for km, at in step:
                driver.send(trips, {"km": km, "left": f"1970-01-01T00:00:{at:02}Z"}, key="x", at=7)
        sums = trips.stream().group_by().window(tumbling("10 seconds")).agg(km=F.sum("km")).suppress()
        assert plain_steps(driver.steps(sums), "car", "window", "km") == [
            set(),
            set(),
            {("x", (0, 10), 10), ("x", (10, 20), 1)},
            set(),
            {("x", (30, 40), 6)},
        ]
        driver.send(trips, {"km": 9}, key="x", at=7)
        with pytest.raises(StreamingQueryException, match=r"topic trips, partition 0, offset 8 .* left has no time"):
            driver.rows(trips.stream())


def test_what_a_window_needs_is_said_before_anything_starts(driver: TestDriver) -> None:
    timeless = Topic("clicks", "id string", key="user string").stream()
    with pytest.raises(StreamsError, match=r"tumbling window needs to know how late"):
        timeless.group_by().window(tumbling("10 seconds")).count()
    with pytest.raises(StreamsError, match=r"session window takes agg"):
        CLICKS.stream().group_by().window(session("5 seconds")).reduce(lambda one, other: one)
    with pytest.raises(StreamsError, match=r"suppress\(\) stands right behind"):
        CLICKS.stream().suppress()
    with pytest.raises(StreamsError, match=r"no column 'shop' among user, id, _timestamp"):
        CLICKS.stream().group_by("shop")
