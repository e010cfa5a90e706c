"""Adding partitions to transactions, and asking whether they are in one."""

import pytest

from millstream.coordination.transactions.states import State
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from tests.unit.coordination.transactions.desk import TV1, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_the_first_partition_begins_a_transaction(desk: Desk) -> None:
    producer = desk.made("t")
    desk.pass_time(10)
    assert desk.add("t", producer, "a-0", "b-3") is ErrorCode.NONE
    transaction = desk["t"]
    assert transaction.state is State.ONGOING
    assert transaction.start_ms == desk.now_ms
    assert transaction.partitions == {TopicPartition("a", 0), TopicPartition("b", 3)}


def test_more_partitions_leave_its_beginning_where_it_was(desk: Desk) -> None:
    producer = desk.made("t")
    desk.add("t", producer, "a-0")
    start_ms = desk.now_ms
    desk.pass_time(10)
    desk.add("t", producer, "a-1")
    assert desk["t"].start_ms == start_ms
    assert len(desk["t"].partitions) == 2


def test_partitions_that_are_in_it_already_cost_no_record(desk: Desk) -> None:
    producer = desk.made("t")
    desk.add("t", producer, "a-0", "a-1")
    before = len(desk.log)
    assert desk.add("t", producer, "a-1") is ErrorCode.NONE
    assert len(desk.log) == before


def test_the_same_partitions_begin_the_next_transaction_anew(desk: Desk) -> None:
    producer = desk.made("t")
    desk.add("t", producer, "a-0")
    desk.end("t", producer, True, TV1)
    assert desk.add("t", producer, "a-0") is ErrorCode.NONE
    assert desk["t"].state is State.ONGOING


def test_only_the_producer_in_force_adds_and_asks(desk: Desk) -> None:
    desk.made("t")
    for ask in (desk.add, desk.verify):
        assert ask("", (1000, 0), "a-0") is ErrorCode.INVALID_REQUEST
        assert ask("unknown", (1000, 0), "a-0") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert ask("t", (7, 0), "a-0") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert ask("t", (1000, 1), "a-0") is ErrorCode.PRODUCER_FENCED


def test_nothing_is_added_while_the_transaction_before_ends(desk: Desk) -> None:
    producer = desk.made("t")
    desk.add("t", producer, "a-0")
    desk.holds_markers = True
    following = desk.end("t", producer, True)
    assert isinstance(following, tuple)
    assert desk.add("t", following, "a-0") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.verify("t", following, "a-0") is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.release()
    assert desk.add("t", following, "a-0") is ErrorCode.NONE


def test_nothing_is_added_under_a_new_id_while_the_transaction_before_ends(desk: Desk) -> None:
    """Kafka does not know the producer by the id it just gave it, which ends the producer for good."""
    desk.made("t")
    desk.machine.transactions["t"] = desk["t"]._replace(producer_epoch=32766)
    desk.add("t", (1000, 32766), "a-0")
    desk.holds_markers = True
    assert desk.end("t", (1000, 32766), True) == (1001, 0)
    assert desk.add("t", (1001, 0), "a-0") is ErrorCode.CONCURRENT_TRANSACTIONS


def test_asking_tells_of_each_partition(desk: Desk) -> None:
    producer = desk.made("t")
    assert desk.verify("t", producer, "a-0") == {TopicPartition("a", 0): ErrorCode.TRANSACTION_ABORTABLE}
    desk.add("t", producer, "a-0")
    assert desk.verify("t", producer, "a-0", "a-1") == {
        TopicPartition("a", 0): ErrorCode.NONE,
        TopicPartition("a", 1): ErrorCode.TRANSACTION_ABORTABLE,
    }


def test_a_late_write_of_an_ended_transaction_begins_no_other(desk: Desk) -> None:
    producer = desk.made("t")
    desk.write("t", producer, "a-0", "in time")
    desk.end("t", producer, False)
    assert desk.write("t", producer, "a-0", "late") is ErrorCode.PRODUCER_FENCED
    assert desk.verify("t", producer, "a-0") is ErrorCode.PRODUCER_FENCED
