"""A partition as a follower has it: what it takes over, what it cuts, and what it knows when it leads."""

import errno
from typing import Any

import pytest

from millstream.model.batch import header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import ABORT, COMMIT, encode_marker
from millstream.replication.partition import ALL_IN_SYNC
from millstream.storage.checkpoint import decode_epochs
from millstream.storage.log import Log
from tests.unit.replication.replica import Replica
from tests.unit.storage.ground import NOW_MS, SetClock, batch, idempotent

PRODUCER = 7


def pair(**settings: Any) -> tuple[Replica, Replica]:
    """A leader and its follower."""
    leader, follower = Replica(1, **settings), Replica(2, **settings)
    for each in (leader, follower):
        each.told(1, epoch=0, isr=(1, 2), replicas=(1, 2))
    return leader, follower


def begin(leader: Replica, sequence: int = 0, *, epoch: int = 0, producer_id: int = PRODUCER) -> int:
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, "transactional": True}
    return leader.write(batch(**fields)).first_offset  # type: ignore[arg-type]


def end(leader: Replica, *, is_commit: bool, producer_id: int = PRODUCER) -> int:
    marker = encode_marker(
        COMMIT if is_commit else ABORT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=NOW_MS,
    )
    log = leader.log
    return log.append(memoryview(marker), [(0, header_at(marker))], 0, NOW_MS, is_client=False).first_offset


# What is taken over.


def test_a_follower_holds_the_leaders_bytes_and_epochs() -> None:
    leader, follower = pair()
    leader.write(batch(3))
    leader.told(1, epoch=4, isr=(1, 2), replicas=(1, 2))
    follower.told(1, epoch=4, isr=(1, 2), replicas=(1, 2))
    leader.write(batch(2))
    follower.copy_from(leader)
    assert follower.bytes_from(0) == leader.bytes_from(0)
    assert follower.log.epochs.entries == leader.log.epochs.entries == [(0, 0), (4, 3)]


def test_a_followers_watermark_is_the_leaders_as_far_as_it_has_records() -> None:
    leader, follower = pair()
    leader.write(batch(5))
    follower.copy_from(leader)
    assert (leader.partition.high_watermark, follower.partition.high_watermark) == (5, 5)
    follower.partition.heed(9, 0)
    assert follower.partition.high_watermark == 5
    follower.partition.heed(3, 0)
    assert follower.partition.high_watermark == 5, "it never goes back"


def test_a_follower_starts_where_its_leader_does_but_never_past_its_own_end() -> None:
    leader, follower = pair()
    leader.write(batch(5))
    follower.copy_from(leader)
    follower.partition.heed(5, 3)
    assert follower.log.start_offset == 3
    follower.partition.heed(9, 8)
    assert follower.log.start_offset == 5


def test_a_batch_cut_short_is_left_for_the_next_fetch_and_a_damaged_one_is_refused() -> None:
    leader, follower = pair()
    leader.write(batch(1, value=b"one"))
    leader.write(batch(1, value=b"two"))
    sent = leader.bytes_from(0)
    follower.partition.append_from_leader(memoryview(sent[:-1]))
    assert follower.values == [b"one"]
    damaged = bytearray(leader.bytes_from(1))
    damaged[-1] ^= 1
    with pytest.raises(ProtocolError, match="CORRUPT_MESSAGE"):
        follower.partition.append_from_leader(memoryview(damaged))
    with pytest.raises(ProtocolError, match="CORRUPT_MESSAGE"):
        follower.partition.append_from_leader(memoryview(sent))  # It would be there twice.
    assert follower.values == [b"one"]


def test_a_repeat_sent_to_the_new_leader_is_known_there() -> None:
    leader, follower = pair()
    first = [leader.write(idempotent(at)).first_offset for at in range(3)]
    follower.copy_from(leader)
    follower.told(2, epoch=1, isr=(2,), replicas=(1, 2))
    again = follower.write(idempotent(1))
    assert (again.is_duplicate, again.first_offset) == (True, first[1])
    with pytest.raises(ProtocolError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        follower.write(idempotent(7))


def test_a_gap_that_the_leader_took_is_taken_by_its_followers_too() -> None:
    """Only the leader refuses: what is in its log is the log."""
    leader, follower = pair()
    leader.write(idempotent(0))
    leader.log.producers.clear(1)  # As retention does with a producer that fell silent.
    leader.write(idempotent(40))
    follower.copy_from(leader)
    assert follower.bytes_from(0) == leader.bytes_from(0)
    producer = follower.log.producers.get(PRODUCER)
    assert producer is not None
    assert producer.last_sequence == 40


# Transactions.


def test_a_new_leader_knows_which_transactions_were_aborted_and_which_are_open() -> None:
    leader, follower = pair()
    begin(leader)
    end(leader, is_commit=False)
    begin(leader, producer_id=8)
    follower.copy_from(leader)
    follower.told(2, epoch=1, isr=(2,), replicas=(1, 2))
    assert follower.partition.high_watermark == 3
    assert follower.partition.last_stable_offset == 2
    piece = follower.log.read(0, 1 << 20, 2)
    assert piece is not None
    aborted = follower.log.aborted_within(piece, 0, 2)
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in aborted] == [(PRODUCER, 0, 1)]


