"""InitProducerId for transactional ids."""

import pytest

from millstream.coordination.transactions.states import State
from millstream.coordination.transactions.transaction import NO_TIMEOUT_MS
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.coordination.transactions.desk import TV1, Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def aged(desk: Desk, transactional_id: str, epoch: int) -> tuple[int, int]:
    """Give the producer of an idle id this epoch."""
    transaction = desk[transactional_id]._replace(producer_epoch=epoch)
    desk.machine.transactions[transactional_id] = transaction
    return transaction.client


def test_a_new_id_starts_at_epoch_0(desk: Desk) -> None:
    assert desk.init("t") == (1000, 0)
    assert desk.state("t") is State.EMPTY
    assert desk["t"].timeout_ms == 60_000


def test_a_new_id_is_given_even_to_a_producer_that_claims_another(desk: Desk) -> None:
    assert desk.init("t", (7, 3)) == (1000, 0)


def test_each_initialisation_raises_the_epoch_and_fences_the_one_before(desk: Desk) -> None:
    zombie, producer = desk.made("t"), desk.made("t")
    assert producer == (1000, 1)
    assert desk.add("t", zombie, "a-0") is ErrorCode.PRODUCER_FENCED
    assert desk.end("t", zombie, True) is ErrorCode.PRODUCER_FENCED
    assert desk.init("t", zombie) is ErrorCode.PRODUCER_FENCED
    assert desk.add("t", producer, "a-0") is ErrorCode.NONE


def test_a_producer_that_comes_back_with_its_epoch_gets_the_next(desk: Desk) -> None:
    producer = desk.made("t")
    assert desk.init("t", producer) == (1000, 1)


def test_coming_back_again_with_the_epoch_before_is_the_same_request_sent_again(desk: Desk) -> None:
    producer = desk.made("t")
    again = desk.made("t", producer=producer)
    assert desk.init("t", producer) == again
    assert desk.init("t", again) == (1000, 2)
    assert desk.init("t", producer) is ErrorCode.PRODUCER_FENCED


def test_nobody_comes_back_past_a_new_producer(desk: Desk) -> None:
    zombie = desk.made("t")
    desk.made("t", producer=zombie)
    desk.made("t")
    assert desk.init("t", zombie) is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_claims_a_foreign_id_is_fenced(desk: Desk) -> None:
    desk.made("t")
    assert desk.init("t", (7, 0)) is ErrorCode.PRODUCER_FENCED


def test_after_the_last_epoch_comes_a_new_id(desk: Desk) -> None:
    desk.made("t")
    last = aged(desk, "t", 32766)
    assert desk.init("t") == (1001, 0)
    assert desk.init("t", last) is ErrorCode.PRODUCER_FENCED


def test_a_producer_at_its_last_epoch_may_ask_for_its_new_id_twice(desk: Desk) -> None:
    desk.made("t")
    last = aged(desk, "t", 32766)
    assert desk.init("t", last) == (1001, 0)
    assert desk.init("t", last) == (1001, 0)


def test_an_ongoing_transaction_is_aborted_before_anybody_is_initialised(desk: Desk) -> None:
    zombie = desk.made("t")
    desk.write("t", zombie, "a-0", "late")
    desk.holds_markers = True
    assert desk.init("t") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.state("t") is State.PREPARE_ABORT
    assert desk.init("t") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.write("t", zombie, "a-0", "later") is ErrorCode.PRODUCER_FENCED
    desk.release()
    assert desk.state("t") is State.COMPLETE_ABORT
    assert desk.init("t") == (1000, 2)


def test_aborting_at_the_last_epoch_marks_with_the_one_above_and_goes_on_with_a_new_id(desk: Desk) -> None:
    desk.made("t")
    producer = aged(desk, "t", 32766)
    desk.write("t", producer, "a-0", "late")
    desk.holds_markers = True
    assert desk.init("t") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.held[0][1:4] == (1000, 32767, False)
    desk.release()
    assert desk.init("t") == (1001, 1)


def test_a_fenced_producer_cannot_have_its_successors_transaction_aborted(desk: Desk) -> None:
    """Kafka looks at the id alone here, and lets a zombie abort what it may not write to."""
    zombie, producer = desk.made("t"), desk.made("t")
    desk.write("t", producer, "a-0", "mine")
    assert desk.init("t", zombie) is ErrorCode.PRODUCER_FENCED
    assert desk.state("t") is State.ONGOING


