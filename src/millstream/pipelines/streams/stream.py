"""A stream: a DataFrame that knows its key and its event time, and gives itself back as ``.df``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from millstream.pipelines.streams.errors import StreamsError

if TYPE_CHECKING:
    from millstream.pipelines.streams.grouping import Grouped
    from millstream.pipelines.streams.process import Processor
    from millstream.pipelines.streams.table import GlobalTable, Table
    from millstream.pipelines.streams.topic import Topic

#: Our own columns: the event's time; whether a table's row is gone; a record's place; why it does not fit; and which of
#: a key's changes in one micro-batch a row is, for a shuffle keeps no order.
TIME, DELETED, OFFSET, ERROR, ORDER = "_timestamp", "_deleted", "_offset", "_error", "_order"

APPEND, UPDATE = "append", "update"


@dataclass(frozen=True)
class Stream:
    """Rows with key columns, value columns and ``_timestamp``.

    ``mode`` is how a query writes it: ``append``, each row is said once; ``update``, a row replaces the one before it
    with the same key. ``dead`` are records that did not fit, which ``to`` writes along.
    """

    df: DataFrame
    keys: tuple[str, ...] = ()
    lateness: str | None = None
    mode: str = APPEND
    dead: tuple[DataFrame, ...] = ()
    final: "Callable[[], Stream] | None" = None

    def transform(self, change: Callable[[DataFrame], DataFrame]) -> "Stream":
        """Whatever a DataFrame can say. Keys that the result no longer has are no longer keys."""
        df = change(self.df)
        kept = self.keys if all(key in df.columns for key in self.keys) else ()
        return replace(self, df=df, keys=kept, final=None)

    def where(self, condition: Column | str) -> "Stream":
        """The rows for which it holds."""
        return replace(self, df=self.df.where(condition), final=None)

    def select(self, *columns: Column | str) -> "Stream":
        """These columns, beside the key and ``_timestamp``, which stay."""
        named = {name for name in columns if isinstance(name, str)}
        own = [name for name in (*self.keys, TIME) if name in self.df.columns and name not in named]
        return replace(self, df=self.df.select(*own, *columns), final=None)

    def with_columns(self, **columns: Column) -> "Stream":
        """Columns added, or put in the place of those with their names."""
        return replace(self, df=self.df.withColumns(columns), final=None)

    def rekey(self, *columns: str) -> "Stream":
        """The same rows under another key."""
        self._has("rekey", *columns)
        return replace(self, keys=columns, final=None)

    def watermark(self, lateness: str) -> "Stream":
        """Rows may come out of order by this much event time; windows close, and joins forget, behind it."""
        return replace(self, df=self.df.withWatermark(TIME, lateness), lateness=lateness)

    def branch(self, **conditions: Column | str) -> "dict[str, Stream]":
        """A stream for each condition, with the rows whose first match it is, and ``rest`` with those of none."""
        branches: dict[str, Stream] = {}
        before: Column = F.lit(False)
        for name, condition in conditions.items():
            matches = F.coalesce(F.expr(condition) if isinstance(condition, str) else condition, F.lit(False))
            branches[name] = self.where(~before & matches)
            before = before | matches
        branches["rest"] = self.where(~before)
        return branches

    def merge(self, *others: "Stream") -> "Stream":
        """The rows of all, which must have the same columns."""
        df = self.df
        for other in others:
            if set(other.df.columns) != set(df.columns):
                raise StreamsError(f"merge: columns {', '.join(other.df.columns)} are not {', '.join(df.columns)}")
            df = df.unionByName(other.df)
        dead = each_once(self.dead, *(other.dead for other in others))
        return replace(self, df=df, dead=dead, final=None)

    @overload
    def join(self, other: "Stream", *, within: str, how: str = ...) -> "Stream": ...
    @overload
    def join(self, other: "Table", *, how: str = ...) -> "Stream": ...
    @overload
    def join(self, other: "GlobalTable", *, on: Mapping[str, str] | None = ..., how: str = ...) -> "Stream": ...
    def join(
        self, other: Any, *, within: str | None = None, on: Mapping[str, str] | None = None, how: str = "inner"
    ) -> Any:
        """Join by key with a stream (``within`` a time of each other), a table or a global table."""
        from millstream.pipelines.streams import joins

        return joins.join(self, other, within=within, on=on, how=how)

    def group_by(self, *columns: str) -> "Grouped":
        """Rows in groups, for ``count``, ``agg``, ``reduce`` and ``aggregate``; by the key where no column is named."""
        from millstream.pipelines.streams.grouping import Grouped

        self._has("group_by", *columns)
        if not columns and not self.keys:
            raise StreamsError("group_by() needs columns, for the stream has no key")
        return Grouped(self, columns or self.keys)

    def table(self) -> "Table":
        """The latest row of each key, by event time."""
        from millstream.pipelines.streams.table import latest

        self._keyed("table")
        return latest(self.df, self.keys, newest="timestamp", dead=self.dead)

    def process(self, processor: "Processor") -> "Stream":
        """Rows through a processor with state and timers for each key."""
        from millstream.pipelines.streams.process import process

        self._keyed("process")
        return process(self, processor)

    def suppress(self) -> "Stream":
        """Only a window's final result, once it is closed, in place of each change."""
        if self.final is None:
            raise StreamsError("suppress() stands right behind the aggregate of a window")
        return self.final()

    def records(self, topic: "Topic") -> DataFrame:
        """What ``to`` writes: rows of topic, key and value, with the dead letters among them."""
        df = topic.encode(self.df)
        if not self.dead:
            return df
        nothing = F.lit(None).cast("array<struct<key:string,value:binary>>")
        df = df.withColumn("headers", nothing)
        for letters in self.dead:
            df = df.unionByName(letters)
        return df

    def to(self, topic: "Topic", name: str | None = None, **trigger: Any) -> StreamingQuery:
        """Start writing to a topic, each result exactly once; ``trigger`` as Spark's (``availableNow=True``).

        The name owns the progress: the same name goes on where it was, a new one starts from the topics' beginning.
        """
        from millstream.pipelines.streams.cluster import cluster_of

        cluster = cluster_of(topic.cluster)
        return cluster.write(self.records(topic), name or f"to-{topic.name}", self.mode, trigger)

    def needs_watermark(self, operator: str) -> None:
        """A StreamsError where nothing says when a row is too late."""
        if self.lateness is None:
            raise StreamsError(f"{operator} needs to know how late rows may be: .watermark('10 seconds') before it")

    def values(self) -> list[str]:
        """The columns that are neither key nor ours."""
        return [name for name in self.df.columns if name not in (*self.keys, TIME, DELETED, OFFSET, ORDER)]

    def _keyed(self, operator: str) -> None:
        if not self.keys:
            raise StreamsError(f"{operator} needs a key: .rekey('column') before it")

    def _has(self, operator: str, *columns: str) -> None:
        for name in columns:
            if name not in self.df.columns:
                raise StreamsError(f"{operator}: no column {name!r} among {', '.join(self.df.columns)}")


def each_once(*letters: tuple[DataFrame, ...]) -> tuple[DataFrame, ...]:
    """Streams that meet again bring the same dead letters, which are written once."""
    return tuple({id(one): one for some in letters for one in some}.values())
