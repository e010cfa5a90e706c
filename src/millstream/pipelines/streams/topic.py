"""A topic with its types: what its keys and values hold, and what becomes of a record that does not fit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from millstream.pipelines.streams.cluster import Cluster, cluster_of
from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats import Format, make_format
from millstream.pipelines.streams.stream import DELETED, ERROR, OFFSET, ORDER, TIME, Stream
from millstream.pipelines.streams.table import GlobalTable, Table, latest

FAIL, COLUMN = "fail", "column"
#: Columns of ours, which no schema may name.
_RESERVED = (TIME, DELETED, OFFSET, ERROR, ORDER, "_raw")


@dataclass(frozen=True)
class Topic:
    """``Topic("orders", "id long, total double", key="customer string")``: a typed stream, table or global table.

    ``schema`` and ``key`` are columns (DDL or StructType) for JSON, CSV and raw; an Avro schema as JSON for Avro; for
    Protobuf a generated class or ``<descriptor set>#<message>``. ``time`` names the column with the event's time, in
    place of the record's timestamp; ``lateness`` is how far behind the newest a record may come and still count.

    A record that does not fit: ``errors="fail"`` ends the query with its topic, partition, offset and reason;
    ``errors="column"`` keeps the row, with ``_error`` and ``_raw``; any other text is the topic that receives it.
    """

    name: str
    schema: Any = "value binary"
    key: Any = None
    format: str = "json"
    key_format: str = "raw"
    time: str | None = None
    lateness: str | None = None
    errors: str = FAIL
    start: str = "earliest"
    cluster: Cluster | str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    key_options: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def value_type(self) -> Format:
        """The format of the values."""
        return make_format(self.format, self.schema, self.options)

    @cached_property
    def key_type(self) -> Format | None:
        """The format of the keys; none where keys are not looked at."""
        return make_format(self.key_format, self.key, self.key_options) if self.key is not None else None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key."""
        return tuple(self.key_type.schema.names) if self.key_type else ()

    @property
    def columns(self) -> list[str]:
        """The columns of the key and the value; a name in both is one column, and must be of one value."""
        return [*self.keys, *(name for name in self.value_type.schema.names if name not in self.keys)]

    def stream(self) -> Stream:
        """The records as events. Those without a value are deletions, which mean something to tables alone."""
        raw = cluster_of(self.cluster).read_stream(self.name, {"startingOffsets": self.start})
        df, dead = self._typed(raw, self.errors)
        df = df.where(~F.col(DELETED)).drop(DELETED, OFFSET)
        stream = Stream(df, keys=self.keys, dead=dead)
        return stream.watermark(self.lateness) if self.lateness else stream

    def table(self, newest: str = "offset") -> Table:
        """The latest value of each key; with ``newest="timestamp"`` by event time: late old ones change nothing."""
        self._needs_key("table")
        raw = cluster_of(self.cluster).read_stream(self.name, {"startingOffsets": "earliest"})
        df, dead = self._typed(raw, self.errors)
        return latest(df, self.keys, newest=newest, dead=dead)

    def global_table(self) -> GlobalTable:
        """The whole table, read anew for each micro-batch and sent to every task: for small topics."""
        self._needs_key("global_table")
        return GlobalTable(self._latest({"readsAnew": "true"}), self.keys)

    def read(self) -> DataFrame:
        """All records that have a value from the start to the end, as a batch."""
        df = self.typed(cluster_of(self.cluster).read(self.name, {}))
        return df.where(~F.col(DELETED)).drop(DELETED, OFFSET)

    def snapshot(self) -> DataFrame:
        """The latest value of each key now, as a batch; deleted keys are absent."""
        self._needs_key("snapshot")
        return self._latest({})

    def _latest(self, options: Mapping[str, str]) -> DataFrame:
        df = self.typed(cluster_of(self.cluster).read(self.name, options))
        rest = [name for name in df.columns if name not in self.keys]
        newest = F.max_by(F.struct(*rest), F.col(OFFSET)).alias("newest")
        df = df.groupBy(*self.keys).agg(newest).select(*self.keys, "newest.*")
        return df.where(~F.col(DELETED)).drop(DELETED, OFFSET)

    def typed(self, raw: DataFrame) -> DataFrame:
        """A batch of records as typed rows. Nobody is there to write dead letters, so what does not fit fails it."""
        df, _ = self._typed(raw, errors=COLUMN if self.errors == COLUMN else FAIL)
        return df

    def encode(self, df: DataFrame) -> DataFrame:
        """Rows as records (topic, key, value); a deleted row has no value. A column that is wanting is an error."""
        missing = [name for name in self.columns if name not in df.columns]
        if missing:
            raise StreamsError(f"to({self.name!r}): no column {', '.join(missing)} among {', '.join(df.columns)}")
        value = self.value_type.encode(_struct_of(self.value_type))
        if DELETED in df.columns:
            value = F.when(~F.coalesce(F.col(DELETED), F.lit(False)), value)
        key = self.key_type.encode(_struct_of(self.key_type)) if self.key_type else F.lit(None).cast("binary")
        return df.select(F.lit(self.name).alias("topic"), key.alias("key"), value.alias("value"))

    def _needs_key(self, operator: str) -> None:
        if self.key is None:
            raise StreamsError(f"{operator}() of topic {self.name!r} needs to know its key: Topic(…, key='id long')")

    def _typed(self, raw: DataFrame, errors: str) -> tuple[DataFrame, tuple[DataFrame, ...]]:
        """Columns of key and value, then ours; and the dead letters, where a topic is to have them."""
        reserved = [name for name in self.columns if name in _RESERVED]
        if reserved:
            raise StreamsError(f"schema of topic {self.name!r}: {', '.join(reserved)} is a name of Millstream's own")
        raw = raw.withColumn("_value", self.value_type.parse(F.col("value")))
        value = self.value_type.decode(F.col("value"), F.col("_value"))
        error, fields = value.error, {name: value.value[name] for name in self.value_type.schema.names}
        if self.key_type:
            raw = raw.withColumn("_key", self.key_type.parse(F.col("key")))
            key = self.key_type.decode(F.col("key"), F.col("_key"))
            nameless = F.when(F.col("key").isNull(), F.lit("no key"))
            error = F.coalesce(F.concat(F.lit("key: "), F.coalesce(nameless, key.error)), error)
            fields |= {name: key.value[name] for name in self.keys}
        parsed = raw.select(
            *[fields[name].alias(name) for name in self.columns],
            self._time(fields).alias(TIME),
            F.col("value").isNull().alias(DELETED),
            F.col("offset").alias(OFFSET),
            error.alias(ERROR),
            F.struct("topic", "partition", "offset", "timestamp", "key", "value").alias("_raw"),
        )
        return self._without_errors(parsed, errors)

    def _time(self, fields: Mapping[str, Column]) -> Column:
        if self.time is None:
            return F.col("timestamp")
        if self.time not in fields:
            raise StreamsError(f"time={self.time!r}: topic {self.name!r} has {', '.join(self.columns)}")
        return fields[self.time].cast("timestamp")

    def _without_errors(self, df: DataFrame, errors: str) -> tuple[DataFrame, tuple[DataFrame, ...]]:
        if self.time:
            # Without its time a record has no place in any window: that too is a record that does not fit.
            timeless = F.when(~F.col(DELETED) & F.col(TIME).isNull(), F.lit(f"{self.time} has no time"))
            df = df.withColumn(ERROR, F.coalesce(F.col(ERROR), timeless))
            df = df.withColumn(TIME, F.coalesce(F.col(TIME), F.col("_raw.timestamp")))
        if errors == COLUMN:
            return df.withColumn("_raw", F.col("_raw.value")), ()
        if errors == FAIL:
            where = F.format_string(
                "a record of topic %s, partition %d, offset %d does not fit: %s; "
                "errors: a topic's name sends such records there, column shows them",
                *[F.col(f"_raw.{part}") for part in ("topic", "partition", "offset")],
                F.col(ERROR),
            )
            fits = F.when(F.col(ERROR).isNull(), F.lit(True)).otherwise(F.raise_error(where).cast("boolean"))
            return df.where(fits).drop(ERROR, "_raw"), ()
        dead = df.where(F.col(ERROR).isNotNull()).select(
            F.lit(errors).alias("topic"),
            F.col("_raw.key").alias("key"),
            F.col("_raw.value").alias("value"),
            F.array(*[_header(name, of) for name, of in _DEAD_HEADERS.items()]).alias("headers"),
        )
        return df.where(F.col(ERROR).isNull()).drop(ERROR, "_raw"), (dead,)


#: Headers of Connect's dead letters, of those the ones that a pipeline knows -> where they come from.
_DEAD_HEADERS = {
    "__connect.errors.topic": "_raw.topic",
    "__connect.errors.partition": "_raw.partition",
    "__connect.errors.offset": "_raw.offset",
    "__connect.errors.exception.message": ERROR,
}


def _header(name: str, column: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(column).cast("string").cast("binary").alias("value"))


def _struct_of(kind: Format) -> Column:
    return F.struct(*[F.col(field.name).cast(field.dataType).alias(field.name) for field in kind.schema.fields])
