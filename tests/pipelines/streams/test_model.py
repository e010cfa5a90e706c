"""Random records through the operators, against a model in plain Python: after every step, both say the same."""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams import TestDriver, Topic, sliding, tumbling
from tests.pipelines.streams.feeding import plain_steps

CLICKS = Topic("clicks", "id long", key="user long", lateness="15 seconds")
USERS = Topic("users", "name string", key="user long")
PLANS = Topic("plans", "plan string, boss long", key="user long")
LATENESS_S, SIZE_S = 15, 10


class Sent(NamedTuple):
    """A record of the model; its number is its offset too."""

    topic: str
    key: int
    number: int
    at: int
    boss: int | None = None
    deleted: bool = False


def _history(seed: int) -> list[list[Sent]]:
    """Steps of records: event time moves on by about ten seconds a step, and strays behind by up to thirty.

    None is of the year 1970's first moment, which Spark takes for late before there was any watermark.
    """
    chance = random.Random(seed)
    steps, number = [], 0
    for step in range(5):
        records = []
        for _ in range(40):
            number += 1
            topic = chance.choice(["clicks", "clicks", "users", "plans"])
            at = max(1, 10 * step + 30 + chance.randint(-30, 5))
            boss = chance.choice([None, *range(4)])
            deleted = topic != "clicks" and chance.random() < 0.25
            records.append(Sent(topic, chance.randrange(4), number, at, boss, deleted))
        steps.append(records)
    return steps


def _feed(driver: TestDriver, history: list[list[Sent]]) -> None:
    for number, step in enumerate(history):
        if number:
            driver.step()
        for sent in step:
            fields = {
                "clicks": {"id": sent.number},
                "users": {"name": f"n{sent.number}"},
                "plans": {"plan": f"p{sent.number}", "boss": sent.boss},
            }[sent.topic]
            topic = {"clicks": CLICKS, "users": USERS, "plans": PLANS}[sent.topic]
            driver.send(topic, None if sent.deleted else fields, key=sent.key, at=sent.at)


def _watermarks(history: list[list[Sent]]) -> list[tuple[int, int]]:
    """For each batch, and the one after the last: the watermark that drops rows, and the one that closes windows."""
    closing, newest = [0], 0
    for step in history:
        newest = max([newest, *(sent.at for sent in step if sent.topic == "clicks")])
        closing.append(max(0, newest - LATENESS_S))
    return list(zip([0, *closing], closing, strict=False))


def _clicks(history: list[list[Sent]]) -> Iterator[tuple[int, int, int, list[Sent]]]:
    marks = _watermarks(history)
    for number, step in enumerate([*history, []]):
        yield number, *marks[number], [sent for sent in step if sent.topic == "clicks"]


def _tumbling(history: list[list[Sent]]) -> list[set[tuple[Any, ...]]]:
    counts: dict[tuple[int, int], int] = defaultdict(int)
    told = []
    for _, dropping, closing, clicks in _clicks(history):
        for sent in clicks:
            start = sent.at // SIZE_S * SIZE_S
            if start + SIZE_S > dropping:
                counts[sent.key, start] += 1
        closed = {entry for entry in counts.items() if entry[0][1] + SIZE_S <= closing}
        told.append({(key, (start, start + SIZE_S), count) for (key, start), count in closed})
        for place, _ in closed:
            del counts[place]
    return told


def _sliding(history: list[list[Sent]]) -> list[set[tuple[Any, ...]]]:
    rows: list[Sent] = []
    told, done = [], 0
    for _, dropping, closing, clicks in _clicks(history):
        rows += [sent for sent in clicks if sent.at > dropping]
        ends = {(sent.key, sent.at) for sent in rows if done < sent.at <= closing}
        told.append(
            {
                (
                    key,
                    at,
                    tuple(sorted(sent.number for sent in rows if sent.key == key and at - SIZE_S <= sent.at <= at)),
                )
                for key, at in ends
            }
        )
        done = max(done, closing)
    return told


def _tables(history: list[list[Sent]]) -> list[dict[str, dict[int, Sent]]]:
    """Both tables after each step: the log's order decides."""
    tables: dict[str, dict[int, Sent]] = {"users": {}, "plans": {}}
    after = []
    for step in history:
        for sent in step:
            if sent.topic == "clicks":
                continue
            tables[sent.topic].pop(sent.key, None)
            if not sent.deleted:
                tables[sent.topic][sent.key] = sent
        after.append({topic: dict(table) for topic, table in tables.items()})
    return after


def _views(steps: list[list[Row]], *columns: str) -> list[dict[int, tuple[Any, ...]]]:
    """What a table's changes come to after each step."""
    view: dict[int, tuple[Any, ...]] = {}
    views = []
    for rows in steps:
        for row in sorted(rows, key=lambda row: int(row["_order"])):
            view.pop(row["user"], None)
            if not row["_deleted"]:
                view[row["user"]] = tuple(row[column] for column in columns)
        views.append(dict(view))
    return views


def _check(spark: SparkSession, seed: int) -> None:
    history = _history(seed)
    after = _tables(history)
    with TestDriver(spark) as driver:
        _feed(driver, history)
        grouped = CLICKS.stream().group_by()
        counts = driver.steps(grouped.window(tumbling(f"{SIZE_S} seconds")).count().suppress())
        assert plain_steps(counts, "user", "window", "count") == _tumbling(history)
        slid = grouped.window(sliding(f"{SIZE_S} seconds")).agg(ids=F.sort_array(F.collect_list("id")))
        assert plain_steps(driver.steps(slid), "user", "_timestamp", "ids") == _sliding(history)

        joined = driver.steps(USERS.table().join(PLANS.table(), how="full").df)
        for number, view in enumerate(_views(joined, "name", "plan")[: len(history)]):
            users, plans = after[number]["users"], after[number]["plans"]
            assert view == {
                key: (
                    f"n{users[key].number}" if key in users else None,
                    f"p{plans[key].number}" if key in plans else None,
                )
                for key in users.keys() | plans.keys()
            }, f"tables after step {number}"

        bosses = driver.steps(PLANS.table().join(USERS.table(), on="boss", how="left").df)
        for number, view in enumerate(_views(bosses, "plan", "name")[: len(history)]):
            users, plans = after[number]["users"], after[number]["plans"]
            assert view == {
                key: (f"p{plan.number}", f"n{users[plan.boss].number}" if plan.boss in users else None)
                for key, plan in plans.items()
            }, f"foreign keys after step {number}"


@pytest.mark.timeout(400)
def test_operators_agree_with_a_plain_model(spark: SparkSession) -> None:
    _check(spark, seed=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(2, 22))
def test_operators_agree_with_a_plain_model_at_length(spark: SparkSession, seed: int) -> None:
    _check(spark, seed)
