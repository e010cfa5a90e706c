"""Formats whose bytes are read by Python, a batch of Arrow at a time: Spark's own readers are not in its package."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from millstream.pipelines.streams.formats.base import Decoded, Format, missing_fields

Reader = Callable[[bytes], dict[str, Any]]
Writer = Callable[[dict[str, Any]], bytes]


class PythonFormat(Format):
    """Bytes into dicts and back by a reader and a writer, which are made on the worker."""

    @abstractmethod
    def reader(self) -> Reader:
        """What reads one record, and raises where it does not fit."""

    @abstractmethod
    def writer(self) -> Writer:
        """What writes one record."""

    def parse(self, data: Column) -> Column:
        both = StructType([StructField("value", self.schema), StructField("error", StringType())])
        arrow_type = to_arrow_type(both, timezone="UTC")

        def read(column: pa.Array) -> pa.Array:
            reader = self.reader()
            return pa.array([_outcome(reader, data) for data in column.to_pylist()], arrow_type)

        outcome: Column = arrow_udf(read, both)(data)  # type: ignore[call-overload]
        return outcome

    def decode(self, data: Column, parsed: Column) -> Decoded:
        error = F.coalesce(
            parsed["error"], F.when(parsed["value"].isNotNull(), missing_fields(parsed["value"], self.schema))
        )
        return Decoded(F.when(error.isNull(), parsed["value"]), error)

    def encode(self, value: Column) -> Column:
        def write(column: pa.Array) -> pa.Array:
            writer = self.writer()
            return pa.array(
                [None if row is None else writer(row) for row in column.to_pylist(maps_as_pydicts="strict")],
                pa.binary(),
            )

        encoded: Column = arrow_udf(write, "binary")(value)  # type: ignore[call-overload]
        return encoded


def _outcome(reader: Reader, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {"value": None, "error": None}
    try:
        return {"value": reader(data), "error": None}
    except Exception as wrong:
        return {"value": None, "error": f"{type(wrong).__name__}: {wrong}"[:500]}
