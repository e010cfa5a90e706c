"""What is read of a broker's files, sound and damaged."""

import struct
from pathlib import Path

import pytest

from millstream.cli.log.readers import READERS, reader_for
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.storage.checkpoint import encode_epochs, encode_offsets

Rows = list[dict[str, object]]


def rows(folder: Path, name: str, content: bytes, *, with_records: bool = False) -> Rows:
    path = folder / name
    path.write_bytes(content)
    reader = reader_for(str(path))
    assert reader is not None
    return list(reader(str(path), with_records))


def batch(offset: int, *values: bytes, **options: int) -> bytes:
    records = [Record(timestamp=1_769_860_800_000, key=None, value=value) for value in values]
    return bytes(encode_batch(records, base_offset=offset, leader_epoch=4, **options))  # type: ignore[arg-type]


def test_a_segment_gives_its_batches(tmp_path: Path) -> None:
    first = batch(10, b"a", b"b")
    second = batch(12, b"c", compression=3, producer_id=77, producer_epoch=1, base_sequence=5)
    found = rows(tmp_path, "00000000000000000010.log", first + second)
    assert [row["position"] for row in found] == [0, len(first)]
    assert [(row["base_offset"], row["last_offset"], row["records"]) for row in found] == [(10, 11, 2), (12, 12, 1)]
    assert [row["codec"] for row in found] == ["none", "lz4"]
    assert [(row["producer_id"], row["base_sequence"]) for row in found] == [(None, None), (77, 5)]
    assert {row["epoch"] for row in found} == {4}
    assert {row["max_time"] for row in found} == {"2026-01-31T12:00:00.000Z"}
    assert not any("fault" in row or "contents" in row for row in found)


def test_records_are_read_where_wanted_bytes_that_are_no_text_included(tmp_path: Path) -> None:
    [row] = rows(tmp_path, "0.log", batch(0, b"\xff"), with_records=True)
    assert row["contents"] == [
        {
            "offset": 0,
            "timestamp": 1_769_860_800_000,
            "time": "2026-01-31T12:00:00.000Z",
            "key": None,
            "value": "\\xff",
            "headers": {},
        }
    ]


def test_an_empty_segment_has_no_batches(tmp_path: Path) -> None:
    assert rows(tmp_path, "0.log", b"") == []


def test_a_wrong_crc_is_told_and_reading_goes_on(tmp_path: Path) -> None:
    first, second = bytearray(batch(0, b"a")), batch(1, b"b")
    first[-1] ^= 1
    damaged, sound = rows(tmp_path, "0.log", bytes(first) + second, with_records=True)
    assert damaged["fault"] == "the CRC does not match the bytes"
    assert "fault" not in sound


@pytest.mark.parametrize("kept", [1, 60, 61, 65])
def test_a_torn_tail_is_told_where_it_starts(tmp_path: Path, kept: int) -> None:
    whole = batch(0, b"a")
    *_, torn = rows(tmp_path, "0.log", whole + whole[:kept])
    assert torn["position"] == len(whole)
    assert "left" in str(torn["fault"])


def test_another_magic_is_told(tmp_path: Path) -> None:
    old = bytearray(batch(0, b"a"))
    old[16] = 1
    assert rows(tmp_path, "0.log", bytes(old)) == [{"position": 0, "fault": "magic 1, not 2"}]


def test_index_entries_are_relative_to_the_files_name_and_end_before_kafkas_zeros(tmp_path: Path) -> None:
    entries = struct.pack(">iiii", 5, 100, 9, 200)
    expected = [{"offset": 1005, "position": 100}, {"offset": 1009, "position": 200}]
    assert rows(tmp_path, "00000000000000001000.index", entries) == expected
    assert rows(tmp_path, "00000000000000001000.index", entries + bytes(800)) == expected
    [*_, odd] = rows(tmp_path, "00000000000000001000.index", entries + b"\1\2\3")
    assert odd == {"fault": "3 bytes after the last whole entry"}


def test_time_and_transaction_indexes_are_read(tmp_path: Path) -> None:
    [row] = rows(tmp_path, "00000000000000001000.timeindex", struct.pack(">qi", 1_769_860_800_000, 3) + bytes(24))
    assert row == {"timestamp": 1_769_860_800_000, "time": "2026-01-31T12:00:00.000Z", "offset": 1003}
    [row] = rows(tmp_path, "0.txnindex", struct.pack(">hqqqq", 0, 9, 10, 20, 30))
    assert row == {"producer_id": 9, "first_offset": 10, "last_offset": 20, "last_stable_offset": 30}


def test_checkpoints_and_properties_are_read(tmp_path: Path) -> None:
    offsets = encode_offsets({TopicPartition("orders", 3): 17})
    expected = [{"topic": "orders", "partition": 3, "offset": 17}]
    assert rows(tmp_path, "recovery-point-offset-checkpoint", offsets) == expected
    assert rows(tmp_path, "leader-epoch-checkpoint", encode_epochs([(2, 50)])) == [{"epoch": 2, "start_offset": 50}]
    assert rows(tmp_path, "partition.metadata", b"version: 0\ntopic_id: abc\n") == [
        {"name": "version", "value": "0"},
        {"name": "topic_id", "value": "abc"},
    ]
    assert rows(tmp_path, "meta.properties", b"#\n#now\nbroker.id=1\n") == [{"name": "broker.id", "value": "1"}]


@pytest.mark.parametrize("name", ["0.snapshot", "leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
def test_a_damaged_file_is_told(tmp_path: Path, name: str) -> None:
    [row] = rows(tmp_path, name, b"\xffnonsense\n1\n")
    assert row["fault"]


def test_every_reader_is_found_by_name_and_nothing_else_is() -> None:
    assert {reader_for(f"/data/x{ending}") for ending in READERS} == set(READERS.values())
    assert reader_for("/data/notes.txt") is None
