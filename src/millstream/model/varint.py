"""Variable-length integers as records carry them: zigzag, seven bits to a byte, low bits first."""

from millstream.model.errors import ErrorCode, ProtocolError

Buffer = bytes | bytearray | memoryview

#: A 64-bit number needs ten bytes at most.
VARINT_BYTES_MAX = 10


def _encode(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    output = bytearray()
    while rest > 0x7F:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)
    return bytes(output)


#: Lengths and deltas are mostly small, and looking one up is many times faster than making it.
_KNOWN = {number: _encode(number) for number in range(-1, 1024)}


def encode_varint(number: int) -> bytes:
    """A number of at most 64 bits, signed."""
    known = _KNOWN.get(number)
    return _encode(number) if known is None else known


def decode_varint(buffer: Buffer, at: int) -> tuple[int, int]:
    """The number at ``at`` and where the next byte lies; INVALID_RECORD when it runs on or is cut short."""
    try:
        rest = buffer[at]
        if rest < 0x80:
            return rest >> 1 ^ -(rest & 1), at + 1
        byte = buffer[at + 1]
        if byte < 0x80:  # Two bytes are as common as one for lengths and time, and the loop below is slow.
            rest = rest & 0x7F | byte << 7
            return rest >> 1 ^ -(rest & 1), at + 2
        rest = rest & 0x7F | (byte & 0x7F) << 7
        for shift in range(14, VARINT_BYTES_MAX * 7, 7):
            byte = buffer[at + shift // 7]
            rest |= (byte & 0x7F) << shift
            if byte < 0x80:
                return rest >> 1 ^ -(rest & 1), at + shift // 7 + 1
    except IndexError:
        raise ProtocolError(ErrorCode.INVALID_RECORD, "a number is cut short") from None
    raise ProtocolError(ErrorCode.INVALID_RECORD, "a number runs on for more than ten bytes")
