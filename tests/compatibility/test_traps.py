"""Traps of the protocol that real clients fell into, as raw bytes that owe nothing to our own codec."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.compatibility.wire import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    Closed,
    Cursor,
    Wire,
    compact_string,
    fetch_body,
    fetched,
    produce,
    produce_body,
    record_batch,
    string,
    tagged,
)

NO_TAGS = b"\x00"
INVALID_ACKS, UNSUPPORTED_VERSION, INVALID_REQUEST = 21, 35, 42
API_VERSIONS_3 = compact_string("test") + compact_string("1.0")

#: Kafka 4.3's ranges of what this broker serves so far: key -> (lowest, highest).
RANGES = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    35: (1, 5),
    37: (0, 3),
    44: (0, 1),
    60: (0, 2),
    75: (0, 0),
}


@pytest.fixture
def neighbour(bootstrap: str) -> Iterator[Wire]:
    """Another client's connection, which must not notice: it is tried again when the test is over, at every broker."""
    with ExitStack() as stack:
        opened = [stack.enter_context(Wire(address)) for address in bootstrap.split(",")]
        assert all(map(api_ranges, opened))
        yield opened[0]
        assert all(map(api_ranges, opened))


def api_ranges(wire: Wire) -> dict[int, tuple[int, int]]:
    answer = wire.call(API_VERSIONS, 0, b"")
    assert answer.int16() == 0
    found = {answer.int16(): (answer.int16(), answer.int16()) for _ in range(answer.int32())}
    assert answer.left == 0
    return found


def api_ranges_flexible(answer: Cursor) -> dict[int, tuple[int, int]]:
    """The body of an ApiVersions answer from v3 on, right after the correlation id: its header never has tags."""
    assert answer.int16() == 0
    found = {}
    for _ in range(answer.varint() - 1):
        key = answer.int16()
        found[key] = (answer.int16(), answer.int16())
        answer.tags()
    assert answer.int32() == 0  # throttle time
    answer.tags()
    assert answer.left == 0
    return found


def test_what_is_advertised_is_kafkas(wire: Wire) -> None:
    found = api_ranges(wire)
    for key, (lowest, highest) in RANGES.items():
        assert key in found, f"key {key} is not advertised"
        assert found[key][0] == lowest and found[key][1] >= highest, f"key {key} is advertised as {found[key]}"


def test_find_coordinator_is_advertised(wire: Wire) -> None:
    """Where it is not, librdkafka believes that the broker cannot read lz4, and sends such batches uncompressed."""
    assert 10 in api_ranges(wire)


def test_produce_is_advertised_from_0(wire: Wire) -> None:
    """From 3 on is true, but turns compression off in many librdkafkas."""
    assert api_ranges(wire)[PRODUCE][0] == 0


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_api_versions_at_an_unknown_version_tells_its_own_range(wire: Wire, version: int) -> None:
    answer = wire.call(API_VERSIONS, version, API_VERSIONS_3 + NO_TAGS, tags=NO_TAGS)
    assert answer.int16() == UNSUPPORTED_VERSION
    found = {answer.int16(): (answer.int16(), answer.int16()) for _ in range(answer.int32())}
    assert found[API_VERSIONS][0] == 0 and 3 <= found[API_VERSIONS][1] < 5
    assert api_ranges(wire), "the connection is still of use"


@pytest.mark.parametrize("version", [3, 4])
def test_the_header_of_an_api_versions_answer_has_no_tags(wire: Wire, version: int) -> None:
    found = api_ranges_flexible(wire.call(API_VERSIONS, version, API_VERSIONS_3 + NO_TAGS, tags=NO_TAGS))
    assert set(RANGES) <= set(found)


@pytest.mark.parametrize("bad", ["", "-dash first", "sla/sh"])
def test_a_client_of_no_proper_name_is_told_so(wire: Wire, bad: str) -> None:
    answer = wire.call(API_VERSIONS, 3, compact_string(bad) + compact_string("1.0") + NO_TAGS, tags=NO_TAGS)
    assert answer.int16() == INVALID_REQUEST


def test_unknown_tagged_fields_are_skipped(wire: Wire) -> None:
    strange = tagged(t7=b"seven", t1000=b"x" * 300)
    assert api_ranges_flexible(wire.call(API_VERSIONS, 3, API_VERSIONS_3 + strange, tags=strange))
    # Metadata v9: no topics, no creation, no authorised operations; tags in header and body.
    answer = wire.call(METADATA, 9, b"\x01" + b"\x00\x00\x00" + strange, tags=strange)
    answer.tags()
    assert answer.int32() == 0
    assert answer.varint() - 1 >= 1, "at least one broker"


