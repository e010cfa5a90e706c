"""Transactions as a partition sees them: what begins, what ends, and how far committed readers may look."""

import asyncio
import random

import pytest

from millstream.metrics.metric import Metrics
from millstream.metrics.table import METRICS
from millstream.metrics.traffic import TopicTraffic
from millstream.model.batch import header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.replication.partition import ALL_IN_SYNC, Partition
from millstream.replication.producer_rows import ProducerRow, producer_rows
from millstream.replication.purgatory import Purgatory
from millstream.replication.role import Leadership
from millstream.storage.log import AppendOutcome
from millstream.storage.verification import UNVERIFIED, Verification
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import NOW_MS, TOPIC_ID, TP, SetClock, batch, new_log

PRODUCER = 7


def leading(*, isr: tuple[int, ...] = (1,), min_insync: int = 1) -> Partition:
    log = new_log(MemoryFiles(random.Random(0), SetClock()), "/data", min_insync_replicas=min_insync)
    traffic = TopicTraffic(Metrics(METRICS), TP.topic)
    partition = Partition(TP, TOPIC_ID, 1, log, Purgatory(), 0, traffic)
    partition.follow(Leadership(leader=1, leader_epoch=0, isr=isr, replicas=(1, 2, 3)[: max(len(isr), min_insync)]))
    return partition


@pytest.fixture
def partition() -> Partition:
    return leading()


def data(sequence: int = 0, *, epoch: int = 0, producer_id: int = PRODUCER, transactional: bool = True) -> memoryview:
    return memoryview(
        batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional)
    )


def append(partition: Partition, records: memoryview, guard: Verification | None = None) -> AppendOutcome:
    assert partition.log is not None
    return partition.append(partition.log, records, header_at(records), ALL_IN_SYNC, NOW_MS, guard)


def begin(partition: Partition, sequence: int = 0, *, epoch: int = 0, producer_id: int = PRODUCER) -> AppendOutcome:
    records = data(sequence, epoch=epoch, producer_id=producer_id)
    return append(partition, records, partition.begin_verification(header_at(records)))


def end(
    partition: Partition,
    *,
    epoch: int = 0,
    is_commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    producer_id: int = PRODUCER,
) -> AppendOutcome:
    return partition.append_marker(producer_id, epoch, is_commit, coordinator_epoch, NOW_MS, transaction_version)


def test_the_first_batch_of_a_transaction_needs_its_coordinators_word(partition: Partition) -> None:
    header = header_at(data())
    assert partition.needs_verification(header)
    with pytest.raises(ProtocolError) as refused:
        append(partition, data())
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    begin(partition)
    assert not partition.needs_verification(header)
    append(partition, data(1))
    assert partition.needs_verification(header_at(data(epoch=1)))
    end(partition)
    assert partition.needs_verification(header)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_batch_agreed_to_before_a_marker_is_not_taken_after_it(partition: Partition, epoch: int) -> None:
    begin(partition)
    end(partition)
    late = data(1)
    guard = partition.begin_verification(header_at(late))
    end(partition, epoch=epoch)
    with pytest.raises(ProtocolError) as refused:
        append(partition, late, guard)
    wanted = ErrorCode.INVALID_PRODUCER_EPOCH if epoch else ErrorCode.INVALID_TXN_STATE
    assert refused.value.code is wanted
    assert partition.last_stable_offset == partition.high_watermark


@pytest.mark.parametrize("following", [1, 2])
def test_the_marker_of_the_transaction_before_leaves_the_next_one_its_guard(
    partition: Partition, following: int
) -> None:
    """EndTxn is answered before its marker is written, so the next transaction may be asked for first."""
    begin(partition)
    first = data(epoch=following)
    guard = partition.begin_verification(header_at(first), adds=True)
    end(partition, epoch=1, transaction_version=2)
    append(partition, first, guard)
    assert (partition.last_stable_offset, partition.high_watermark) == (2, 3)
    end(partition, epoch=following + 1, transaction_version=2)
    with pytest.raises(ProtocolError) as refused:
        append(partition, data(1, epoch=following), guard)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(("epoch", "version", "code"), [(1, 0, "INVALID_TXN_STATE"), (2, 2, "INVALID_PRODUCER_EPOCH")])
def test_a_transactions_own_marker_voids_its_guard_though_its_epoch_is_new_here(
    partition: Partition, is_known: bool, epoch: int, version: int, code: str
) -> None:
    """Of version 1 the marker has the epoch of the records; of version 2, or where it fences, a higher one."""
    if is_known:
        begin(partition)
        end(partition)
    first = data(epoch=1)
    guard = partition.begin_verification(header_at(first), adds=version == 2)
    end(partition, epoch=epoch, transaction_version=version)
    with pytest.raises(ProtocolError, match=code):
        append(partition, first, guard)
    assert partition.last_stable_offset == partition.high_watermark


def test_a_guard_of_one_question_does_not_serve_another(partition: Partition) -> None:
    guard = partition.begin_verification(header_at(data()))
    assert partition.begin_verification(header_at(data())) is guard, "two batches that wait together ask once"
    append(partition, data(), guard)
    end(partition)
    partition.begin_verification(header_at(data(1)))
    with pytest.raises(ProtocolError) as refused:
        append(partition, data(1), guard)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_batch_behind_one_that_was_turned_away_waits_for_it(partition: Partition) -> None:
    first, second = data(0), data(1)
    guard = partition.begin_verification(header_at(second))
    assert partition.begin_verification(header_at(first)) is guard
    with pytest.raises(ProtocolError) as refused:
        append(partition, second, guard)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(partition, first, guard)
    append(partition, data(1))


