"""Producers: gaps, repeats, fences, transactions."""

import pytest

from millstream.model.batch import CONTROL, TRANSACTIONAL, BatchHeader
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import ABORT, COMMIT, encode_marker
from millstream.storage.producer_state import BATCHES_REMEMBERED, EndMarker, ProducerStates, end_marker

LAST = 2**31 - 1


def header(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, attributes: int = 0) -> BatchHeader:
    return BatchHeader(0, 49, 0, 2, 0, attributes, count - 1, 0, 1_000, producer_id, epoch, sequence, count)


def take(states: ProducerStates, *headers: BatchHeader) -> None:
    for each in headers:
        assert states.check(each) is None
        states.advance(each, states.end_offset, each.max_timestamp)


def refusal(states: ProducerStates, each: BatchHeader) -> ErrorCode:
    with pytest.raises(ProtocolError) as raised:
        states.check(each)
    return raised.value.code


def test_sequences_follow_one_another() -> None:
    states = ProducerStates()
    take(states, header(0, 3), header(3, 2), header(5))
    assert states.end_offset == 6
    assert refusal(states, header(7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_is_answered_with_the_batch_in_the_log() -> None:
    states = ProducerStates(end_offset=100)
    take(states, header(0, 3), header(3, 2))
    repeated = states.check(header(0, 3))
    assert repeated is not None
    assert (repeated.first_offset, repeated.last_offset, repeated.timestamp) == (100, 102, 1_000)


def test_only_the_same_range_is_a_repeat() -> None:
    states = ProducerStates()
    take(states, header(0, 3), header(3, 3))
    assert refusal(states, header(0, 2)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_five_batches_are_remembered() -> None:
    states = ProducerStates()
    take(states, *(header(sequence) for sequence in range(BATCHES_REMEMBERED + 1)))
    assert states.check(header(1)) is not None
    assert refusal(states, header(0)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero() -> None:
    states = ProducerStates()
    take(states, header(LAST - 1, 2), header(0), header(1))
    repeated = states.check(header(LAST - 1, 2))
    assert repeated is not None
    assert repeated.last_sequence == LAST
    assert refusal(states, header(LAST - 5, 2)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert refusal(states, header(9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_may_span_the_wrap() -> None:
    states = ProducerStates()
    take(states, header(LAST, 3), header(2))
    repeated = states.check(header(LAST, 3))
    assert repeated is not None
    assert repeated.last_sequence == 1


def test_an_unknown_producer_may_start_anywhere() -> None:
    """Its state may have expired, as Kafka allows."""
    states = ProducerStates()
    take(states, header(4_711))
    assert refusal(states, header(4_713)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    states = ProducerStates()
    take(states, header(0, epoch=3))
    assert refusal(states, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_starts_at_zero_and_forgets_the_batches_before() -> None:
    states = ProducerStates()
    take(states, header(0), header(1))
    assert refusal(states, header(2, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    take(states, header(0, epoch=1))
    producer = states.get(7)
    assert producer is not None
    assert len(producer.batches) == 1


def test_silent_producers_expire() -> None:
    states = ProducerStates()
    take(states, header(0), header(0, producer_id=8, attributes=TRANSACTIONAL))
    states.expire(1_000 + 99, 100)
    assert len(states) == 2
    states.expire(1_000 + 100, 100)
    assert states.get(7) is None
    assert states.get(8) is not None, "a transaction is open"


def test_batches_of_one_request_are_checked_each_after_the_one_before() -> None:
    states = ProducerStates()
    take(states, header(0))
    draft = states.draft()
    take(draft, header(1), header(2))
    producer = states.get(7)
    assert producer is not None
    assert producer.last_sequence == 0


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    states = ProducerStates()
    take(states, header(0, 2, attributes=TRANSACTIONAL), header(2, 1, attributes=TRANSACTIONAL))
    assert states.first_unstable_offset(high_watermark=100) == 0
    marker = header(-1, attributes=TRANSACTIONAL | CONTROL)
    ended = states.complete(marker, EndMarker(is_commit=False, coordinator_epoch=5), 3)
    assert ended is not None
    assert (ended.first_offset, ended.last_offset, ended.is_aborted) == (0, 3, True)
    assert states.first_unstable_offset(high_watermark=3) == 0, "the marker is not replicated yet"
    assert states.first_unstable_offset(high_watermark=4) is None
    assert states.complete(marker, EndMarker(True, 5), 4) is None, "there was nothing to end"


def test_plain_batches_are_refused_inside_a_transaction() -> None:
    states = ProducerStates()
    take(states, header(0, attributes=TRANSACTIONAL))
    assert refusal(states, header(1)) is ErrorCode.INVALID_TXN_STATE


def test_sequences_go_on_after_a_marker() -> None:
    states = ProducerStates()
    take(states, header(0, attributes=TRANSACTIONAL))
    states.complete(header(-1), EndMarker(True, 1), 1)
    take(states, header(1, attributes=TRANSACTIONAL))
    assert states.first_unstable_offset(0) == 0


def test_a_marker_of_a_replaced_coordinator_is_fenced() -> None:
    states = ProducerStates()
    states.complete(header(-1, epoch=2), EndMarker(True, 5), 0)
    states.check_marker(header(-1, epoch=2), EndMarker(True, 5))
    with pytest.raises(ProtocolError) as raised:
        states.check_marker(header(-1, epoch=2), EndMarker(True, 4))
    assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(ProtocolError) as raised:
        states.check_marker(header(-1, epoch=1), EndMarker(True, 5))
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(("kind", "is_commit"), [(COMMIT, True), (ABORT, False)])
def test_markers_are_read_from_control_batches(kind: int, is_commit: bool) -> None:
    marker = encode_marker(kind, producer_id=7, producer_epoch=1, timestamp=5, coordinator_epoch=9)
    assert end_marker(marker, 0) == EndMarker(is_commit, 9)
