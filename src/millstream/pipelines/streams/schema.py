"""Columns as people write them."""

from typing import Any

from pyspark.sql.types import StructType

from millstream.pipelines.streams.errors import StreamsError


def columns(schema: Any) -> StructType:
    """A StructType of itself, or of DDL such as ``id long, total double``."""
    found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType):
        raise StreamsError(f"schema={schema!r}: give columns as 'id long, total double' or as a StructType")
    return found
