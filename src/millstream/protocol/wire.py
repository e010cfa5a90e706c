"""Varints and tagged fields: the pieces of wire format that compiled codecs call rather than inline."""

from typing import Final

from millstream.model.errors import CorruptFrame

Buffer = bytes | bytearray | memoryview

#: Most varints on the wire are lengths below 128: one byte, looked up.
SMALL_UVARINTS: Final = tuple(bytes([value]) for value in range(128))

#: Kafka refuses longer text in every version, though only the fixed length prefix forces it to.
STRING_BYTES_MAX: Final = 32767

_UVARINT_BITS_MAX: Final = 32
_UVARLONG_BITS_MAX: Final = 64


def encode_uvarint(value: int) -> bytes:
    """``value`` in groups of seven bits, least significant first."""
    assert value >= 0
    if value < 128:
        return SMALL_UVARINTS[value]
    groups = bytearray()
    while value > 127:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def encode_varint(value: int) -> bytes:
    """A signed ``value``, zigzag-encoded so that small negatives stay short."""
    return encode_uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def encode_compact_string(text: str | None) -> bytes:
    """Text behind its length plus one; a lone 0 for null."""
    if text is None:
        return b"\0"
    raw = text.encode()
    assert len(raw) <= STRING_BYTES_MAX, f"a string of {len(raw)} bytes cannot be sent"
    return encode_uvarint(len(raw) + 1) + raw


def decode_uvarint(buffer: Buffer, at: int, bits_max: int = _UVARINT_BITS_MAX) -> tuple[int, int]:
    """The varint at ``at`` and where it ends."""
    byte = buffer[at]
    if byte < 128:
        return byte, at + 1
    return finish_uvarint(buffer, at + 1, byte, bits_max)


def finish_uvarint(buffer: Buffer, at: int, first: int, bits_max: int = _UVARINT_BITS_MAX) -> tuple[int, int]:
    """The varint whose first byte, already read, says that more follow from ``at``."""
    value, shift = first & 0x7F, 7
    while shift < bits_max:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value >> bits_max:
                break
            return value, at
        shift += 7
    raise CorruptFrame(f"a varint is longer than {bits_max} bits")


def decode_varint(buffer: Buffer, at: int, bits_max: int = _UVARINT_BITS_MAX) -> tuple[int, int]:
    """The signed varint at ``at`` and where it ends."""
    value, at = decode_uvarint(buffer, at, bits_max)
    return (value >> 1) ^ -(value & 1), at


def skip_tags(buffer: Buffer, at: int, first: int) -> int:
    """Where the tagged fields end whose count begins with the byte ``first``, already read; none is looked at.

    A peer newer than us may send fields we do not know, and the protocol has us ignore them.
    """
    count = first
    if first > 127:
        count, at = finish_uvarint(buffer, at, first)
    end = len(buffer)
    for _ in range(count):
        _, at = decode_uvarint(buffer, at)
        size, at = decode_uvarint(buffer, at)
        at += size
        if at > end:
            raise CorruptFrame(f"a tagged field of {size} bytes runs past the end")
    return at