def test_a_followers_stable_offset_waits_for_the_watermark_to_pass_the_marker() -> None:
    leader, follower = pair()
    begin(leader)
    follower.copy_from(leader)
    end(leader, is_commit=True)
    follower.partition.append_from_leader(memoryview(leader.bytes_from(1)))
    assert (follower.partition.high_watermark, follower.partition.last_stable_offset) == (1, 0)
    follower.partition.heed(2, 0)
    assert follower.partition.last_stable_offset == 2
    assert follower.log.producers.first_unstable_offset(0) is None, "what has ended is forgotten"


@pytest.mark.parametrize("is_flushed", [False, True])
def test_after_a_restart_a_marker_above_the_watermark_still_holds_back_readers(is_flushed: bool) -> None:
    leader, follower = pair()
    begin(leader)
    follower.copy_from(leader)
    end(leader, is_commit=True)
    begin(leader, 1)
    end(leader, is_commit=False)
    follower.partition.append_from_leader(memoryview(leader.bytes_from(1)))
    if is_flushed:
        follower.log.flush()  # A snapshot, which tells nothing of transactions that have ended.
    follower.files.kill()
    follower.start(high_watermark=1)
    follower.told(1, epoch=0, isr=(1, 2), replicas=(1, 2))
    assert (follower.partition.high_watermark, follower.partition.last_stable_offset) == (1, 0)
    follower.partition.heed(3, 0)
    assert follower.partition.last_stable_offset == 2
    follower.partition.heed(4, 0)
    assert follower.partition.last_stable_offset == 4


def test_a_cut_opens_a_transaction_again_whose_end_was_cut() -> None:
    leader, follower = pair()
    begin(leader)
    leader.write(batch(1))
    end(leader, is_commit=False)
    follower.copy_from(leader)
    assert follower.partition.last_stable_offset == 3
    follower.partition.truncate_to(2)
    assert (follower.partition.high_watermark, follower.partition.last_stable_offset) == (2, 0)
    piece = follower.log.read(0, 1 << 20, 2)
    assert piece is not None
    assert follower.log.aborted_within(piece, 0, 2) == []
    follower.copy_from(leader)
    assert follower.partition.last_stable_offset == 3


def test_a_cut_above_the_watermark_keeps_what_ended_between() -> None:
    leader, follower = pair()
    begin(leader)
    follower.copy_from(leader)
    end(leader, is_commit=True)
    leader.write(batch(2))
    follower.partition.append_from_leader(memoryview(leader.bytes_from(1)))
    follower.log.flush()
    follower.partition.truncate_to(2)
    assert (follower.partition.high_watermark, follower.partition.last_stable_offset) == (1, 0)


# Cutting.


def test_a_cut_takes_epochs_producers_and_the_watermark_back() -> None:
    leader, follower = pair()
    leader.write(idempotent(0))
    leader.write(idempotent(1))
    leader.told(1, epoch=3, isr=(1, 2), replicas=(1, 2))
    leader.write(idempotent(2))
    follower.copy_from(leader)
    cuts: list[tuple[Log, int]] = []
    follower.log.directory.on_cut = lambda log: cuts.append((log, log.end_offset))
    follower.partition.truncate_to(2)
    assert follower.log.epochs.entries == [(0, 0)]
    assert follower.partition.high_watermark == 2
    producer = follower.log.producers.get(PRODUCER)
    assert producer is not None
    assert producer.last_sequence == 1
    assert cuts == [(follower.log, 2)]


def test_what_was_given_to_a_reader_before_a_cut_can_still_be_read() -> None:
    leader, follower = pair(segment_bytes=300)
    for at in range(10):
        leader.write(batch(1, value=b"%d" % at * 40))
    follower.copy_from(leader)
    piece = follower.log.read(8, 1 << 20, 10)
    assert piece is not None
    before = piece.read()
    follower.partition.truncate_to(3)
    assert follower.values == [b"%d" % at * 40 for at in range(3)]
    assert piece.read() == before, "its segment is gone from the log, but not yet from the disk"
    follower.copy_from(leader)
    assert follower.bytes_from(0) == leader.bytes_from(0)


