"""Records and columns: what was encoded is decoded, one by one and as arrays alike."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.model.batch import HEADER_BYTES, crc_holds, header_at
from millstream.model.columns import Columns, decode_columns, record_starts
from millstream.model.compression import CODECS
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import Record, assemble, check_records, decode_batch, encode_batch, payload_of
from millstream.model.varint import decode_varint, encode_varint

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
fields = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=20), fields), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), st.integers(0, 1 << 45), fields, fields, headers)


def numbered(items: list[Record], base_offset: int = 0) -> list[Record]:
    return [item._replace(offset=base_offset + at) for at, item in enumerate(items)]


def rows(payload: bytes, columns: Columns) -> list[tuple[int, int, bytes | None, bytes | None, bytes]]:
    """The columns as plain rows: deltas, key, value, and the headers' raw bytes."""

    def cut(start: int, length: int) -> bytes | None:
        return None if length < 0 else payload[start : start + length]

    ends = columns.record_start + columns.record_len
    return [
        (
            int(columns.timestamp_deltas[at]),
            int(columns.offset_deltas[at]),
            cut(int(columns.key_start[at]), int(columns.key_len[at])),
            cut(int(columns.value_start[at]), int(columns.value_len[at])),
            payload[int(columns.headers_start[at]) : int(ends[at])],
        )
        for at in range(len(columns))
    ]


def header_bytes(record: Record) -> bytes:
    parts = [encode_varint(len(record.headers))]
    for name, value in record.headers:
        parts += [encode_varint(len(name.encode())), name.encode()]
        parts += [b"\x01"] if value is None else [encode_varint(len(value)), value]
    return b"".join(parts)


@given(INT64)
def test_every_number_survives_a_round_trip(number: int) -> None:
    encoded = encode_varint(number)
    assert decode_varint(encoded + b"rest", 0) == (number, len(encoded))


@given(st.lists(records, min_size=1, max_size=20), st.sampled_from(list(CODECS)), st.integers(0, 1 << 50))
def test_a_batch_gives_back_its_records(items: list[Record], compression: int, base_offset: int) -> None:
    batch = encode_batch(items, compression=compression, base_offset=base_offset)
    header = header_at(batch)
    assert crc_holds(batch, 0, header)
    assert decode_batch(batch) == numbered(items, base_offset)
    span = check_records(batch, 0, header)
    assert span.has_null_key == any(item.key is None for item in items)
    assert (span.timestamp_min, span.timestamp_max) == (
        min(item.timestamp for item in items),
        max(item.timestamp for item in items),
    )


@given(st.lists(records, min_size=1, max_size=20))
def test_columns_say_what_the_records_say(items: list[Record]) -> None:
    batch = encode_batch(items)
    payload = bytes(batch[HEADER_BYTES:])
    base = items[0].timestamp
    assert rows(payload, decode_columns(payload)) == [
        (item.timestamp - base, at, item.key, item.value, header_bytes(item)) for at, item in enumerate(items)
    ]


@given(st.lists(st.lists(records, min_size=1, max_size=5), min_size=1, max_size=5))
def test_many_batches_are_decoded_at_once(batches: list[list[Record]]) -> None:
    encoded = [encode_batch(items) for items in batches]
    buffer, starts = b"".join(encoded), list[int]()
    at = 0
    for batch, items in zip(encoded, batches, strict=True):
        record_starts(buffer, at + HEADER_BYTES, at + len(batch), len(items), starts)
        at += len(batch)
    together = rows(buffer, decode_columns(buffer, starts))
    apart = [row for batch in encoded for row in rows(bytes(batch[61:]), decode_columns(batch[61:]))]
    assert together == apart


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_damaged_records_are_refused_and_columns_never_differ(items: list[Record], data: st.DataObject) -> None:
    """Where both read a damaged payload they read the same; nothing but a refusal is ever raised."""
    batch = encode_batch(items)
    payload = bytearray(batch[HEADER_BYTES:])
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] = data.draw(st.integers(0, 255))
    header = header_at(assemble(header_at(batch), payload))
    damaged = assemble(header, payload)
    try:
        plain = decode_batch(damaged)
    except ProtocolError as refusal:
        assert refusal.code == ErrorCode.INVALID_RECORD
        plain = None
    try:
        starts = list[int]()
        record_starts(bytes(payload), 0, len(payload), header.record_count, starts)
        columns = decode_columns(bytes(payload), starts)
    except ProtocolError as refusal:
        assert refusal.code == ErrorCode.INVALID_RECORD
        assert plain is None
        return
    if plain is not None:
        found = [row[:4] for row in rows(bytes(payload), columns)]
        assert found == [
            (r.timestamp - header.base_timestamp, r.offset - header.base_offset, r.key, r.value) for r in plain
        ]


@given(st.lists(records, min_size=1, max_size=8), st.sampled_from(list(CODECS)), st.data())
def test_damaged_compressed_batches_are_refused(items: list[Record], compression: int, data: st.DataObject) -> None:
    batch = encode_batch(items, compression=compression)
    at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        payload_of(batch, 0, header_at(batch), 1 << 20)
        decode_batch(batch)
    except ProtocolError as refusal:
        assert refusal.code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
