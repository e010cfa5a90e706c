"""Converters without a schema in the bytes: text, and the bytes themselves."""

from typing import Any

from millstream.config.setting import STRING, Check
from millstream.pipelines.connect.converters.base import NOTHING, Converter, Data
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.literals import parse_literal, write_literal
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.schema import Schema, Type
from millstream.pipelines.connect.texts import text_of

_TEXT = Schema(Type.STRING, optional=True)
_BYTES = Schema(Type.BYTES, optional=True)
_OTHER_BYTES = Schema(Type.BYTES)


def _is_encoding(name: str) -> bool:
    try:
        "".encode(name)
    except LookupError:
        return False
    return True


ENCODING = Option[str](
    "converter.encoding",
    STRING,
    default="UTF-8",
    check=Check("the name of an encoding", _is_encoding),
    doc="The encoding of text.",
    importance="HIGH",
    group="Encoding",
    display="Encoding",
)


class StringConverter(Converter):
    """Text; of other values what Java's ``toString`` says of them."""

    options = (ENCODING,)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._encoding = config[ENCODING]

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        text = value if type(value) is str else text_of(schema, value)
        # As Java writes what an encoding has no bytes for.
        return text.encode(self._encoding, errors="replace")

    def decode(self, topic: str, data: bytes | None) -> Data:
        if data is None:
            return Data(_TEXT, None)
        return Data(_TEXT, data.decode(self._encoding, errors="replace"))


class ByteArrayConverter(Converter):
    """Bytes as they are."""

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")

    def decode(self, topic: str, data: bytes | None) -> Data:
        return Data(_BYTES, data)


class SimpleHeaderConverter(Converter):
    """Headers as literals, whose schema is guessed when they are read: ``12`` is a number, ``[1,2]`` an array."""

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else write_literal(schema, value).encode()

    def decode(self, topic: str, data: bytes | None) -> Data:
        if data is None:
            return NOTHING
        try:
            return Data(*parse_literal(data.decode()))
        except UnicodeDecodeError:
            # Kafka makes text of these too, and loses them.
            return Data(_OTHER_BYTES, data)