def test_unknown_tagged_fields_within_a_row_are_skipped(leader: Wire, topic: str) -> None:
    strange = tagged(t9=b"nine")
    row = compact_string(topic) + strange
    answer = leader.call(METADATA, 9, b"\x02" + row + b"\x00\x00\x00" + NO_TAGS, tags=NO_TAGS)
    answer.tags()
    assert topic.encode() in answer.raw


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (FETCH, 99), (FETCH, 3), (METADATA, -1), (PRODUCE, 2)])
def test_an_unknown_request_ends_only_its_own_connection(wire: Wire, neighbour: Wire, key: int, version: int) -> None:
    wire.send(key, version, b"\x00" * 40)
    assert wire.is_closed_by_peer()


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 200 << 20, 0, 3])
def test_a_frame_of_impossible_length_ends_only_its_own_connection(wire: Wire, neighbour: Wire, length: int) -> None:
    wire.send_bytes(struct.pack(">i", length) + b"abc")
    assert wire.is_closed_by_peer()


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_request_that_ends_too_early_ends_only_its_own_connection(
    leader: Wire, neighbour: Wire, topic: str, cut: int
) -> None:
    leader.send(FETCH, 4, fetch_body(topic, 0)[:-cut])
    assert leader.is_closed_by_peer()


@pytest.mark.parametrize("seed", range(20))
def test_garbage_ends_only_its_own_connection(wire: Wire, neighbour: Wire, seed: int) -> None:
    noise = random.Random(seed).randbytes(200)
    wire.send_bytes(struct.pack(">i", len(noise)) + noise)
    assert wire.is_closed_by_peer()


def test_a_count_beyond_the_frame_ends_only_its_own_connection(wire: Wire, neighbour: Wire) -> None:
    wire.send(METADATA, 1, struct.pack(">i", 2**31 - 1))
    assert wire.is_closed_by_peer()


def test_half_a_frame_holds_nobody_up(wire: Wire, neighbour: Wire) -> None:
    wire.send_bytes(struct.pack(">i", 1000) + b"half")
    assert api_ranges(neighbour)


def test_a_frame_may_come_in_pieces(wire: Wire) -> None:
    frame = struct.pack(">hhi", API_VERSIONS, 0, 77) + string(None)
    for byte in struct.pack(">i", len(frame)) + frame:
        wire.send_bytes(bytes([byte]))
    correlation_id, answer = wire.receive()
    assert (correlation_id, answer.int16()) == (77, 0)


def test_answers_leave_in_the_order_of_the_requests(leader: Wire, topic: str) -> None:
    waits = leader.send(FETCH, 4, fetch_body(topic, 0, wait_ms=300))
    after = [leader.send(API_VERSIONS, 0, b"") for _ in range(5)]
    assert [leader.receive()[0] for _ in range(6)] == [waits, *after]


def test_a_write_without_acks_is_never_answered(leader: Wire, topic: str) -> None:
    leader.send(PRODUCE, 3, produce_body(topic, bytes(record_batch([b"silent"])), acks=0))
    asked = leader.send(FETCH, 4, fetch_body(topic, 0, wait_ms=5_000))
    answered, answer = leader.receive()
    assert answered == asked and b"silent" in fetched(answer)[0].records


def test_a_refused_write_without_acks_ends_the_connection(leader: Wire, neighbour: Wire, topic: str) -> None:
    """There is no answer to carry the refusal, and a client must not believe that all is well."""
    broken = record_batch([b"x"])
    broken[-1] ^= 0xFF
    leader.send(PRODUCE, 3, produce_body(topic, bytes(broken), acks=0))
    assert leader.is_closed_by_peer()


def test_acks_that_mean_nothing_are_refused(leader: Wire, topic: str) -> None:
    assert produce(leader, topic, bytes(record_batch([b"x"])), acks=5).code == INVALID_ACKS


def test_a_closed_connection_is_told_apart_from_a_silent_one(wire: Wire) -> None:
    """The tests above rest on this one: a broker that merely says nothing fails them."""
    wire.send(999, 0, b"")
    with pytest.raises(Closed):
        wire.receive()
