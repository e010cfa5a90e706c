"""The formats of keys and values, as a table."""

from collections.abc import Callable, Mapping
from typing import Any

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats.avro import Avro
from millstream.pipelines.streams.formats.base import Decoded, Format
from millstream.pipelines.streams.formats.protobuf import Protobuf
from millstream.pipelines.streams.formats.raw import Raw
from millstream.pipelines.streams.formats.text import Csv, Json
from millstream.pipelines.streams.schema import columns

__all__ = ["FORMATS", "Decoded", "Format", "make_format"]


#: name -> what makes it of a schema and options.
FORMATS: Mapping[str, Callable[[Any, Mapping[str, str]], Format]] = {
    "avro": Avro,
    "csv": lambda schema, options: Csv(columns(schema), options),
    "json": lambda schema, options: Json(columns(schema), options),
    "protobuf": Protobuf,
    "raw": lambda schema, options: Raw(columns(schema), options),
}


def make_format(name: str, schema: Any, options: Mapping[str, str]) -> Format:
    """The format of that name for that schema; a StreamsError names what cannot be."""
    if name not in FORMATS:
        raise StreamsError(f"format={name!r}: one of {', '.join(FORMATS)}")
    return FORMATS[name](schema, options)