def test_while_a_transaction_ends_a_foreign_id_is_fenced_and_its_own_told_to_wait(desk: Desk) -> None:
    producer = desk.made("t")
    desk.write("t", producer, "a-0", "mine")
    desk.holds_markers = True
    desk.end("t", producer, True)
    assert desk.init("t", (7, 0)) is ErrorCode.PRODUCER_FENCED
    assert desk.init("t", producer) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_after_a_timeout_the_producer_comes_back_with_the_epoch_it_knows(desk: Desk) -> None:
    producer = desk.made("t", timeout_ms=100)
    desk.write("t", producer, "a-0", "slow")
    desk.pass_time(100)
    assert desk.end("t", producer, True, TV1) is ErrorCode.PRODUCER_FENCED
    assert desk.init("t", producer) == (1000, 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(desk: Desk, timeout_ms: int) -> None:
    assert desk.init("t", timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize(("transactional_id", "producer"), [("", (-1, -1)), ("t", (5, -1)), ("t", (-1, 5))])
def test_a_request_that_makes_no_sense_is_refused(desk: Desk, transactional_id: str, producer: tuple[int, int]) -> None:
    assert desk.init(transactional_id, producer) is ErrorCode.INVALID_REQUEST


# Two-phase commit (KIP-939).


def prepared(desk: Desk) -> tuple[int, int]:
    """A producer with a transaction that waits for an outside coordinator."""
    producer = desk.made("t", enable_2pc=True)
    desk.write("t", producer, "a-0", "prepared")
    return producer


def test_two_phase_commit_needs_the_setting() -> None:
    desk = Desk(transaction_two_phase_commit_enable=False)
    assert desk.init("t", enable_2pc=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_two_phase_transaction_has_no_timeout_whatever_is_asked_for(desk: Desk) -> None:
    producer = desk.made("t", enable_2pc=True, timeout_ms=2**31 - 1)
    desk.write("t", producer, "a-0", "prepared")
    assert desk["t"].timeout_ms == NO_TIMEOUT_MS
    desk.pass_time(30 * 24 * 3_600_000)
    assert desk.state("t") is State.ONGOING


def test_a_prepared_transaction_survives_a_new_producer_that_asks_for_it(desk: Desk) -> None:
    producer = prepared(desk)
    answer = desk.ask(
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1, enable_2pc=True, keep_prepared_txn=True),
        6,
    )
    assert (answer.producer_id, answer.producer_epoch) == (1000, 1)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == producer
    assert desk.state("t") is State.ONGOING


def test_a_kept_transaction_is_ended_by_its_new_producer_alone(desk: Desk) -> None:
    producer = prepared(desk)
    heir = desk.made("t", enable_2pc=True, keep_prepared_txn=True)
    assert desk.end("t", producer, False) is ErrorCode.PRODUCER_FENCED
    desk.holds_markers = True
    assert desk.end("t", heir, True) == (1000, 2)
    assert desk.held[0][1:4] == (1000, 1, True)  # Its partitions know epoch 0.
    desk.release()
    assert desk.end("t", heir, True) == (1000, 2)
    assert desk.write("t", (1000, 2), "a-0", "next") is ErrorCode.NONE


def test_a_kept_transaction_takes_no_more_partitions(desk: Desk) -> None:
    prepared(desk)
    heir = desk.made("t", enable_2pc=True, keep_prepared_txn=True)
    assert desk.add("t", heir, "a-1") is ErrorCode.INVALID_TXN_STATE
    assert desk.verify("t", heir, "a-0") is ErrorCode.INVALID_TXN_STATE


def test_a_kept_transaction_may_be_kept_until_epochs_run_out_and_beyond(desk: Desk) -> None:
    prepared(desk)
    desk.machine.transactions["t"] = desk["t"]._replace(next_producer_id=1000, next_producer_epoch=32766)
    heir = desk.made("t", enable_2pc=True, keep_prepared_txn=True)
    assert heir == (1001, 0)
    desk.restart()
    assert desk.end("t", heir, True) == (1001, 1)
    assert desk.end("t", heir, True) == (1001, 1)
    assert desk.replicas.popitem()[1].outcomes == [("prepared", True)]


def test_a_kept_transaction_committed_at_the_last_epoch_is_recognised_when_asked_again(desk: Desk) -> None:
    """Three ids at once: the partitions', the one it was committed under, and the next."""
    prepared(desk)
    desk.machine.transactions["t"] = desk["t"]._replace(next_producer_id=2000, next_producer_epoch=32766)
    desk.holds_markers = True
    assert desk.end("t", (2000, 32766), True) == (1001, 0)
    assert desk.held[0][1:4] == (1000, 1, True)
    desk.release()
    assert desk.end("t", (2000, 32766), True) == (1001, 0)


def test_a_new_producer_that_does_not_ask_for_it_has_a_prepared_transaction_aborted(desk: Desk) -> None:
    prepared(desk)
    heir = desk.made("t", enable_2pc=True, keep_prepared_txn=True)
    assert desk.init("t") is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.end("t", heir, True) is ErrorCode.INVALID_TXN_STATE
    assert desk.init("t") == (1000, 3)
    assert desk.replicas.popitem()[1].outcomes == [("prepared", False)]


def test_keeping_where_nothing_is_prepared_is_an_ordinary_initialisation(desk: Desk) -> None:
    desk.made("t")
    answer = desk.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1, keep_prepared_txn=True), 6)
    assert (answer.producer_id, answer.producer_epoch) == (1000, 1)
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


def test_a_kept_transaction_never_gets_less_time_than_it_had(desk: Desk) -> None:
    producer = desk.made("t", timeout_ms=1_000)
    desk.write("t", producer, "a-0", "mine")
    desk.made("t", timeout_ms=10, keep_prepared_txn=True)
    assert desk["t"].timeout_ms == 1_000
    desk.made("t", timeout_ms=5_000, keep_prepared_txn=True)
    desk.pass_time(4_999)
    assert desk.state("t") is State.ONGOING
    desk.pass_time(1)
    assert desk.state("t") is State.COMPLETE_ABORT
