"""PostgreSQL's types: what a column's values are to Connect, and how their text is read.

Logical replication and COPY both give values as text, so there is one way to read them.  What has no type of its own
in Connect stays text: intervals, ranges, enums, JSON, network addresses, geometry.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

from millstream.pipelines.connect.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    decimal,
    struct,
)

UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
INT16 = Schema(Type.INT16)
FLOAT32 = Schema(Type.FLOAT32)
CONNECT_DATE = Schema(Type.INT32, name=DATE, version=1)
CONNECT_TIME = Schema(Type.INT32, name=TIME, version=1)
CONNECT_TIMESTAMP = Schema(Type.INT64, name=TIMESTAMP, version=1)


@dataclass(frozen=True, slots=True)
class Codec:
    """A type's schema, and how its text becomes a value of it."""

    schema: Schema
    load: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class PgType:
    """A type as the catalog has it: domains already followed to what they are made of."""

    name: str
    modifier: int = -1
    #: Of an array.
    element: "PgType | None" = None


TEXT = PgType("text")


@dataclass(frozen=True, slots=True)
class Mapping:
    """How a connector wants numbers and times."""

    #: precise | best_fit | double | string.
    decimals: str = "precise"
    #: connect (Connect's own types, to the millisecond) | adaptive (Debezium's, to the microsecond).
    times: str = "connect"
    #: Whether text that means more (JSON, UUID) says so by Debezium's name of its schema.
    names_text: bool = False
    #: What a number without limits is where decimals are precise: string | variable (Debezium's struct).
    unlimited: str = "string"


def codec_of(kind: PgType, mapping: Mapping) -> Codec:
    """How values of the type are read."""
    if kind.element is not None:
        return _array(codec_of(kind.element, mapping))
    if kind.name == "numeric":
        return _number(kind.modifier, mapping)
    if kind.name in TIMES:
        return TIMES[kind.name](mapping, kind.modifier)
    codec = PLAIN.get(kind.name)
    if codec is None:
        named = NAMED_TEXT.get(kind.name) if mapping.names_text else None
        return Codec(replace(STRING, name=named, version=1 if named else None), str)
    return codec


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


PLAIN = {
    "bool": Codec(BOOLEAN, "t".__eq__),
    "int2": Codec(INT16, int),
    "int4": Codec(INT32, int),
    "int8": Codec(INT64, int),
    "oid": Codec(INT64, int),
    "float4": Codec(FLOAT32, float),
    "float8": Codec(FLOAT64, float),
    "bytea": Codec(BYTES, _bytes),
}

NAMED_TEXT = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "uuid": "io.debezium.data.Uuid",
    "xml": "io.debezium.data.Xml",
    "ltree": "io.debezium.data.Ltree",
    "interval": "io.debezium.time.Interval",
}


# Numbers.


def precision_and_scale(modifier: int) -> tuple[int, int] | None:
    """Of ``numeric(p, s)``; None without limits.  A scale may be negative."""
    if modifier < 0:
        return None
    bits = modifier - 4
    return bits >> 16 & 0xFFFF, ((bits & 0x7FF) ^ 1024) - 1024


#: Digits enough for every number that PostgreSQL has.
_EXACT = Context(prec=200_000)
VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"


def _number(modifier: int, mapping: Mapping) -> Codec:
    limits = precision_and_scale(modifier)
    if mapping.decimals == "string":
        return Codec(STRING, str)
    if mapping.decimals == "double" or (mapping.decimals == "best_fit" and (limits is None or limits[1] > 0)):
        return Codec(FLOAT64, float)
    if limits is None:
        return _variable_scale() if mapping.unlimited == "variable" else Codec(STRING, str)
    precision, scale = limits
    if mapping.decimals == "best_fit" and precision - scale <= 18:
        return Codec(INT64, lambda text: int(Decimal(text)))
    # The schema fixes the scale, and Connect's is never negative.
    step = Decimal(1).scaleb(-max(scale, 0))

    def load(text: str) -> Decimal | None:
        number = Decimal(text)
        return number.quantize(step, context=_EXACT) if number.is_finite() else None

    return Codec(decimal(max(scale, 0)), load)


