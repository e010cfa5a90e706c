"""Tables: the latest row of each key, as the changes that lead to it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.keyed import AT, CHANGE, Latest, fields_of, run, with_time
from millstream.pipelines.streams.stream import DELETED, OFFSET, ORDER, TIME, Stream

if TYPE_CHECKING:
    from millstream.pipelines.streams.topic import Topic

NEWEST = ("offset", "timestamp")


@dataclass(frozen=True)
class GlobalTable:
    """A whole table in a batch DataFrame, which is read anew whenever it is joined with."""

    df: DataFrame
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A changelog: ``.df`` has a row for each change, with ``_timestamp``, and ``_deleted`` where the key is gone.

    ``_order`` counts a key's changes within one micro-batch.
    """

    df: DataFrame
    keys: tuple[str, ...]
    dead: tuple[DataFrame, ...] = ()

    def where(self, condition: Column | str) -> "Table":
        """The rows for which it holds; one that no longer does is deleted."""
        holds = F.coalesce(F.expr(condition) if isinstance(condition, str) else condition, F.lit(False))
        return replace(self, df=self.df.withColumn(DELETED, F.col(DELETED) | ~holds))

    def select(self, *columns: Column | str) -> "Table":
        """These columns, beside the key, ``_timestamp`` and ``_deleted``, which stay."""
        return replace(self, df=self.df.select(*self.keys, TIME, DELETED, ORDER, *columns))

    def with_columns(self, **columns: Column) -> "Table":
        """Columns added, or put in the place of those with their names."""
        return replace(self, df=self.df.withColumns(columns))

    def transform(self, change: Callable[[DataFrame], DataFrame]) -> "Table":
        """What a DataFrame can say row by row; key, ``_timestamp`` and ``_deleted`` must stay."""
        df = change(self.df)
        gone = [name for name in (*self.keys, TIME, DELETED, ORDER) if name not in df.columns]
        if gone:
            raise StreamsError(f"transform: a table cannot be without {', '.join(gone)}")
        return replace(self, df=df)

    def join(self, other: "Table", *, on: str | None = None, how: str = "inner") -> "Table":
        """Join with a table of the same key; or, ``on`` a column of this one, with the table whose key it holds."""
        from millstream.pipelines.streams import joins

        return joins.join_by_foreign_key(self, other, on, how) if on else joins.join_tables(self, other, how)

    def changes(self) -> Stream:
        """The changes as a stream, with ``_deleted`` as any other column."""
        return Stream(self.df.drop(ORDER), keys=self.keys, dead=self.dead)

    def to(self, topic: "Topic", name: str | None = None, **trigger: Any) -> StreamingQuery:
        """Write the changes to a topic, best a compacted one: a deleted row is a record without a value."""
        return self.changes().to(topic, name, **trigger)

    def values(self) -> list[str]:
        """The columns that are neither key nor ours."""
        return self.changes().values()


def latest(df: DataFrame, keys: tuple[str, ...], newest: str, dead: tuple[DataFrame, ...] = ()) -> Table:
    """The table of the rows, the newest by their place in the topic or by their event time."""
    if newest not in NEWEST:
        raise StreamsError(f"table(newest={newest!r}): one of {', '.join(NEWEST)}")
    if DELETED not in df.columns:
        df = df.withColumn(DELETED, F.lit(False))
    values = [name for name in df.columns if name not in (*keys, TIME, DELETED, OFFSET, ORDER)]
    kept = StructType(fields_of(df, [*values, TIME, DELETED]))
    output = StructType([*fields_of(df, [*keys, *values]), *CHANGE])
    by_time = newest == "timestamp"
    order = [name for name, wanted in ((AT, by_time), (OFFSET, OFFSET in df.columns)) if wanted]
    return Table(run(with_time(df), keys, Latest(keys, kept, output.names, by_time, order), output), keys, dead)
