"""The log behind the machine: what it says, what is forgotten, what cannot be read."""

from millstream.coordination.decision import Origin
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.schemas.transaction_state import TransactionLogKey, TransactionLogValue, decode_record
from millstream.coordination.transactions.machine import EXPIRE_MORE_AFTER_MS, EXPIRED_AT_ONCE
from millstream.coordination.transactions.states import TRANSITIONS, State
from millstream.coordination.transactions.transaction import recorded
from millstream.model.errors import ErrorCode
from tests.unit.coordination.transactions.desk import Desk

DAY_MS = 24 * 3_600_000


def test_what_the_log_says_is_all_there_is() -> None:
    desk = Desk()
    desk.add("ongoing", desk.made("ongoing"), "a-0", "b-1")
    producer = desk.made("ended")
    desk.add("ended", producer, "a-0")
    desk.end("ended", producer, True)
    desk.add("kept", desk.made("kept", enable_2pc=True), "a-0")
    desk.made("kept", enable_2pc=True, keep_prepared_txn=True)
    before = dict(desk.machine.transactions)
    desk.restart()
    assert desk.machine.transactions == before


def test_each_step_is_a_record_of_its_own() -> None:
    desk = Desk()
    producer = desk.made("t")
    desk.add("t", producer, "a-0")
    desk.end("t", producer, True)
    values = [decode_record(*each).value for each in desk.log]
    assert [value.transaction_status for value in values if value] == [
        State.EMPTY,
        State.ONGOING,
        State.PREPARE_COMMIT,
        State.COMPLETE_COMMIT,
    ]
    first = values[0]
    assert first is not None
    assert first.transaction_partitions is None
    assert first.transaction_start_timestamp_ms == -1


def test_ids_that_nobody_uses_are_forgotten() -> None:
    desk = Desk()
    desk.restart()
    for transactional_id in ("idle", "ended", "ongoing"):
        producer = desk.made(transactional_id, enable_2pc=True)
        if transactional_id != "idle":
            desk.add(transactional_id, producer, "a-0")
        if transactional_id == "ended":
            desk.end(transactional_id, producer, True)
    desk.pass_time(7 * DAY_MS - 1)
    assert len(desk.machine.transactions) == 3
    desk.pass_time(3_600_000)
    assert set(desk.machine.transactions) == {"ongoing"}
    assert [key for key, value in desk.log if value is None] == [key for key, _ in desk.log[:2]]
    desk.restart()
    assert set(desk.machine.transactions) == {"ongoing"}
    assert desk.init("idle") == (1003, 0)


def test_many_ids_are_forgotten_a_share_at_a_time() -> None:
    desk = Desk(transactional_id_expiration_ms=1_000, transaction_remove_expired_transaction_cleanup_interval_ms=5_000)
    desk.restart()
    for number in range(EXPIRED_AT_ONCE + 1):
        desk.made(f"t{number}")
    desk.pass_time(5_000)
    assert len(desk.machine.transactions) == 1
    desk.pass_time(EXPIRE_MORE_AFTER_MS)
    assert desk.machine.transactions == {}


def test_a_record_in_a_state_nobody_knows_is_reported_and_skipped() -> None:
    desk = Desk()
    desk.made("t")
    value = TransactionLogValue(transaction_status=99)
    desk.machine.replay(CoordinatorRecord(TransactionLogKey("t"), value), Origin(7, 0))
    assert desk["t"].state is State.EMPTY
    assert len(desk.reports) == 1


def test_a_next_id_that_kafka_wrote_starts_at_epoch_0() -> None:
    value = TransactionLogValue(
        producer_id=5, producer_epoch=32767, next_producer_id=6, transaction_status=State.PREPARE_COMMIT
    )
    assert recorded("t", value).client == (6, 0)


def test_every_state_has_its_row_and_the_dead_stay_dead() -> None:
    assert set(TRANSITIONS) == set(State)
    assert not TRANSITIONS[State.DEAD]


def test_a_refusal_writes_nothing() -> None:
    desk = Desk()
    assert desk.init("t", timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert desk.log == []