def _variable_scale() -> Codec:
    schema = replace(struct(VARIABLE_SCALE, scale=INT32, value=BYTES), version=1)

    def load(text: str) -> dict[str, Any] | None:
        number = Decimal(text)
        if not number.is_finite():
            return None
        _, _, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        scale = max(-exponent, 0)
        unscaled = int(number.scaleb(scale, _EXACT))
        size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return {"scale": scale, "value": unscaled.to_bytes(size, "big", signed=True)}

    return Codec(schema, load)


# Times.  What no calendar of Python's has, infinity and years beyond 9999, is its first or last moment.


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return date.min if text.startswith("-") or text.endswith("BC") else date.max


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min if text.startswith("-") or text.endswith("BC") else datetime.max
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _micros(text: str) -> int:
    return (_moment(text) - UNIX_EPOCH) // MICROSECOND


def _clock(text: str) -> time:
    """A time of day; 24:00:00, which PostgreSQL knows, is the last moment of the day."""
    return time.max if text.startswith("24:") else time.fromisoformat(text)


def _clock_micros(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)


def _zoned(text: str) -> str:
    return _moment(text).isoformat().replace("+00:00", "Z")


def _debezium(kind: Type, name: str) -> Schema:
    return Schema(kind, name=f"io.debezium.time.{name}", version=1)


def _date_codec(mapping: Mapping, _: int) -> Codec:
    if mapping.times == "connect":
        return Codec(CONNECT_DATE, _date)
    return Codec(_debezium(Type.INT32, "Date"), lambda text: _date(text).toordinal() - date(1970, 1, 1).toordinal())


def _timestamp_codec(mapping: Mapping, modifier: int) -> Codec:
    if mapping.times == "connect":
        return Codec(CONNECT_TIMESTAMP, _moment)
    if 0 <= modifier <= 3:
        return Codec(_debezium(Type.INT64, "Timestamp"), lambda text: _micros(text) // 1000)
    return Codec(_debezium(Type.INT64, "MicroTimestamp"), _micros)


def _zoned_timestamp_codec(mapping: Mapping, _: int) -> Codec:
    if mapping.times == "connect":
        return Codec(CONNECT_TIMESTAMP, _moment)
    return Codec(_debezium(Type.STRING, "ZonedTimestamp"), _zoned)


def _time_codec(mapping: Mapping, modifier: int) -> Codec:
    if mapping.times == "connect":
        return Codec(CONNECT_TIME, _clock)
    if 0 <= modifier <= 3:
        return Codec(_debezium(Type.INT32, "Time"), lambda text: _clock_micros(text) // 1000)
    return Codec(_debezium(Type.INT64, "MicroTime"), _clock_micros)


TIMES: dict[str, Callable[[Mapping, int], Codec]] = {
    "date": _date_codec,
    "time": _time_codec,
    "timestamp": _timestamp_codec,
    "timestamptz": _zoned_timestamp_codec,
}


# Arrays.


def _array(element: Codec) -> Codec:
    schema = Schema(Type.ARRAY, values=element.schema.as_optional())
    return Codec(schema, lambda text: [None if item is None else element.load(item) for item in array_items(text)])


def array_items(text: str) -> Iterator[str | None]:
    """The items of ``{1,NULL,"a,b"}``; those of arrays within it come one after another, as PostgreSQL keeps them."""
    # Bounds other than the usual stand in front: [0:1]={1,2}.
    at = text.index("{")
    while at < len(text):
        letter = text[at]
        if letter in "{},":
            at += 1
        elif letter == '"':
            item, at = _quoted(text, at + 1)
            yield item
        else:
            end = min(found for mark in ",}" if (found := text.find(mark, at)) >= 0)
            item = text[at:end]
            yield None if item == "NULL" else item
            at = end


def _quoted(text: str, at: int) -> tuple[str, int]:
    """A quoted item, and where it ends."""
    letters = []
    while (letter := text[at]) != '"':
        at += letter == "\\"
        letters.append(text[at])
        at += 1
    return "".join(letters), at + 1
