"""The records of MirrorMaker's topics, against bytes worked out by hand and back again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.errors import CorruptFrame
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.formats import Checkpoint, Encoded, Heartbeat, OffsetSync

NAMES = st.text(max_size=40)
LONGS = st.integers(-(2**63), 2**63 - 1)
PLACES = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))


def test_a_heartbeat_is_two_names_and_a_versioned_time() -> None:
    assert Heartbeat("A", "B", 258).encode() == Encoded(
        b"\x00\x01A\x00\x01B", b"\x00\x00" + b"\x00\x00\x00\x00\x00\x00\x01\x02"
    )


def test_an_offset_sync_has_no_version() -> None:
    assert OffsetSync(TopicPartition("t1", 3), 5, 7).encode() == Encoded(
        b"\x00\x02t1\x00\x00\x00\x03", bytes(7) + b"\x05" + bytes(7) + b"\x07"
    )


def test_a_checkpoint_names_group_topic_and_partition_and_ends_with_its_note() -> None:
    assert Checkpoint("g", TopicPartition("A.t", 1), 5, 7, "m").encode() == Encoded(
        b"\x00\x01g\x00\x03A.t\x00\x00\x00\x01", b"\x00\x00" + bytes(7) + b"\x05" + bytes(7) + b"\x07" + b"\x00\x01m"
    )


@given(st.builds(Heartbeat, NAMES, NAMES, LONGS))
def test_heartbeats_survive(record: Heartbeat) -> None:
    assert Heartbeat.decode(*record.encode()) == record


@given(st.builds(OffsetSync, PLACES, LONGS, LONGS))
def test_offset_syncs_survive(record: OffsetSync) -> None:
    assert OffsetSync.decode(*record.encode()) == record


@given(st.builds(Checkpoint, NAMES, PLACES, LONGS, LONGS, NAMES))
def test_checkpoints_survive(record: Checkpoint) -> None:
    assert Checkpoint.decode(*record.encode()) == record


def test_what_is_cut_short_or_of_another_version_is_refused() -> None:
    key, value = Checkpoint("g", TopicPartition("A.t", 1), 5, 7, "m").encode()
    for wrong_key, wrong_value in ((key[:-1], value), (key, value[:-1]), (key, b"\x00\x01" + value[2:])):
        with pytest.raises(CorruptFrame):
            Checkpoint.decode(wrong_key, wrong_value)
