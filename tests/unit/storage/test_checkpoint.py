"""Checkpoint files in Kafka's text format."""

from pathlib import Path

import pytest

from millstream.model.ids import TopicPartition
from millstream.storage.checkpoint import (
    DamagedCheckpoint,
    decode_epochs,
    decode_offsets,
    encode_epochs,
    encode_offsets,
    read_offsets,
)
from millstream.storage.files import OsFiles

OFFSETS = {TopicPartition("orders", 0): 12, TopicPartition("a.b-c", 3): 0}


def test_offsets_are_written_as_kafka_does() -> None:
    assert encode_offsets(OFFSETS) == b"0\n2\norders 0 12\na.b-c 3 0\n"


def test_offsets_survive() -> None:
    assert decode_offsets(encode_offsets(OFFSETS)) == OFFSETS
    assert decode_offsets(encode_offsets({})) == {}
    assert decode_offsets(b"") == {}


def test_epochs_are_written_as_kafka_does() -> None:
    assert encode_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert decode_epochs(b"0\n2\n0 0\n3 17\n") == [(0, 0), (3, 17)]


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"zero\n",
        b"0\n2\norders 0 12\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders zero 1\n",
        b"\xff\xfe",
        b"0\nx\n",
    ],
)
def test_damage_is_noticed(data: bytes) -> None:
    with pytest.raises(DamagedCheckpoint):
        decode_offsets(data)


def test_a_missing_or_damaged_file_counts_as_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    assert read_offsets(OsFiles(), str(path)) == {}
    assert not caplog.records
    path.write_bytes(b"nonsense")
    assert read_offsets(OsFiles(), str(path)) == {}
    (line,) = caplog.messages
    assert "damaged" in line and str(path) in line
