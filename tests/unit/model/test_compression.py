"""Codecs against the ones that Kafka's clients use, real bytes both ways."""

import gzip
import os

import aiokafka.codec
import cramjam
import pytest

from millstream.model import compression
from millstream.model.compression import CODEC_IDS, CODECS, codec
from millstream.model.errors import ErrorCode, ProtocolError

TEXT = b"the mill grinds slowly, " * 5_000
PAYLOADS = [b"x", TEXT, os.urandom(100_000), TEXT[: 32 * 1024], TEXT[: 32 * 1024 + 1]]
COMPRESSING = [number for number in CODECS if number != compression.NONE]

_ENCODE = {
    compression.GZIP: aiokafka.codec.gzip_encode,
    compression.SNAPPY: aiokafka.codec.snappy_encode,
    compression.LZ4: aiokafka.codec.lz4_encode,
    compression.ZSTD: aiokafka.codec.zstd_encode,
}
_DECODE = {
    compression.GZIP: aiokafka.codec.gzip_decode,
    compression.SNAPPY: aiokafka.codec.snappy_decode,
    compression.LZ4: aiokafka.codec.lz4_decode,
    compression.ZSTD: aiokafka.codec.zstd_decode,
}


@pytest.mark.parametrize("number", CODECS)
def test_what_was_compressed_comes_back(number: int) -> None:
    for payload in [b"", *PAYLOADS]:
        compressed = CODECS[number].compress(payload)
        assert CODECS[number].decompress(memoryview(compressed), max(1, len(payload))) == payload


@pytest.mark.parametrize("number", COMPRESSING)
def test_a_client_reads_what_we_write(number: int) -> None:
    for payload in PAYLOADS:
        assert _DECODE[number](CODECS[number].compress(payload)) == payload


@pytest.mark.parametrize("number", COMPRESSING)
def test_we_read_what_a_client_writes(number: int) -> None:
    for payload in PAYLOADS:
        assert CODECS[number].decompress(_ENCODE[number](payload), len(payload)) == payload


@pytest.mark.parametrize("number", CODECS)
def test_a_payload_above_the_bound_is_refused(number: int) -> None:
    compressed = CODECS[number].compress(TEXT)
    with pytest.raises(ProtocolError) as refusal:
        CODECS[number].decompress(compressed, len(TEXT) - 1)
    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("number", COMPRESSING)
def test_damaged_data_is_refused_as_corrupt(number: int) -> None:
    compressed = CODECS[number].compress(os.urandom(70_000))
    for broken in (compressed[:-9], compressed[: len(compressed) // 2], b"\x00\xff" * 40):
        with pytest.raises(ProtocolError) as refusal:
            CODECS[number].decompress(broken, 1 << 20)
        assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_raw_snappy_is_read_too() -> None:
    assert CODECS[compression.SNAPPY].decompress(bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_a_raw_snappy_block_that_claims_gigabytes_is_refused_before_memory_is_taken() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"x" * 10
    with pytest.raises(ProtocolError) as refusal:
        CODECS[compression.SNAPPY].decompress(claim, 1 << 40)
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_joined_snappy_streams_are_read_as_one() -> None:
    snappy = CODECS[compression.SNAPPY]
    assert snappy.decompress(snappy.compress(b"one, ") + snappy.compress(b"two"), 100) == b"one, two"


def test_snappy_is_framed_as_the_java_library_frames_it() -> None:
    framed = CODECS[compression.SNAPPY].compress(TEXT)
    assert framed[:16] == bytes([0x82]) + b"SNAPPY\0" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
    block_bytes = int.from_bytes(framed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(framed[20 : 20 + block_bytes])) == TEXT[: 32 * 1024]


def test_lz4_blocks_are_independent_since_java_refuses_linked_ones() -> None:
    flags = CODECS[compression.LZ4].compress(TEXT)[4]
    assert flags & 0b0010_0000


def test_gzip_of_the_standard_library_is_read() -> None:
    assert CODECS[compression.GZIP].decompress(gzip.compress(TEXT), len(TEXT)) == TEXT


def test_every_name_of_the_setting_leads_to_a_codec() -> None:
    assert CODEC_IDS == {"none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ProtocolError) as refusal:
        codec(5)
    assert refusal.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("number", "low", "high"), [(compression.GZIP, 1, 9), (compression.LZ4, 1, 17), (compression.ZSTD, -5, 22)]
)
def test_a_higher_level_makes_smaller_batches(number: int, low: int, high: int) -> None:
    words = b" ".join(b"%x" % (i * i * 2654435761 % 65521) for i in range(20_000))
    quick, small = codec(number).compress(words, low), codec(number).compress(words, high)
    assert len(small) < len(quick)
    assert codec(number).decompress(small, len(words)) == words
