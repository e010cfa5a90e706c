"""Joins: streams within a time by Spark's own join, everything that has a table in it with state for each key."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.foreign import FOREIGN, LEAVES, VERSION, Match, Resolve, Subscribe
from millstream.pipelines.streams.keyed import (
    AT,
    CHANGE,
    LEFT,
    RIGHT,
    SIDE,
    Lookup,
    TableJoin,
    fields_of,
    run,
    with_time,
)
from millstream.pipelines.streams.stream import DELETED, ORDER, TIME, Stream, each_once
from millstream.pipelines.streams.table import GlobalTable, Table

#: What is joined -> the ways of joining it.
HOW = {
    "streams": ("inner", "left", "right", "full"),
    "stream and table": ("inner", "left"),
    "stream and global table": ("inner", "left"),
    "tables": ("inner", "left", "right", "full"),
    "foreign key": ("inner", "left"),
}


def join(left: Stream, other: Any, *, within: str | None, on: Mapping[str, str] | None, how: str) -> Stream:
    """Join a stream with whatever it is."""
    if isinstance(other, GlobalTable):
        return _join_global(left, other, on, how)
    if isinstance(other, Table):
        return _join_table(left, other, how)
    if within is None:
        raise StreamsError("join of two streams needs a time: within='10 minutes'")
    return _join_streams(left, other, within, how)


def _join_streams(left: Stream, right: Stream, within: str, how: str) -> Stream:
    """Pairs whose times are no further apart; ``_timestamp`` is the left one's, or that of the right one alone."""
    _check("streams", how, left.keys, right.keys, left.values(), right.values())
    for side in (left, right):
        side.needs_watermark("join of streams")
    theirs = {name: f"_right_{name}" for name in (*right.keys, TIME)}
    df = right.df.withColumnsRenamed(theirs)
    span = F.expr(f"INTERVAL {within}")
    condition = F.col(theirs[TIME]).between(F.col(TIME) - span, F.col(TIME) + span)
    for mine, other in zip(left.keys, right.keys, strict=True):
        condition &= F.col(mine) == F.col(theirs[other])
    joined = left.df.join(df, condition, how)
    if how in ("right", "full"):
        for mine, other in zip(left.keys, right.keys, strict=True):
            joined = joined.withColumn(mine, F.coalesce(F.col(mine), F.col(theirs[other])))
        joined = joined.withColumn(TIME, F.coalesce(F.col(TIME), F.col(theirs[TIME])))
    joined = joined.drop(*theirs.values())
    # A time that may be either side's is no longer one that Spark measures lateness by.
    lateness = None if how in ("right", "full") else left.lateness
    return replace(left, df=joined, lateness=lateness, dead=each_once(left.dead, right.dead), final=None)


def _join_global(left: Stream, right: GlobalTable, on: Mapping[str, str] | None, how: str) -> Stream:
    columns = dict(on) if on else dict(zip(left.keys, right.keys, strict=False))
    if set(columns.values()) != set(right.keys):
        raise StreamsError(f"join of a global table: on={{column: key}} must name its key, {', '.join(right.keys)}")
    values = [name for name in right.df.columns if name not in (*right.keys, TIME)]
    _check("stream and global table", how, (), (), left.df.columns, values)
    theirs = {key: f"_right_{key}" for key in right.keys}
    small = F.broadcast(right.df.drop(TIME).withColumnsRenamed(theirs))
    condition = F.lit(True)
    for mine, key in columns.items():
        condition &= F.col(mine) == F.col(theirs[key])
    return replace(left, df=left.df.join(small, condition, how).drop(*theirs.values()), final=None)


def _join_table(left: Stream, right: Table, how: str) -> Stream:
    """Each row of the stream with what the table has at that time, or newer where the table ran ahead of the stream."""
    _check("stream and table", how, left.keys, right.keys, left.values(), right.values())
    names = [*left.values(), TIME]
    table = StructType(fields_of(right.df, right.values()))
    output = StructType([*fields_of(left.df, left.keys), *fields_of(left.df, left.values()), CHANGE[0], *table.fields])
    stream = with_time(left.df).withColumn(ORDER, F.col(AT)).withColumn(DELETED, F.lit(False))
    # The table's rows have no place in the stream's event time: they are never too late, and hold back no window.
    changes = _renamed(with_time(right.df), right.keys, left.keys).withColumn(TIME, F.lit(None).cast("timestamp"))
    both = _sides(stream, changes)
    processor = Lookup(left.keys, names, table, output.names, how)
    timed = left.lateness is not None
    df = run(both, left.keys, processor, output, "eventTime" if timed else "none", TIME if timed else "")
    return replace(left, df=df, dead=each_once(left.dead, right.dead), final=None)


