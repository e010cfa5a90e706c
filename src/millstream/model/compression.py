"""The codecs of record batches, by Kafka's numbers and names.

What we write, every Kafka client reads: snappy in the blocks of xerial's Java library, lz4 as frames of
independent blocks (Java refuses linked ones). What we read is more: raw snappy as librdkafka writes it, and any
lz4, gzip or zstd frames. Every decompression has an upper bound, so that a small batch cannot claim the memory.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, Protocol

import cramjam

from millstream.model.errors import ErrorCode, ProtocolError

Buffer = bytes | bytearray | memoryview

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

#: xerial's frame: magic, then two version numbers that nobody checks (some writers get their byte order wrong).
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = struct.Struct(">i")
#: Three bytes of snappy stand for at most 64 of output.
_SNAPPY_RATIO_MAX = 22

_FIRST_GUESS_RATIO = 4
_FIRST_GUESS_BYTES = 64 * 1024


class Compress(Protocol):
    """Compresses at a level of the codec's own; None is its usual one, and some have no other."""

    def __call__(self, data: Buffer, level: int | None = None) -> bytes: ...


class Codec(NamedTuple):
    """One way to compress a batch's records; ``decompress`` refuses to give more than its second argument."""

    name: str
    compress: Compress
    decompress: Callable[[Buffer, int], bytes]


def _too_large(bytes_max: int) -> ProtocolError:
    return ProtocolError(ErrorCode.MESSAGE_TOO_LARGE, f"the batch decompresses to more than {bytes_max} bytes")


def _broken(detail: object) -> ProtocolError:
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"the batch cannot be decompressed: {detail}")


def _bounded(decompress_into: Callable[[Buffer, bytearray], int]) -> Callable[[Buffer, int], bytes]:
    """Decompression into room that grows until the data fits or the bound is reached."""

    def decompress(data: Buffer, bytes_max: int) -> bytes:
        room = min(bytes_max, max(_FIRST_GUESS_BYTES, _FIRST_GUESS_RATIO * len(data)))
        while True:
            output = bytearray(room)
            try:
                length = decompress_into(data, output)
            except cramjam.DecompressionError as error:
                # The error does not say in a typed way whether the room was too small, so ask again with more.
                if room == bytes_max:
                    raise (_too_large(bytes_max) if "whole buffer" in str(error) else _broken(error)) from None
                room = min(bytes_max, room * _FIRST_GUESS_RATIO)
                continue
            return bytes(memoryview(output)[:length])

    return decompress


def _plain_compress(data: Buffer, level: int | None = None) -> bytes:
    return bytes(data)


def _plain_decompress(data: Buffer, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise _too_large(bytes_max)
    return bytes(data)


def _gzip_compress(data: Buffer, level: int | None = None) -> bytes:
    return bytes(cramjam.gzip.compress(data, level=level))


def _zstd_compress(data: Buffer, level: int | None = None) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=level))


def _lz4_compress(data: Buffer, level: int | None = None) -> bytes:
    compressor = cramjam.lz4.Compressor(level=level or 0, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # The one part of cramjam that takes nothing else.
    return bytes(compressor.finish())


def _snappy_compress(data: Buffer, level: int | None = None) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts.append(_BLOCK_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _snappy_block(data: Buffer, bytes_max: int) -> bytes:
    try:
        length = cramjam.snappy.decompress_raw_len(data)
        if length > len(data) * _SNAPPY_RATIO_MAX:
            raise _broken(f"{len(data)} bytes claim to hold {length}")
        if length > bytes_max:
            raise _too_large(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise _broken(error) from None


def _snappy_decompress(data: Buffer, bytes_max: int) -> bytes:
    view = memoryview(data)
    magic_bytes, header_bytes = len(_XERIAL_MAGIC), len(_XERIAL_HEADER)
    if view[:magic_bytes] != _XERIAL_MAGIC:
        return _snappy_block(view, bytes_max)
    parts = []
    left = bytes_max
    at = header_bytes
    while at < len(view):
        if view[at : at + magic_bytes] == _XERIAL_MAGIC:  # Streams may be joined; each brings its header.
            at += header_bytes
            continue
        if len(view) - at < _BLOCK_LENGTH.size:
            raise _broken("a block's length is cut short")
        (length,) = _BLOCK_LENGTH.unpack_from(view, at)
        at += _BLOCK_LENGTH.size
        if not 0 < length <= len(view) - at:
            raise _broken(f"a block of {length} bytes where {len(view) - at} are left")
        parts.append(_snappy_block(view[at : at + length], left))
        left -= len(parts[-1])
        at += length
    return b"".join(parts)


CODECS: dict[int, Codec] = {
    NONE: Codec("none", _plain_compress, _plain_decompress),
    GZIP: Codec("gzip", _gzip_compress, _bounded(cramjam.gzip.decompress_into)),
    SNAPPY: Codec("snappy", _snappy_compress, _snappy_decompress),
    LZ4: Codec("lz4", _lz4_compress, _bounded(cramjam.lz4.decompress_into)),
    ZSTD: Codec("zstd", _zstd_compress, _bounded(cramjam.zstd.decompress_into)),
}

#: As ``compression.type`` names them; ``uncompressed`` is that setting's word for none.
CODEC_IDS: dict[str, int] = {codec.name: number for number, codec in CODECS.items()} | {"uncompressed": NONE}


def codec(number: int) -> Codec:
    """The codec of a batch's attributes, or the refusal Kafka would give."""
    found = CODECS.get(number)
    if found is None:
        raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has the number {number}")
    return found