def test_a_log_begun_anew_holds_nothing_of_before() -> None:
    leader, follower = pair()
    leader.write(idempotent(0))
    follower.copy_from(leader)
    follower.partition.restart_at(20)
    log = follower.log
    assert (log.start_offset, log.end_offset, follower.partition.high_watermark) == (20, 20, 20)
    assert (log.epochs.entries, len(log.producers)) == ([], 0)


# Becoming leader and follower.


def test_a_new_leader_writes_its_epoch_down_before_it_serves() -> None:
    leader, follower = pair()
    leader.write(batch(3))
    follower.copy_from(leader)
    follower.told(2, epoch=6, isr=(2,), replicas=(1, 2))
    written = follower.files.read(follower.log.epochs.path)
    assert list(decode_epochs(written)) == [(0, 0), (6, 3)]


def test_an_epoch_in_which_nothing_was_written_is_forgotten_by_one_that_follows() -> None:
    """Or it would ask its leader about an epoch of which the leader cannot know."""
    leader, follower = pair()
    leader.write(batch(3))
    follower.copy_from(leader)
    follower.told(2, epoch=6, isr=(2,), replicas=(1, 2))
    follower.told(1, epoch=7, isr=(1,), replicas=(1, 2))
    assert follower.log.epochs.latest == 0


def test_the_watermark_at_a_start_is_what_was_written_down_and_never_past_the_end() -> None:
    leader, follower = pair()
    leader.write(batch(3))
    follower.copy_from(leader)
    for mark, watermark in ((2, 2), (9, 3)):
        follower.files.kill()
        follower.start(mark)
        follower.told(1, epoch=0, isr=(1, 2), replicas=(1, 2))
        assert follower.partition.high_watermark == watermark


def test_who_waited_for_a_leader_that_was_deposed_is_told_so_whatever_came_since() -> None:
    leader, follower = pair()
    outcome = leader.write(batch(1, value=b"mine"), acks=ALL_IN_SYNC)
    term = leader.partition.role.term
    assert not leader.partition.is_settled(outcome.last_offset + 1, term)
    follower.told(2, epoch=1, isr=(2,), replicas=(1, 2))
    follower.write(batch(4, value=b"theirs"))
    leader.told(2, epoch=1, isr=(2,), replicas=(1, 2))
    leader.partition.truncate_to(0)
    leader.copy_from(follower)
    leader.told(1, epoch=2, isr=(1,), partition_epoch=2, replicas=(1, 2))
    assert leader.partition.high_watermark == 4
    assert leader.partition.is_settled(outcome.last_offset + 1, term)
    assert leader.partition.outcome_of(outcome.last_offset + 1, term) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_one_acknowledged_while_too_few_were_left_is_told_so() -> None:
    clock = SetClock()
    leader = Replica(1, clock, min_insync_replicas=2)
    leader.told(1, epoch=0)
    outcome = leader.write(batch(1), acks=ALL_IN_SYNC)
    for replica in (2, 3):
        leader.partition.fetched_by(replica, 1)
    assert leader.partition.outcome_of(outcome.last_offset + 1, 0) is ErrorCode.NONE
    leader.told(1, epoch=0, isr=(1,), partition_epoch=1)
    assert leader.partition.outcome_of(outcome.last_offset + 1, 0) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    with pytest.raises(ProtocolError, match="NOT_ENOUGH_REPLICAS"):
        leader.write(batch(1), acks=ALL_IN_SYNC)


def test_a_broker_in_an_earlier_life_or_no_replica_at_all_is_not_counted() -> None:
    leader, _ = pair()
    leader.write(batch(1))
    leader.partition.fetched_by(2, 0, broker_epoch=12)
    with pytest.raises(ProtocolError, match="NOT_LEADER_OR_FOLLOWER"):
        leader.partition.fetched_by(2, 1, broker_epoch=11)
    with pytest.raises(ProtocolError, match="UNKNOWN_LEADER_EPOCH"):
        leader.partition.fetched_by(3, 1)
    assert leader.partition.high_watermark == 0


def test_whoever_waits_for_replicas_hears_that_the_leaders_disk_has_failed() -> None:
    leader, _ = pair()
    term, end_offset = leader.partition.role.term, leader.write(acks=ALL_IN_SYNC).last_offset + 1
    assert not leader.partition.is_settled(end_offset, term)
    leader.log.directory.fail(OSError(errno.EIO, "it is gone"))
    leader.partition.retire()
    assert leader.partition.is_settled(end_offset, term)
    assert leader.partition.outcome_of(end_offset, term) is ErrorCode.KAFKA_STORAGE_ERROR
    for log in (leader.partition.leader_log, leader.partition.replica_log):
        with pytest.raises(ProtocolError, match="KAFKA_STORAGE_ERROR"):
            log()