def join_tables(left: Table, right: Table, how: str) -> Table:
    """The table of pairs with one key."""
    _check("tables", how, left.keys, right.keys, left.values(), right.values())
    mine, theirs = fields_of(left.df, left.values()), fields_of(right.df, right.values())
    output = StructType([*fields_of(left.df, left.keys), *mine, *theirs, *CHANGE])
    both = _sides(with_time(left.df), _renamed(with_time(right.df), right.keys, left.keys))
    schemas = StructType([*mine, CHANGE[0]]), StructType([*theirs, CHANGE[0]])
    processor = TableJoin(left.keys, schemas[0], schemas[1], output.names, how)
    return Table(run(both, left.keys, processor, output), left.keys, each_once(left.dead, right.dead))


def join_by_foreign_key(left: Table, right: Table, on: str, how: str) -> Table:
    """The left table's rows, each with the right row that its column ``on`` points to."""
    if len(right.keys) != 1:
        raise StreamsError(f"join(on={on!r}) wants a table with one key column, not {', '.join(right.keys)}")
    if on not in left.values():
        raise StreamsError(f"join(on={on!r}): the table has {', '.join(left.values())}")
    _check("foreign key", how, left.keys, left.keys, [*left.keys, *left.values()], right.values())
    keys = StructType(fields_of(left.df, left.keys))
    values = StructType(fields_of(left.df, left.values()))
    more = [StructField(VERSION, LongType()), StructField(LEAVES, BooleanType())]
    addressed = StructType([StructField(FOREIGN, values[on].dataType), *keys.fields, *values.fields, *CHANGE, *more])
    changes = run(left.df, left.keys, Subscribe(left.keys, on, values, addressed.names, how), addressed)
    right_values = StructType(fields_of(right.df, right.values()))
    matched = StructType([*keys.fields, *values.fields, *right_values.fields, *CHANGE[:2], more[0]])
    both = _sides(with_time(changes), _renamed(with_time(right.df), right.keys, (FOREIGN,)))
    left_row = StructType([*values.fields, CHANGE[0]])
    results = run(both, [FOREIGN], Match(keys, left_row, right_values, matched.names, how), matched)
    output = StructType([*matched.fields[:-1], CHANGE[2]])
    df = run(results, left.keys, Resolve(left.keys, output.names), output)
    return Table(df, left.keys, each_once(left.dead, right.dead))


def _sides(left: DataFrame, right: DataFrame) -> DataFrame:
    """Both in one DataFrame, told apart by a column; the left first, whose watermark the result has."""
    sides = (left.withColumn(SIDE, F.lit(LEFT)), right.withColumn(SIDE, F.lit(RIGHT)))
    return sides[0].unionByName(sides[1], allowMissingColumns=True)


def _renamed(df: DataFrame, names: tuple[str, ...], new: tuple[str, ...]) -> DataFrame:
    return df.withColumnsRenamed(dict(zip(names, new, strict=True)))


def _check(
    what: str, how: str, keys: tuple[str, ...], other_keys: tuple[str, ...], values: list[str], other_values: list[str]
) -> None:
    if how not in HOW[what]:
        raise StreamsError(f"how={how!r}: {what} are joined by {', '.join(HOW[what])}")
    if what in ("streams", "stream and table", "tables") and (not keys or len(keys) != len(other_keys)):
        raise StreamsError(f"join: the keys ({', '.join(keys)}) and ({', '.join(other_keys)}) do not go together")
    shared = sorted({*keys, *values} & set(other_values))
    if shared:
        raise StreamsError(f"join: both sides have {', '.join(shared)}; rename one with .transform or .select")
