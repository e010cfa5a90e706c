"""A processor with state and timers: reminders of carts that were left alone."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from millstream.pipelines.streams import Context, Processor, StreamsError, TestDriver, Topic
from tests.pipelines.streams.feeding import plain, plain_steps

CARTS = Topic("carts", "item string", key="user string", lateness="10 seconds")


class Reminder(Processor):
    """Counts what is put into a cart; 20 s without a change it says so, and forgets the cart."""

    output = "event string, items long"
    state = "items long, due timestamp"
    timers = "event"

    def on_row(self, key: tuple[Any, ...], row: Row, context: Context) -> Iterator[Mapping[str, Any]]:
        cart = context.get()
        if cart is not None:
            context.cancel_timer(cart["due"])
        if row["item"] == "paid":
            context.clear()
            return
        due = row["_timestamp"] + timedelta(seconds=20)
        items = (cart["items"] if cart else 0) + 1
        context.set(items=items, due=due)
        context.set_timer(due)
        yield {"event": f"put {row['item']}", "items": items}

    def on_timer(self, key: tuple[Any, ...], at: datetime, context: Context) -> Iterable[Mapping[str, Any]]:
        cart = context.get()
        assert cart is not None
        context.clear()
        return [{"event": "left alone", "items": cart["items"]}]


def test_timers_fire_by_event_time_and_not_once_cancelled(spark: SparkSession) -> None:
    with TestDriver(spark) as driver:
        for user, item, at in (("a", "tea", 2), ("a", "cup", 1), ("b", "rum", 3), ("c", "gin", 4)):
            driver.send(CARTS, {"item": item}, key=user, at=at)
        driver.step()
        for user, item, at in (("b", "paid", 15), ("c", "ice", 16)):
            driver.send(CARTS, {"item": item}, key=user, at=at)
        driver.step()
        driver.send(CARTS, {"item": "jam"}, key="d", at=40)
        driver.step()
        driver.send(CARTS, {"item": "too late"}, key="a", at=5)
        driver.send(CARTS, {"item": "pie"}, key="d", at=60)
        steps = plain_steps(driver.steps(CARTS.stream().process(Reminder())), "user", "event", "items", "_timestamp")
    assert steps == [
        {("a", "put cup", 1, 1), ("a", "put tea", 2, 2), ("b", "put rum", 1, 3), ("c", "put gin", 1, 4)},
        {("c", "put ice", 2, 16)},
        {("d", "put jam", 1, 40)},
        {("a", "left alone", 2, 22), ("d", "put pie", 2, 60)},
        {("c", "left alone", 2, 36)},
    ]


class Deadline(Processor):
    """Each row asks to be told of, a moment later by the clock; another of its key takes that back."""

    output = "event string"
    state = "due timestamp"
    timers = "processing"

    def on_row(self, key: tuple[Any, ...], row: Row, context: Context) -> Iterator[Mapping[str, Any]]:
        before = context.get()
        if before is not None:
            context.cancel_timer(before["due"])
        due = context.now + timedelta(milliseconds=1 if row["item"] == "soon" else 3_600_000)
        context.set(due=due)
        context.set_timer(due)
        yield {"event": row["item"]}

    def on_timer(self, key: tuple[Any, ...], at: datetime, context: Context) -> Iterator[Mapping[str, Any]]:
        kept = context.get()
        assert kept is not None and kept["due"].timestamp() == at.timestamp() < context.now.timestamp()
        context.clear()
        yield {"event": "due"}


def test_timers_may_follow_the_clock_whatever_the_rows_times_are(spark: SparkSession) -> None:
    """A step is a micro-batch later than the one before, so what was due a millisecond behind that is due by now."""
    with TestDriver(spark) as driver:
        for user, item, at in (("a", "soon", 900), ("b", "later", 1), ("c", "soon", 5)):
            driver.send(CARTS, {"item": item}, key=user, at=at)
        driver.step()
        for user, item, at in (("d", "soon", 3), ("c", "later", 2)):  # By event time too late, by the clock not.
            driver.send(CARTS, {"item": item}, key=user, at=at)
        driver.step()
        driver.send(CARTS, {"item": "later"}, key="e", at=1_000)
        rows = driver.steps(CARTS.stream().process(Deadline()))
    first, second, third = ({plain(row, "user", "event") for row in step} for step in rows[:3])
    assert first == {("a", "soon"), ("b", "later"), ("c", "soon")}
    # What is due is looked at behind the rows, so c's was taken back before.
    assert second == {("d", "soon"), ("c", "later"), ("a", "due")}
    assert third == {("e", "later"), ("d", "due")}


def test_what_a_processor_needs_is_said_before_anything_starts(spark: SparkSession) -> None:
    class Odd(Processor):
        output = "n long"
        timers = "lunar"

    with TestDriver(spark):
        with pytest.raises(StreamsError, match="timers='lunar': one of none, event, processing"):
            CARTS.stream().process(Odd())
        with pytest.raises(StreamsError, match="needs to know how late"):
            Topic("carts", "item string", key="user string").stream().process(Reminder())
        with pytest.raises(StreamsError, match="needs a key"):
            Topic("carts", "item string").stream().process(Reminder())
