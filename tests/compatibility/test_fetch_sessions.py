"""Fetch sessions (v7 and on) and topic ids (v13 and on), by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import Connections
from tests.compatibility.wire import FETCH, PRODUCE, Cursor, Wire, batches, produce, record_batch, string, varint

UNKNOWN_TOPIC_ID, FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH = 100, 70, 71
NEW, NO_SESSION = 0, -1


class Answer:
    """A Fetch v7 answer for one topic: error, session, and how many batches came for each partition it names."""

    def __init__(self, answer: Cursor) -> None:
        answer.int32()  # throttle time
        self.code, self.session_id = answer.int16(), answer.int32()
        self.counts: dict[int, int] = {}
        for _ in range(answer.int32()):
            answer.string()
            for _ in range(answer.int32()):
                partition = answer.int32()
                assert answer.int16() == 0
                answer.take(24)  # high watermark, last stable offset, start of the log
                for _ in range(max(answer.int32(), 0)):
                    answer.take(16)
                self.counts[partition] = len(batches(answer.bytes()))


def ask(
    wire: Wire,
    topic: str,
    session_id: int,
    epoch: int,
    offsets: dict[int, int],
    *,
    forget: Sequence[int] = (),
    wait_ms: int = 0,
) -> Answer:
    head = struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, session_id, epoch)
    rows = b"".join(struct.pack(">iqqi", index, offset, -1, 1 << 20) for index, offset in offsets.items())
    body = struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(offsets)) + rows if offsets else bytes(4)
    gone = b"".join(struct.pack(">i", index) for index in forget)
    tail = struct.pack(">i", 1) + string(topic) + struct.pack(">i", len(forget)) + gone if forget else bytes(4)
    return Answer(wire.call(FETCH, 7, head + body + tail))


def write(wire: Wire, topic: str, partition: int) -> None:
    assert produce(wire, topic, bytes(record_batch([b"x"])), partition=partition).code == 0


def test_a_session_answers_only_what_changed(connections: Connections, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3, together=True)
    wire = connections.to_leader(topic)
    first = ask(wire, topic, 0, NEW, {0: 0, 1: 0, 2: 0})
    assert first.code == 0 and first.session_id > 0
    assert first.counts == {0: 0, 1: 0, 2: 0}
    assert ask(wire, topic, first.session_id, 1, {}).counts == {}
    write(wire, topic, 1)
    assert ask(wire, topic, first.session_id, 2, {}, wait_ms=5_000).counts == {1: 1}
    # The client has read it and says so; nothing is left.
    assert ask(wire, topic, first.session_id, 3, {1: 1}).counts == {}


def test_a_waiting_session_is_woken(connections: Connections, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2, together=True)
    wire = connections.to_leader(topic)
    first = ask(wire, topic, 0, NEW, {0: 0, 1: 0})
    write(connections.to_leader(topic), topic, 0)
    assert ask(wire, topic, first.session_id, 1, {}, wait_ms=8_000).counts == {0: 1}


def test_a_forgotten_partition_is_no_longer_answered(connections: Connections, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2, together=True)
    wire = connections.to_leader(topic)
    first = ask(wire, topic, 0, NEW, {0: 0, 1: 0})
    assert ask(wire, topic, first.session_id, 1, {}, forget=[0]).counts == {}
    write(wire, topic, 0)
    write(wire, topic, 1)
    assert ask(wire, topic, first.session_id, 2, {}).counts == {1: 1}


def test_a_session_survives_its_connection(leader: Wire, connections: Connections, topic: str) -> None:
    first = ask(leader, topic, 0, NEW, {0: 0})
    write(leader, topic, 0)
    leader.close()
    assert ask(connections.to_leader(topic), topic, first.session_id, 1, {}).counts == {0: 1}


def test_an_unknown_session_and_a_wrong_epoch_are_refused(leader: Wire, topic: str) -> None:
    assert ask(leader, topic, 123456789, 1, {}).code == FETCH_SESSION_ID_NOT_FOUND
    first = ask(leader, topic, 0, NEW, {0: 0})
    assert ask(leader, topic, first.session_id, 7, {}).code == INVALID_FETCH_SESSION_EPOCH
    assert ask(leader, topic, first.session_id, 1, {}).code == 0


def test_no_session_is_made_for_one_who_wants_none(leader: Wire, topic: str) -> None:
    answer = ask(leader, topic, 0, NO_SESSION, {0: 0})
    assert (answer.code, answer.session_id, answer.counts) == (0, 0, {0: 0})


def test_a_fetch_of_an_unknown_topic_id_is_refused(wire: Wire) -> None:
    head = struct.pack(">iiibii", 0, 1, 50 << 20, 0, 0, NO_SESSION)
    row = struct.pack(">iiqiqi", 0, -1, 0, -1, -1, 1 << 20) + b"\x00"
    topic = bytes(range(16)) + varint(2) + row + b"\x00"
    # v15: no replica id, which moved into a tagged field; no forgotten topics, no rack, no tags.
    answer = wire.call(FETCH, 15, head + varint(2) + topic + varint(1) + varint(1) + b"\x00", tags=b"\x00")
    answer.tags()
    assert (answer.int32(), answer.int16(), answer.int32()) == (0, 0, 0)
    assert answer.varint() == 2 and answer.take(16) == bytes(range(16))
    assert (answer.varint(), answer.int32(), answer.int16()) == (2, 0, UNKNOWN_TOPIC_ID)


def test_a_write_to_an_unknown_topic_id_is_refused(wire: Wire) -> None:
    batch = bytes(record_batch([b"x"]))
    row = struct.pack(">i", 0) + varint(len(batch) + 1) + batch + b"\x00"
    topic = bytes(range(16)) + varint(2) + row + b"\x00"
    body = varint(0) + struct.pack(">hi", -1, 5_000) + varint(2) + topic + b"\x00"
    answer = wire.call(PRODUCE, 13, body, tags=b"\x00")
    answer.tags()
    assert answer.varint() == 2 and answer.take(16) == bytes(range(16))
    assert (answer.varint(), answer.int32(), answer.int16()) == (2, 0, UNKNOWN_TOPIC_ID)
