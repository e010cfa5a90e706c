"""Aggregates of a stream's rows by group, over all time or by window."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.folding import Fold, Slide, slide_output
from millstream.pipelines.streams.keyed import fields_of, run, with_time
from millstream.pipelines.streams.schema import columns
from millstream.pipelines.streams.stream import APPEND, TIME, UPDATE, Stream
from millstream.pipelines.streams.windows import Window

WINDOW = "window"

Folder = Callable[[dict[str, Any], Row], Mapping[str, Any]]


@dataclass(frozen=True)
class Grouped:
    """Rows of a stream in groups; an aggregate is a stream keyed by the group, and by the window if there is one."""

    stream: Stream
    columns: tuple[str, ...]
    over: Window | None = None

    def window(self, over: Window) -> "Grouped":
        """The groups within each window."""
        return replace(self, over=over)

    def count(self, name: str = "count") -> Stream:
        """How many rows."""
        return self.agg(**{name: F.count(F.lit(1))})

    def agg(self, **aggregates: Column) -> Stream:
        """Spark's own aggregates by name: ``agg(total=F.sum("total"))``.

        Each change is a row; behind ``suppress()`` only a window's final result is. Session and sliding windows have
        only that.
        """
        named = [column.alias(name) for name, column in aggregates.items()]
        if self.over is None:
            df = self.stream.df.groupBy(*self.columns).agg(*named, F.max(TIME).alias(TIME))
            return self._result(df, UPDATE, keys=self.columns, lateness=None)
        self.stream.needs_watermark(f"a {self.over.kind} window")
        if self.over.kind == "sliding":
            return self._result(self._sliding(named), APPEND)
        df = self.stream.df.groupBy(self.over.column(), *self.columns).agg(*named)
        if self.over.kind == "session":
            return self._result(df.withColumn(TIME, F.col(f"{WINDOW}.end")), APPEND, lateness=None)
        df = df.withColumn(TIME, F.window_time(WINDOW))
        return self._result(df, UPDATE, final=lambda: self._result(df, APPEND))

    def aggregate(self, initial: Mapping[str, Any], fold: Folder, schema: str) -> Stream:
        """``fold(so_far, row)`` over the rows in order of time, from ``initial`` on, in columns of ``schema``."""
        return self._folded(Fold(self.columns, dict(initial), fold), schema)

    def reduce(self, merge: Callable[[dict[str, Any], dict[str, Any]], Mapping[str, Any]]) -> Stream:
        """Two rows' values into one, again and again; the result has the columns of the rows."""
        values = [name for name in self.stream.df.columns if name not in (*self.columns, TIME)]

        def fold(so_far: dict[str, Any], row: Row) -> Mapping[str, Any]:
            fields = {name: row[name] for name in values}
            return merge(so_far, fields) if so_far else fields

        return self._folded(Fold(self.columns, {}, fold), StructType(fields_of(self.stream.df, values)))

    def _folded(self, fold: Fold, schema: str | StructType) -> Stream:
        stream = self.stream
        kept = columns(schema)
        fold = fold.keeping(kept)
        time = stream.df.schema[TIME]
        if self.over is None:
            output = StructType([*fields_of(stream.df, self.columns), *kept.fields, time])
            df = run(with_time(stream.df), self.columns, fold.giving(output.names), output)
            return self._result(df, APPEND, keys=self.columns, lateness=None)
        if self.over.kind in ("session", "sliding"):
            raise StreamsError(f"a {self.over.kind} window takes agg(): its rows are not folded one by one")
        stream.needs_watermark(f"a {self.over.kind} window")
        # The window's end decides what is too late, so the row's own time must not.
        rows = with_time(stream.df).withColumn(WINDOW, self.over.column())
        rows = rows.withColumn(TIME, F.timestamp_micros("_at"))
        output = StructType([*fields_of(rows, [WINDOW, *self.columns]), *kept.fields, time])
        made = fold.giving(output.names)

        def fed(which: Fold) -> DataFrame:
            return run(rows, [WINDOW, *self.columns], which, output, "eventTime", TIME)

        return self._result(fed(made), APPEND, final=lambda: self._result(fed(made.only_final()), APPEND))

    def _sliding(self, named: list[Column]) -> DataFrame:
        assert self.over is not None
        stream = self.stream
        output = slide_output(stream.df, self.columns)
        size = F.expr(f"INTERVAL {self.over.size}")
        rows = with_time(stream.df).withColumn("_from", F.unix_micros(F.col(TIME) - size))
        kept = StructType(fields_of(rows, [name for name in output.names if name not in (*self.columns, TIME)]))
        slide = Slide(self.columns, output.names, StructType([*kept.fields, StructField("_from", LongType())]))
        slid = run(rows, self.columns, slide, output, "eventTime", TIME)
        df = slid.groupBy(TIME, *self.columns).agg(*named)
        return df.withColumn(WINDOW, F.struct((F.col(TIME) - size).alias("start"), F.col(TIME).alias("end")))

    def _result(self, df: DataFrame, mode: str, **changes: Any) -> Stream:
        given = {"keys": (*self.columns, WINDOW), "final": None, **changes}
        return replace(self.stream, df=df, mode=mode, **given)