def test_a_producer_that_leaves_adding_to_us_starts_at_sequence_zero(partition: Partition) -> None:
    second = data(1)
    guard = partition.begin_verification(header_at(second), adds=True)
    with pytest.raises(ProtocolError) as refused:
        append(partition, second, guard)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_needs_no_word_once_its_transaction_is_over(partition: Partition) -> None:
    first = begin(partition)
    end(partition)
    again = append(partition, data())
    assert (again.is_duplicate, again.first_offset) == (True, first.first_offset)


def test_a_fenced_producer_is_told_so_before_anyone_is_asked(partition: Partition) -> None:
    begin(partition, epoch=3)
    for ask in (
        lambda: partition.begin_verification(header_at(data(epoch=2))),
        lambda: append(partition, data(epoch=2)),
    ):
        with pytest.raises(ProtocolError) as refused:
            ask()
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_where_verification_is_off_nobody_is_asked(partition: Partition) -> None:
    append(partition, data(5), UNVERIFIED)
    assert partition.last_stable_offset == 0


def test_committed_readers_see_nothing_of_an_open_transaction(partition: Partition) -> None:
    append(partition, data(producer_id=1, transactional=False))
    begin(partition)
    append(partition, data(1, producer_id=1, transactional=False))
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 3)
    begin(partition, producer_id=8)
    end(partition, is_commit=True)
    assert partition.last_stable_offset == 3
    end(partition, producer_id=8)
    assert partition.last_stable_offset == partition.high_watermark == 6


def test_a_transaction_ends_for_readers_once_its_marker_is_replicated() -> None:
    partition = leading(isr=(1, 2))
    begin(partition)
    end(partition)
    partition.fetched_by(2, 1)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    partition.fetched_by(2, 2)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)


def test_who_waits_is_woken_when_the_stable_offset_moves(partition: Partition) -> None:
    async def scenario() -> None:
        begin(partition)
        waiting = asyncio.ensure_future(
            partition._purgatory.until(lambda: partition.last_stable_offset > 0, [partition], 10_000)
        )
        await asyncio.sleep(0)
        end(partition)
        await asyncio.wait_for(waiting, 1)

    asyncio.run(scenario())


def test_removed_records_are_undecided_no_more(partition: Partition) -> None:
    begin(partition)
    append(partition, data(0, producer_id=1, transactional=False))
    partition.delete_records(1)
    assert partition.last_stable_offset == 1
    partition.delete_records(2)
    assert partition.last_stable_offset == 2


def test_a_marker_of_an_older_epoch_or_coordinator_is_refused(partition: Partition) -> None:
    begin(partition, epoch=2)
    with pytest.raises(ProtocolError) as refused:
        end(partition, epoch=1)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end(partition, epoch=2, coordinator_epoch=5)
    begin(partition, 1, epoch=2)
    with pytest.raises(ProtocolError) as refused:
        end(partition, epoch=2, coordinator_epoch=4)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_late_marker_does_not_end_the_next_transaction(partition: Partition) -> None:
    """With transaction version 2 each marker is one epoch above its records, so the one before is recognised."""
    begin(partition, epoch=0)
    end(partition, epoch=1, transaction_version=2)
    again = end(partition, epoch=1, transaction_version=2)
    assert again.first_offset == 2, "the same again, with nothing open, does no harm"
    begin(partition, epoch=1)
    with pytest.raises(ProtocolError) as refused:
        end(partition, epoch=1, transaction_version=2)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.last_stable_offset == 3
    end(partition, epoch=2, is_commit=True, transaction_version=2)
    assert partition.last_stable_offset == partition.high_watermark


def test_a_marker_for_an_unknown_producer_is_written(partition: Partition) -> None:
    assert end(partition, epoch=4, transaction_version=2).first_offset == 0
    assert producer_rows(partition) == [ProducerRow(PRODUCER, 4, -1, NOW_MS, 0, -1)]


def test_rows_say_what_is_known_of_each_producer(partition: Partition) -> None:
    append(partition, data(0, producer_id=1, transactional=False))
    begin(partition, 5, epoch=2)
    assert producer_rows(partition) == [
        ProducerRow(1, 0, 0, NOW_MS, -1, -1),
        ProducerRow(PRODUCER, 2, 5, NOW_MS, -1, 1),
    ]


def test_coordinators_append_without_sequences(partition: Partition) -> None:
    plain = memoryview(batch(2))
    assert partition.append_internal(plain, NOW_MS).last_offset == 1
    own = memoryview(batch(producer_id=PRODUCER, producer_epoch=0, transactional=True))
    assert partition.append_internal(own, NOW_MS).first_offset == 2
    assert partition.append_internal(memoryview(bytearray(own)), NOW_MS).first_offset == 3
    assert partition.last_stable_offset == 2
    end(partition, is_commit=True)
    assert partition.last_stable_offset == 5


def test_coordinators_are_refused_as_producers_with_acks_all_are() -> None:
    too_few = leading(isr=(1,), min_insync=2)
    follower = leading()
    follower.follow(Leadership(leader=2, leader_epoch=1, isr=(1, 2), replicas=(1, 2)))
    offline = leading()
    assert offline.log is not None
    offline.log.directory.fail(OSError("the disk is gone"))
    for partition, code in (
        (too_few, ErrorCode.NOT_ENOUGH_REPLICAS),
        (follower, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (offline, ErrorCode.KAFKA_STORAGE_ERROR),
    ):
        for append_one in (lambda each: each.append_internal(memoryview(batch()), NOW_MS), end):
            with pytest.raises(ProtocolError) as refused:
                append_one(partition)
            assert refused.value.code is code


def test_what_has_ended_is_forgotten_also_where_nobody_reads(partition: Partition) -> None:
    for sequence in range(100):
        begin(partition, sequence)
        end(partition)
    assert partition.log is not None
    assert not partition.log.producers._completed
    assert not partition.log.producers._verifying
