"""A call as a table of Spark's: the record's columns, and those that its format and schema give."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, VariantType

from millstream.pipelines.history.calls import Call
from millstream.pipelines.history.complaints import complaint
from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats import FORMATS, Decoded, Format, make_format

FAIL, COLUMN = "fail", "column"
_TEXT = "text"


class AnyJson(Format):
    """JSON of whatever shape: one VARIANT column, whose fields are named in the query, as in ``value:customer.id``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.schema = StructType([StructField(name, VariantType())])

    def parse(self, data: Column) -> Column:
        return F.try_parse_json(data.cast("string"))

    def decode(self, data: Column, parsed: Column) -> Decoded:
        error = F.when(data.isNotNull() & parsed.isNull(), F.lit("not JSON"))
        return Decoded(F.struct(parsed.alias(self._name)), error)

    def encode(self, value: Column) -> Column:
        raise NotImplementedError("tables of history are read only")


def check(call: Call) -> None:
    """QueryError for a format, a schema or a way with errors that there is not; needs no Spark session."""
    if call.text("errors", FAIL) not in (FAIL, COLUMN):
        raise call.wrong("errors", f"must be {FAIL} or {COLUMN}")
    for name in ("format", "key_format"):
        if call.get(name) is not None and call.text(name).lower() not in (*FORMATS, _TEXT):
            raise call.wrong(name, f"must be one of {', '.join((*FORMATS, _TEXT))}")
    for kind, schema in (("format", "schema"), ("key_format", "key")):
        if call.get(schema) is None and call.get(kind) is not None and call.text(kind).lower() not in ("json", _TEXT):
            raise call.wrong(kind, f"needs {schema} => '…' to say what it holds")


def table(spark: SparkSession, call: Call, options: Mapping[str, str]) -> DataFrame:
    """The call's table. Columns of key and value come first; a record's own of the same name has a ``_`` before it."""
    raw = spark.read.format("millstream").options(**options).load()
    return _Typed(call).columns_of(raw)


class _Typed:
    """Bytes into columns, by the arguments of one call."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @cached_property
    def _formats(self) -> dict[str, Format]:
        """The formats of ``key`` and ``value``, as far as they are given."""
        found = {
            "key": self._format("key", "key_format", "key", "raw"),
            "value": self._format("value", "format", "schema", "json"),
        }
        return {column: kind for column, kind in found.items() if kind is not None}

    def _format(self, column: str, kind: str, schema: str, default: str) -> Format | None:
        call = self._call
        given, columns = call.text(kind).lower(), call.text(schema)
        if given == _TEXT:
            return make_format("raw", columns or f"{column} string", {})
        if given == "json" and not columns:
            return AnyJson(column)
        if not columns:
            return None
        try:
            return make_format(given or default, columns, {})
        except (StreamsError, PySparkException, ValueError, OSError) as error:
            raise call.wrong(schema, f"is no schema of {given or default}: {complaint(str(error))}") from None

    def columns_of(self, raw: DataFrame) -> DataFrame:
        formats = self._formats
        if not formats:
            return raw
        decoded = {}
        for column, kind in formats.items():
            raw = raw.withColumn(f"_parsed_{column}", kind.parse(F.col(column)))
            decoded[column] = kind.decode(F.col(column), F.col(f"_parsed_{column}"))
        given = {
            name: decoded[column].value[name].alias(name)
            for column, kind in formats.items()
            for name in kind.schema.names
        }
        taken = {name.lower() for name in given}
        own: list[Any] = [
            F.col(name).alias(f"_{name}" if name.lower() in taken else name)
            for name in raw.columns
            if not name.startswith("_parsed_")
        ]
        error = F.coalesce(*[decoded[column].error for column in formats], F.lit(None).cast("string"))
        wide = raw.select(*given.values(), *own, error.alias("_error"), F.struct(*_PLACE).alias("_place"))
        if self._call.text("errors", FAIL) == COLUMN:
            return wide.drop("_place")
        where = F.format_string(
            "a record of topic %s, partition %d, offset %d does not fit: %s; errors => 'column' shows such records",
            *[F.col(f"_place.{name}") for name in _PLACE],
            F.col("_error"),
        )
        fits = F.when(F.col("_error").isNull(), F.lit(True)).otherwise(F.raise_error(where).cast("boolean"))
        return wide.where(fits).drop("_error", "_place")


_PLACE = ("topic", "partition", "offset")
