"""Keys and values as bytes and back: by a name for the usual ways, or by any callable of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from millstream.client.application.errors import BadSetting, SerializationFailed

#: Anything to bytes.  None is never asked of it: a missing key or value stays missing.
Serializer: TypeAlias = Callable[[Any], bytes]
#: Bytes to anything.
Deserializer: TypeAlias = Callable[[bytes], Any]


def to_bytes(value: Any) -> bytes:
    """Bytes as they are, and text as UTF-8; anything else wants a serializer."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{type(value).__name__} is neither bytes nor text; choose a serializer, such as 'json'")


def to_str(value: Any) -> bytes:
    """Text as UTF-8, and nothing else."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is not text")
    return value.encode()


_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_json(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return _ENCODE(value).encode()


def from_str(data: bytes) -> str:
    """UTF-8 as text."""
    return data.decode()


def from_json(data: bytes) -> Any:
    """What a JSON document says."""
    return json.loads(data)


SERIALIZERS: dict[str, Serializer] = {"bytes": to_bytes, "str": to_str, "json": to_json}
#: None leaves bytes as they are without a call.
DESERIALIZERS: dict[str, Deserializer | None] = {"bytes": None, "str": from_str, "json": from_json}


def serializer(choice: str | Serializer) -> Serializer:
    """The serializer of this name, or the callable itself."""
    if callable(choice):
        return choice
    return SERIALIZERS[_checked(choice, SERIALIZERS)]


def deserializer(choice: str | Deserializer) -> Deserializer | None:
    """The deserializer of this name, or the callable itself; None when there is nothing to do."""
    if callable(choice):
        return choice
    return DESERIALIZERS[_checked(choice, DESERIALIZERS)]


def serialized(what: str, value: Any, by: Serializer, topic: str) -> bytes | None:
    """A key or value as bytes; SerializationFailed, naming which it was, when its serializer will not."""
    if value is None:
        return None
    try:
        data = by(value)
    except Exception as error:
        raise SerializationFailed(f"the {what} of a record for {topic!r} cannot be serialized: {error}") from error
    if not isinstance(data, bytes):
        raise SerializationFailed(f"the {what}'s serializer gave {type(data).__name__} where bytes are due")
    return data


def _checked(choice: object, table: Mapping[str, object]) -> str:
    if isinstance(choice, str) and choice in table:
        return choice
    raise BadSetting(f"{choice!r} is no serializer: give one of {', '.join(map(repr, table))}, or a callable")
