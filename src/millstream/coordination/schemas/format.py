"""How an internal topic's records lie on disk: a key behind the number of its type, a value behind its version.

Keys are text and 32-bit integers at fixed lengths in every version of Kafka.  Values are messages like any other, with
the same compiled codecs; a reader meets whatever version wrote them.
"""

from collections.abc import Callable
from struct import Struct, error
from typing import Any, Final, TypeVar

from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import CorruptFrame
from millstream.protocol.codec import decode, encode
from millstream.protocol.schema import Value

_K = TypeVar("_K", bound=type)

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_pack_int16 = _INT16.pack
_pack_int32 = _INT32.pack
_unpack_int16 = _INT16.unpack_from
_unpack_int32 = _INT32.unpack_from

_KeyDecoder = Callable[[bytes], Any]


def key(cls: _K) -> _K:
    """Make a named tuple of str and int fields a key: equal only to keys of its own type, as it is on disk."""
    cls.__eq__ = _is_same  # type: ignore[assignment]
    cls.__ne__ = _is_other  # type: ignore[assignment]
    return cls


def _is_same(self: Any, other: Any) -> bool:
    return type(self) is type(other) and tuple.__eq__(self, other)


def _is_other(self: Any, other: Any) -> bool:
    return type(self) is not type(other) or tuple.__ne__(self, other)


class RecordFormat:
    """The records of one internal topic, as a table: the number on disk, then the classes of key and value.

    A key class that is listed twice is written under its last number.
    """

    def __init__(self, types: dict[int, tuple[type, type[Value]]]) -> None:
        self.types = types
        self._readers = {number: (_key_decoder(key), value) for number, (key, value) in types.items()}
        self._numbers = {key: _pack_int16(number) for number, (key, _) in types.items()}
        self._values = dict(types.values())

    def encode(self, record: CoordinatorRecord, version: int | None = None) -> tuple[bytes, bytes | None]:
        """Key and value as bytes; the value in ``version``, by default the one Kafka 4.3 writes."""
        key, value = record
        if value is None:
            return self.encode_key(key), None
        assert type(value) is self._values[type(key)], f"{value} is no value of {key}"
        written = value.WRITTEN if version is None else version
        return self.encode_key(key), _pack_int16(written) + encode(value, written)

    def encode_key(self, key: Any) -> bytes:
        """A key behind the number of its type."""
        parts = [self._numbers[type(key)]]
        for each in key:
            if type(each) is int:
                parts.append(_pack_int32(each))
            else:
                text = each.encode()
                parts.append(_pack_int16(len(text)))
                parts.append(text)
        return b"".join(parts)

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord:
        """The record these bytes are; CorruptFrame where they are none, or one we do not know."""
        try:
            (number,) = _unpack_int16(key)
            decode_key, value_class = self._readers[number]
            decoded_key = decode_key(key)
            if value is None:
                return CoordinatorRecord(decoded_key, None)
            (version,) = _unpack_int16(value)
        except KeyError:
            raise CorruptFrame(f"a key of type {number} is not known") from None
        except (error, UnicodeDecodeError) as fault:
            raise CorruptFrame(f"the record of key {key.hex()}: {fault}") from fault
        first, last = value_class.VERSIONS
        if not first <= version <= last:
            raise CorruptFrame(f"{value_class.__name__} v{version} is not known")
        return CoordinatorRecord(decoded_key, decode(value_class, value, version, 2))


def _key_decoder(cls: Any) -> _KeyDecoder:
    is_text = [cls.__annotations__[name] is str for name in cls._fields]
    make = cls._make

    def decode_key(key: bytes) -> Any:
        at = _INT16.size
        values: list[str | int] = []
        for text in is_text:
            if text:
                (length,) = _unpack_int16(key, at)
                at += 2
                if length < 0:
                    raise CorruptFrame(f"{cls.__name__}: a text of {length} bytes")
                values.append(str(key[at : at + length], "utf-8"))
                at += length
            else:
                values.append(_unpack_int32(key, at)[0])
                at += 4
        if at != len(key):
            raise CorruptFrame(f"{cls.__name__}: {at} bytes are claimed, {len(key)} are there")
        return make(values)

    return decode_key
