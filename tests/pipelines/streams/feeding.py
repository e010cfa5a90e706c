"""Rows in a shape that tests can compare: seconds in place of datetimes, and no regard for the order of a batch."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql import Row


def plain(row: Row, *names: str) -> tuple[Any, ...]:
    """A row's columns, with times as seconds; a window is its start and end."""
    return tuple(_plain(row[name]) for name in names)


def plain_steps(steps: Iterable[Iterable[Row]], *names: str) -> list[set[tuple[Any, ...]]]:
    """The rows of each step. No row may be there twice."""
    found = []
    for rows in steps:
        tuples = [plain(row, *names) for row in rows]
        assert len(set(tuples)) == len(tuples), f"doubled: {tuples}"
        found.append(set(tuples))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, Row):
        return tuple(_plain(part) for part in value)
    return tuple(value) if isinstance(value, list) else value
