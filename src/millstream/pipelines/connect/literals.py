"""Literals: values as text, whose schema is guessed when they are read, as in headers and in ``value.literal``."""

import re
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.logical import EPOCH, in_utc
from millstream.pipelines.connect.schema import DATE, TIME, TIMESTAMP, Schema, Type, decimal
from millstream.pipelines.connect.texts import as_float32, text_of

Found = tuple[Schema | None, Any]

_TOKEN = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\]|\\$)+', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_FLOAT32_MAX = 3.4028234663852886e38
_FLOAT64_MAX = 1.7976931348623157e308
#: Of whole numbers in 64 bits.
_DIGITS_MAX = 19
#: Whole numbers, the narrowest first; then the others that a number may widen to.
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_NUMBERS = (*_BITS, Type.FLOAT32, Type.FLOAT64)

_OF = {kind: Schema(kind) for kind in (*_NUMBERS, Type.STRING)}
_OF_DATE, _OF_TIME = Schema(Type.INT32, name=DATE, version=1), Schema(Type.INT32, name=TIME, version=1)
_OF_MOMENT = Schema(Type.INT64, name=TIMESTAMP, version=1)
_WORDS: Mapping[str, Found] = {
    "null": (None, None),
    "true": (Schema(Type.BOOLEAN), True),
    "false": (Schema(Type.BOOLEAN), False),
}


def parse_literal(text: str) -> Found:
    """The value and its schema; whatever is nothing else is text."""
    if text == "":
        return _OF[Type.STRING], ""
    if (word := _WORDS.get(text.strip())) is not None:
        return word
    trimmed = text.strip()
    if trimmed[:1] in ("[", "{"):
        try:
            return _Reader(trimmed).whole()
        except (DataError, RecursionError):
            return _OF[Type.STRING], text
    if not trimmed[:1].isdigit() and trimmed[:1] not in ("+", "-"):
        return _OF[Type.STRING], text
    return _moment(trimmed) or _number(trimmed) or (_OF[Type.STRING], text)


