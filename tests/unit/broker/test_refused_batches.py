"""What is remembered of refused batches."""

from millstream.broker.refused_batches import REMEMBERED_S, RefusedBatches
from millstream.model.batch import SEQUENCE_MASK, BatchHeader, header_at
from millstream.model.errors import ErrorCode
from tests.unit.storage.ground import idempotent

PLACE = ("topic", 1)
WHY = ErrorCode.NOT_LEADER_OR_FOLLOWER


def header(sequence: int, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return header_at(idempotent(sequence, producer_id=producer_id, epoch=epoch))


def refused(sequence: int) -> RefusedBatches:
    batches = RefusedBatches()
    batches.note(PLACE, header(sequence), WHY, 0.0)
    return batches


def test_what_was_sent_behind_a_refused_batch_is_refused_alike() -> None:
    batches = refused(5)
    batches.note(PLACE, header(6), ErrorCode.NOT_ENOUGH_REPLICAS, 0.1)  # The first remains the first.
    assert batches.code_for(PLACE, header(6), 1.0) is WHY
    assert batches.code_for(PLACE, header(900), 1.0) is WHY
    assert refused(SEQUENCE_MASK).code_for(PLACE, header(0), 1.0) is WHY


def test_the_batch_itself_and_those_before_it_are_judged_by_the_log() -> None:
    batches = refused(5)
    assert batches.code_for(PLACE, header(5), 1.0) is None
    assert batches.code_for(PLACE, header(4), 1.0) is None


def test_other_partitions_producers_and_epochs_are_not_concerned() -> None:
    batches = refused(5)
    assert batches.code_for(("topic", 2), header(6), 1.0) is None
    assert batches.code_for(PLACE, header(6, producer_id=8), 1.0) is None
    assert batches.code_for(PLACE, header(6, epoch=1), 1.0) is None


def test_a_refusal_is_forgotten_once_a_batch_is_taken_and_in_time() -> None:
    batches = refused(5)
    assert batches.code_for(PLACE, header(6), REMEMBERED_S) is None
    batches.taken(PLACE, header(5))
    assert not batches


def test_producers_without_an_id_are_not_remembered() -> None:
    batches = RefusedBatches()
    batches.note(PLACE, header(-1, producer_id=-1), WHY, 0.0)
    assert not batches
