import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.batch import HEADER_BYTES, checked_header
from millstream.model.compression import CODECS
from millstream.model.records import Record, decode_batch
from millstream.pipelines.spark.sink.encoding import FEW, Rows, Stamp, cuts, encode_rows, sizes_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

records = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=70)), max_size=3),
    ),
    min_size=1,
    max_size=200,
)


def _rows(given: list[Record]) -> Rows:
    return Rows(
        value=pa.array([record.value for record in given], pa.binary()),
        key=pa.array([record.key for record in given], pa.binary()),
        headers=pa.array(
            [[{"key": name, "value": value} for name, value in record.headers] or None for record in given], HEADERS
        ),
    )


def _encoded(rows: Rows, compression: int = 0, stamp: Stamp | None = None) -> bytearray:
    return encode_rows(rows, timestamp_ms=1_700_000_000_000, compression=compression, stamp=stamp or Stamp())


@given(records, st.sampled_from(sorted(CODECS)))
def test_a_batch_holds_the_rows_in_their_order(given: list[Record], compression: int) -> None:
    batch = _encoded(_rows(given), compression)
    header = checked_header(batch)
    assert (header.record_count, header.compression, header.size) == (len(given), compression, len(batch))
    found = [(record.key, record.value, list(record.headers)) for record in decode_batch(batch)]
    assert found == [(record.key, record.value, list(record.headers)) for record in given]


@given(records.map(lambda given: given[: FEW + 1]), st.booleans(), st.sampled_from(sorted(CODECS)))
def test_rows_are_encoded_alike_one_by_one_and_by_columns(given: list[Record], has_key: bool, codec: int) -> None:
    """A column of headers that are all null is encoded by columns, however few the rows are, and is none."""
    rows = _rows(given)
    plain = Rows(rows.value, rows.key if has_key else None)
    nulls = pa.nulls(len(given), HEADERS)
    assert _encoded(plain, codec) == _encoded(Rows(plain.value, plain.key, nulls), codec)


@given(records, st.integers(0, 50), st.integers(1, 50))
def test_slices_and_selections_of_columns_are_encoded_as_themselves(given: list[Record], at: int, count: int) -> None:
    """Arrow's slices share their buffers with the whole."""
    part = given[at : at + count]
    if part:
        batch = _encoded(_rows(given).slice(at, count))
        assert [record.value for record in decode_batch(batch)] == [record.value for record in part]
        assert [list(record.headers) for record in decode_batch(batch)] == [list(record.headers) for record in part]
    backwards = list(range(len(given)))[::-1]
    batch = _encoded(_rows(given).take(pa.array(backwards)))
    assert [record.key for record in decode_batch(batch)] == [given[row].key for row in backwards]


def test_strings_become_their_bytes_and_a_missing_key_is_null() -> None:
    batch = _encoded(Rows(value=pa.array(["ü", None, ""])))
    assert [(r.key, r.value) for r in decode_batch(batch)] == [(None, "ü".encode()), (None, None), (None, b"")]


def test_many_records_need_longer_numbers() -> None:
    """Offsets past 64 and past 8,192 take two and three bytes."""
    values = [b"%d" % number for number in range(20_000)]
    found = decode_batch(_encoded(Rows(value=pa.array(values))))
    assert [record.value for record in found] == values
    assert [record.offset for record in found] == list(range(20_000))
    assert {record.timestamp for record in found} == {1_700_000_000_000}


def test_the_stamp_is_in_the_header() -> None:
    header = checked_header(_encoded(Rows(value=pa.array([b"x"])), stamp=Stamp(7, 3, 99, is_transactional=True)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 99)
    assert header.is_transactional


@given(st.lists(st.integers(1, 100), max_size=50), st.integers(1, 200))
def test_cuts_cover_every_row_once_within_the_bound(sizes: list[int], bytes_max: int) -> None:
    found = cuts(np.array(sizes, np.int64), bytes_max)
    assert [row for start, end in found for row in range(start, end)] == list(range(len(sizes)))
    assert all(sum(sizes[start:end]) <= bytes_max or end - start == 1 for start, end in found)


@given(records)
def test_sizes_are_never_less_than_what_is_encoded(given: list[Record]) -> None:
    rows = _rows(given)
    assert len(_encoded(rows)) - 61 <= int(sizes_of(rows).sum())


@given(st.lists(st.none() | st.integers(0, 2**45), min_size=1, max_size=30))
def test_rows_with_a_time_keep_it_and_the_others_are_of_now(times_ms: list[int | None]) -> None:
    rows = Rows(value=pa.array([b"x"] * len(times_ms)), time_ms=pa.array(times_ms, pa.int64()))
    batch = _encoded(rows)
    wanted = [1_700_000_000_000 if time_ms is None else time_ms for time_ms in times_ms]
    assert [record.timestamp for record in decode_batch(batch)] == wanted
    assert checked_header(batch).max_timestamp == max(wanted)
    assert sizes_of(rows).sum() >= len(batch) - HEADER_BYTES
    assert [r.timestamp for r in decode_batch(_encoded(rows.slice(len(rows) - 1, 1)))] == wanted[-1:]