class _Reader:
    """Reads arrays and maps, and what is in them, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._place = 0

    def whole(self) -> Found:
        """The only value that there is; Kafka passes over whatever follows it, and loses that."""
        found = self.value()
        if any(token.strip() for token in self._tokens[self._place :]):
            raise DataError("More than one value")
        return found

    def value(self) -> Found:
        token = self._next()
        if token == '"':
            return self._quoted()
        if token == "[":
            return self._array()
        if token == "{":
            return self._map()
        word = token.strip()
        if word in _WORDS:
            return _WORDS[word]
        # A colon parts tokens, but not the hours and minutes of a moment.
        joined = word + "".join(self._tokens[self._place : self._place + 4])
        if (moment := _moment(joined.strip())) is not None:
            self._place += 4
            return moment
        found = _moment(word) or _number(word)
        if found is None:
            raise DataError("Failed to parse embedded value")
        return found

    def _next(self) -> str:
        """The next token that is not blank."""
        while self._place < len(self._tokens):
            token: str = self._tokens[self._place]
            self._place += 1
            if token.strip():
                return token
        raise DataError(f"The literal ends too early: {self._text}")

    def _took(self, wanted: str) -> bool:
        place = self._place
        if self._next().strip() == wanted:
            return True
        self._place = place
        return False

    def _quoted(self) -> Found:
        parts: list[str] = []
        while self._place < len(self._tokens):
            token = self._tokens[self._place]
            self._place += 1
            if token == '"':
                break
            parts.append(token)
        content = "".join(parts)
        return _moment(content.replace("\\:", ":")) or (_OF[Type.STRING], content)

    def _array(self) -> Found:
        items: list[Found] = []
        while not self._took("]"):
            items.append(self.value())
            if not self._took(","):
                if not self._took("]"):
                    raise DataError("Array elements missing ',' delimiter")
                break
        schema = _common(items)
        return Schema(Type.ARRAY, values=schema), [_as(schema, value) for _, value in items]

    def _map(self) -> Found:
        keys: list[Found] = []
        values: list[Found] = []
        while not self._took("}"):
            keys.append(self.value())
            if keys[-1][1] is None or isinstance(keys[-1][1], list | dict):
                raise DataError("Map entry may not have such a key")
            if not self._took(":"):
                raise DataError("Map entry is missing ':'")
            values.append(self.value())
            self._took(",")
        of_keys, of_values = _common(keys), _common(values)
        pairs = zip(keys, values, strict=True)
        entries = {_as(of_keys, key): _as(of_values, value) for (_, key), (_, value) in pairs}
        return Schema(Type.MAP, keys=of_keys, values=of_values), entries


def _number(text: str) -> Found | None:
    if text.isdecimal() and text.isascii() and len(text) < _DIGITS_MAX:
        return _integer(int(text))
    if not _NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    # Only a number that may fit is spelled out, for others may have millions of digits.
    if number.adjusted() <= _DIGITS_MAX and (whole := int(number)) == number and (found := _integer(whole)):
        return found
    if exponent != 0 and abs(number) <= Decimal(_FLOAT32_MAX):
        return _OF[Type.FLOAT32], as_float32(float(number))
    if exponent != 0 and abs(number) <= Decimal(_FLOAT64_MAX):
        return _OF[Type.FLOAT64], float(number)
    return decimal(-exponent), number


def _integer(whole: int) -> Found | None:
    """A whole number in as few bits as hold it; None where 64 do not."""
    for kind, bits in _BITS.items():
        if -(1 << bits - 1) <= whole < 1 << bits - 1:
            return _OF[kind], whole
    return None


def _moment(text: str) -> Found | None:
    try:
        if _DAY.fullmatch(text):
            return _OF_DATE, date.fromisoformat(text)
        if _TIME.fullmatch(text):
            return _OF_TIME, time.fromisoformat(text[:-1])
        if _MOMENT.fullmatch(text):
            moment = datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
            return _OF_MOMENT, moment
    except ValueError:
        pass
    return None


def _common(found: list[Found]) -> Schema | None:
    """A schema that holds them all; None where there is none."""
    common: Schema | None = None
    for schema, _ in found:
        if schema is None or schema == common:
            continue
        if common is None:
            common = schema
        elif schema.type in _NUMBERS and common.type in _NUMBERS and schema.name is None and common.name is None:
            common = max(common, schema, key=lambda one: _NUMBERS.index(one.type))
        else:
            return None
    return common


def _as(schema: Schema | None, value: Any) -> Any:
    """The value as the schema has it: the only ones that change are whole numbers among others."""
    if schema is None:
        return value
    if value is None:
        raise DataError("A null among others has no schema")
    return float(value) if schema.type in (Type.FLOAT32, Type.FLOAT64) else value


def write_literal(schema: Schema | None, value: Any, embedded: bool = False) -> str:
    """The text of a value, which need not be read back as the same."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if embedded else value
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = b64encode(value).decode()
        return f'"{encoded}"' if embedded else encoded
    if isinstance(value, list | tuple):
        inner = schema.values if schema is not None else None
        return "[" + ",".join(write_literal(inner, item, True) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(_entries(schema, value)) + "}"
    if isinstance(value, date | time):
        return moment_text(value)
    return text_of(schema, value)


def _entries(schema: Schema | None, value: Mapping[Any, Any]) -> list[str]:
    if schema is not None and schema.type is Type.STRUCT:
        fields = [(field.name, field.schema, value.get(field.name)) for field in schema.fields]
        return [f'"{name}":{write_literal(inner, item, True)}' for name, inner, item in fields]
    keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
    return [f"{write_literal(keys, key, True)}:{write_literal(values, item, True)}" for key, item in value.items()]


def moment_text(value: date | time) -> str:
    """A day, a time of day, or both; a moment of the first day is told as a time, and midnight as a day."""
    if isinstance(value, time):
        return value.isoformat("milliseconds") + "Z"
    if not isinstance(value, datetime):
        value = datetime.combine(value, time(), UTC)
    moment = in_utc(value)
    if moment - EPOCH < timedelta(days=1):
        return moment.time().isoformat("milliseconds") + "Z"
    if moment.time() == time():
        return moment.date().isoformat()
    return moment.replace(tzinfo=None).isoformat("T", "milliseconds") + "Z"
