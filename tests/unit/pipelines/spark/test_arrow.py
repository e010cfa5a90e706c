"""Record batches become Arrow tables with the same records, whatever their sizes and codecs."""

from enum import Enum, auto
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.model.columns import find_records, record_starts
from millstream.model.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, COMMIT, Record, encode_batch, encode_marker, encode_record
from millstream.pipelines.spark.arrow import Decoder, Part, decode_together

ORDERS = TopicPartition("orders", 3)
#: More than any offset here.
END = 1 << 40


def decoded(
    data: bytes,
    start: int = 0,
    stop: int = END,
    *,
    aborted: list[tuple[int, int]] | None = None,
    with_headers: bool = False,
) -> list[dict[str, object]]:
    decoder = Decoder(ORDERS, start, stop, with_headers=with_headers)
    table = decoder.decode(data, decoder.survey(data, aborted or []))
    return table.to_pylist() if table is not None else []


def offsets(data: bytes, start: int = 0, stop: int = END, aborted: list[tuple[int, int]] | None = None) -> list[object]:
    return [row["offset"] for row in decoded(data, start, stop, aborted=aborted)]


def some(count: int, base_offset: int = 0, **how: object) -> bytes:
    records = [Record(timestamp=1_000 + number, key=b"k", value=b"v%d" % number) for number in range(count)]
    return bytes(encode_batch(records, base_offset=base_offset, **how))  # type: ignore[arg-type]


fields = st.none() | st.binary(max_size=200)
plain_records = st.builds(
    Record,
    timestamp=st.integers(0, 2**40),
    key=fields,
    value=fields,
    headers=st.lists(st.tuples(st.text(max_size=5), fields), max_size=3).map(tuple),
)


@given(
    st.lists(
        st.tuples(st.lists(plain_records, min_size=1, max_size=30), st.sampled_from([NONE, GZIP, SNAPPY, LZ4, ZSTD])),
        min_size=1,
        max_size=4,
    )
)
def test_every_record_comes_out_as_it_went_in(batches: list[tuple[list[Record], int]]) -> None:
    data, expected, offset = b"", [], 7
    for records, compression in batches:
        data += encode_batch(records, base_offset=offset, compression=compression)
        for number, record in enumerate(records):
            expected.append(
                (
                    record.key,
                    record.value,
                    offset + number,
                    record.timestamp,
                    [{"key": name, "value": value} for name, value in record.headers] or None,
                )
            )
        offset += len(records)
    decoder = Decoder(ORDERS, 0, END, with_headers=True)
    table = decoder.decode(data, decoder.survey(data))
    assert table is not None
    table.validate(full=True)
    found = list(
        zip(
            table["key"].to_pylist(),
            table["value"].to_pylist(),
            table["offset"].to_pylist(),
            table["timestamp"].cast(pa.int64()).to_numpy() // 1000,
            table["headers"].to_pylist(),
            strict=True,
        )
    )
    assert found == expected
    assert set(table["topic"].to_pylist()) == {"orders"}
    assert set(table["partition"].to_pylist()) == {3}
    assert decoder.position == offset


class Kind(Enum):
    """What a batch is of, to whoever reads."""

    PLAIN = auto()
    APPEND_TIME = auto()
    ABORTED = auto()
    MARKER = auto()


class Piece(NamedTuple):
    """A batch of a partition: so far behind the one before, its records so far apart."""

    gap: int
    holes: list[int]
    records: list[Record]
    compression: int
    kind: Kind

    def batch(self, end: int) -> tuple[bytes, int]:
        """Its bytes, behind a log that ends there, and where the log ends then."""
        base = end + self.gap
        if self.kind is Kind.MARKER:
            return bytes(
                encode_marker(COMMIT, producer_id=8, producer_epoch=0, timestamp=1, base_offset=base)
            ), base + 1
        offsets = [base - 1 + number for number in accumulate(self.holes[: len(self.records)])]
        data = encode_batch(
            [record._replace(offset=offset) for record, offset in zip(self.records, offsets, strict=True)],
            base_offset=base,
            compression=self.compression,
            producer_id=7 if self.kind is Kind.ABORTED else -1,
            transactional=self.kind is Kind.ABORTED,
            append_time_ms=5_000 if self.kind is Kind.APPEND_TIME else None,
            keep_offsets=True,
        )
        return bytes(data), offsets[-1] + 1


pieces = st.builds(
    Piece,
    gap=st.integers(0, 4),
    holes=st.lists(st.integers(1, 3), min_size=6, max_size=6),
    records=st.lists(plain_records, min_size=1, max_size=6),
    compression=st.sampled_from([NONE, GZIP, ZSTD]),
    kind=st.sampled_from(Kind),
)


class Range(NamedTuple):
    """What is asked for of a partition, and what its leader answers: the last batch may be cut short."""

    pieces: list[Piece]
    start: int
    stop: int
    is_cut: bool

    def part(self, number: int, *, with_headers: bool) -> Part:
        data, end = b"", 0
        for piece in self.pieces:
            batch, end = piece.batch(end)
            data += batch
        data = data[:-1] if self.is_cut else data
        tp = TopicPartition(f"topic-{number % 2}", number)
        decoder = Decoder(tp, self.start, self.stop, with_headers=with_headers)
        return Part(decoder, data, decoder.survey(data, [(7, 0)]))


ranges = st.builds(
    Range, pieces=st.lists(pieces, max_size=4), start=st.integers(0, 20), stop=st.integers(0, 20), is_cut=st.booleans()
)
_BEHIND_A_GAP = Piece(gap=8, holes=[1] * 6, records=[Record(value=b"v")], compression=NONE, kind=Kind.PLAIN)


