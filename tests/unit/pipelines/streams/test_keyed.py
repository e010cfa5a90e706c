"""Two sides of a join in order, and a foreign key's three steps, without Spark."""

from typing import Any

from pyspark.sql import Row

from millstream.pipelines.streams.keyed import AT, LEFT, RIGHT, SIDE, in_order, made
from millstream.pipelines.streams.stream import ORDER


def _row(side: int, order: int, at: int) -> Row:
    return Row(**{SIDE: side, ORDER: order, AT: at})


def _said(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row[SIDE], row[ORDER]) for row in rows]


def test_sides_meet_by_time_and_the_one_looked_up_comes_first() -> None:
    rows = [_row(LEFT, 0, 10), _row(RIGHT, 0, 10), _row(LEFT, 1, 11), _row(RIGHT, 1, 12)]
    assert _said(in_order(rows)) == [(RIGHT, 0), (LEFT, 0), (LEFT, 1), (RIGHT, 1)]


def test_a_sides_later_change_stays_behind_its_earlier_one_whatever_its_time() -> None:
    rows = [_row(RIGHT, 1, 5), _row(RIGHT, 0, 20), _row(LEFT, 0, 10), _row(LEFT, 1, 30)]
    assert _said(in_order(rows)) == [(LEFT, 0), (RIGHT, 0), (RIGHT, 1), (LEFT, 1)]


def test_a_row_has_its_columns_in_their_order_and_nulls_for_what_is_not_there() -> None:
    assert made(["b", "a", "c"], {"a": 1, "b": 2, "z": 3}) == Row(b=2, a=1, c=None)
