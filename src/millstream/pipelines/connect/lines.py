"""Formats of files: text, JSON lines and CSV, to and from what records hold."""

import base64
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple

from millstream.config.setting import BOOLEAN, LIST, STRING, Check, one_of
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import Option
from millstream.pipelines.connect.schema import STRING as TEXT
from millstream.pipelines.connect.schema import Field, Schema, Type

_GROUP = "Format"
FORMAT = Option[str](
    "format",
    STRING,
    default="text",
    check=one_of("text", "json", "csv"),
    doc="What a line is: text, a value of JSON, or the fields of a CSV record.",
    importance="HIGH",
    group=_GROUP,
    recommended=("text", "json", "csv"),
)
DELIMITER = Option[str](
    "csv.delimiter",
    STRING,
    default=",",
    check=Check("one character", lambda text: len(text) == 1 and text not in '"\r\n'),
    doc="What stands between the fields of CSV; quotes are double quotes, doubled within fields.",
    group=_GROUP,
)
HAS_HEADER = Option[bool](
    "csv.header", BOOLEAN, default=True, doc="Whether the first record of a file has the fields' names.", group=_GROUP
)
NAMES = Option[tuple[str, ...]](
    "csv.names",
    LIST,
    default=(),
    doc="The names of the fields, in place of a header's; without either they are column1, column2 and so on.",
    group=_GROUP,
)
OPTIONS = (FORMAT, DELIMITER, HAS_HEADER, NAMES)


def fields_of(text: str, delimiter: str) -> list[str]:
    """The fields of one CSV record; DataError when it is none."""
    try:
        [fields] = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    except (ValueError, csv.Error) as error:
        raise DataError(f"not a record of CSV: {text[:100]!r}: {error}") from None
    return fields


def names_for(fields: Sequence[str]) -> list[str]:
    """Names for the fields of CSV that has none."""
    return [f"column{number}" for number in range(1, len(fields) + 1)]


def struct_of(names: Sequence[str]) -> Schema:
    """The schema of records of CSV: any field may be missing, and all are text."""
    return Schema(Type.STRUCT, fields=tuple(Field(name, TEXT.as_optional()) for name in names))


def csv_line(fields: Iterable[Any], delimiter: str) -> str:
    """A record of CSV, without its end."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(
        ["" if field is None else field if isinstance(field, str) else text_line(field) for field in fields]
    )
    return line.getvalue()


def text_line(value: Any) -> str:
    """A value as text: what is text as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return json_line(value)


def json_line(value: Any) -> str:
    """A value as JSON: bytes in base64, decimals and times as text; DataError for what is no data."""
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise DataError(f"cannot be written as JSON: {error}") from None


def _plain(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} {value!r}")


class Piece(NamedTuple):
    """A record of a file as bytes: where it begins, and whether its end was there too."""

    place: int
    data: bytes
    is_whole: bool


def pieces(file: BinaryIO, stop: int, has_quotes: bool) -> Iterator[Piece]:
    """The records of a file from where it is up to ``stop``; with quotes, lines that end within them go on."""
    place, held, quoted = file.tell(), b"", False
    while file.tell() < stop and (line := file.readline(stop - file.tell())):
        held += line
        if has_quotes and line.count(b'"') % 2:
            quoted = not quoted
        if not quoted and held.endswith(b"\n"):
            yield Piece(place, held, True)
            place, held = file.tell(), b""
    if held:
        yield Piece(place, held, False)