@given(st.lists(ranges, max_size=4), st.booleans())
@example(
    [Range([_BEHIND_A_GAP], 2, 6, is_cut=False), Range([_BEHIND_A_GAP._replace(gap=0)] * 3, 0, 2, is_cut=False)], False
)
def test_partitions_decoded_together_are_what_each_would_be_alone(asked: list[Range], with_headers: bool) -> None:
    """Also where compaction has left nothing of a range but the batch behind it."""

    def parts() -> list[Part]:
        return [each.part(number, with_headers=with_headers) for number, each in enumerate(asked)]

    alone = [part.decoder.decode(part.fetched, part.places) for part in parts()]
    together = decode_together(parts())
    if together is not None:
        together.validate(full=True)
    assert (together.to_pylist() if together is not None else []) == [
        row for table in alone if table is not None for row in table.to_pylist()
    ]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=400), st.integers(1, 60))
def test_records_are_found_whether_sizes_repeat_or_not(sizes: list[int], repeats: int) -> None:
    values = [size for size in sizes for _ in range(repeats)][:2000]
    payload = b"head" + b"".join(
        encode_record(Record(value=bytes(size)), number, 0) for number, size in enumerate(values)
    )
    starts: list[int] = []
    record_starts(payload, 4, len(payload), len(values), starts)
    assert find_records(payload, 4, len(payload), len(values)).tolist() == starts


@pytest.mark.parametrize("count", [99, 101])
def test_a_batch_with_another_number_of_records_than_it_says_is_refused(count: int) -> None:
    payload = b"".join(encode_record(Record(value=b"x" * 90), number, 0) for number in range(100))
    with pytest.raises(ProtocolError, match="promised"):
        find_records(payload, 0, len(payload), count)
    with pytest.raises(ProtocolError):
        find_records(payload[:-1], 0, len(payload) - 1, 100)


def test_only_the_range_asked_for_is_shown() -> None:
    data = some(10, 100) + some(10, 110)
    assert offsets(data, 105, 113) == list(range(105, 113))
    assert offsets(data, 100, 101) == [100]
    assert offsets(data, 120, 130) == []


def test_a_batch_that_is_cut_short_waits_for_the_next_fetch() -> None:
    first, second = some(5), some(5, 5)
    decoder = Decoder(ORDERS, 0, 10)
    data = first + second[:-1]
    table = decoder.decode(data, decoder.survey(data))
    assert table is not None
    assert (len(table), decoder.position, decoder.is_done) == (5, 5, False)
    table = decoder.decode(second, decoder.survey(second))
    assert table is not None
    assert (len(table), decoder.position, decoder.is_done) == (5, 10, True)


def test_offsets_that_compaction_left_are_kept() -> None:
    records = [Record(offset=offset, value=b"v") for offset in (3, 8, 9)]
    assert offsets(bytes(encode_batch(records, base_offset=3, keep_offsets=True))) == [3, 8, 9]


def test_the_brokers_time_stands_for_all_records_of_its_batch() -> None:
    data = some(2, append_time_ms=5_000) + some(2, 2)
    rows = decoded(data)
    assert [row["timestampType"] for row in rows] == [1, 1, 0, 0]
    stamps = [row["timestamp"].timestamp() for row in rows]  # type: ignore[attr-defined]
    assert stamps == [5.0, 5.0, 1.0, 1.001]


def test_markers_and_aborted_transactions_are_left_out() -> None:
    mine = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    other = {"producer_id": 8, "producer_epoch": 0, "transactional": True}
    data = b"".join(
        [
            some(2, 0, **mine),
            some(2, 2, **other),
            encode_marker(ABORT, producer_id=7, producer_epoch=0, timestamp=1, base_offset=4),
            some(2, 5, **mine),
            encode_marker(COMMIT, producer_id=7, producer_epoch=0, timestamp=1, base_offset=7),
            encode_marker(COMMIT, producer_id=8, producer_epoch=0, timestamp=1, base_offset=8),
        ]
    )
    assert offsets(data, aborted=[(7, 0)]) == [2, 3, 5, 6]
    assert offsets(data) == [0, 1, 2, 3, 5, 6]


def test_a_batch_that_does_not_match_its_checksum_is_refused_with_its_place() -> None:
    data = bytearray(some(3, 40))
    data[-2] ^= 1
    with pytest.raises(ProtocolError, match="offset 40 of partition orders-3"):
        Decoder(ORDERS, 0, END).survey(bytes(data))
    assert len(Decoder(ORDERS, 0, END, checks_crcs=False).survey(bytes(data))) == 1


def test_the_columns_type_is_the_same_with_and_without_nulls() -> None:
    with_null = encode_batch([Record(key=None, value=b"x"), Record(key=b"k", value=None)])
    all_null = encode_batch([Record(key=None, value=None)], base_offset=2)
    tables = []
    decoder = Decoder(ORDERS, 0, END)
    for data in (bytes(with_null), bytes(all_null)):
        tables.append(decoder.decode(data, decoder.survey(data)))
    whole = pa.Table.from_batches(tables)
    assert whole["key"].to_pylist() == [None, b"k", None]
    assert whole["value"].to_pylist() == [b"x", None, None]
    assert np.array_equal(whole["offset"].to_numpy(), [0, 1, 2])


def test_what_is_skipped_is_not_shown_though_its_batch_is_fetched_whole() -> None:
    data = some(5, 3)
    decoder = Decoder(ORDERS, 3, 8)
    decoder.skip_to(6)
    table = decoder.decode(data, decoder.survey(data))
    assert table is not None
    assert table["offset"].to_pylist() == [6, 7]
