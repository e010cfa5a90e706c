"""What a leader tells its followers' sessions: what is new, as soon as it is, and nothing of the rest."""

import asyncio

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.fetch import PartitionData
from millstream.replication.fetch_sessions import Key, Wanted
from millstream.replication.partition import Partition
from millstream.replication.serving import FollowerSession, Serving, grouped
from tests.simulation.loop import run
from tests.unit.replication.replica import Replica
from tests.unit.storage.ground import TOPIC_ID, batch

FOLLOWER = 2
EPOCH = 4


class Leaders:
    """As much of ``Replicas`` as serving needs."""

    def __init__(self, *replicas: Replica) -> None:
        self.partitions = dict(enumerate(each.partition for each in replicas))

    def topic_name(self, topic_id: bytes) -> str:
        if topic_id != TOPIC_ID:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
        return "orders"

    def find(self, _topic: str, index: int) -> Partition:
        if index not in self.partitions:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[index]


class Ground:
    """A broker that leads ``count`` partitions, and one follower's session."""

    def __init__(self, count: int = 1) -> None:
        self.replicas = [Replica(1) for _ in range(count)]
        for at, replica in enumerate(self.replicas):
            replica.partition.topic_partition = TopicPartition("orders", at)
            replica.told(1, epoch=EPOCH, isr=(1, FOLLOWER), replicas=(1, FOLLOWER))
        ids = iter(range(1, 100))
        self.leaders = Leaders(*self.replicas)
        self.serving = Serving(self.leaders, lambda: next(ids), self.now_ms)  # type: ignore[arg-type]
        self.gone = False
        self.session = self.open()

    def now_ms(self) -> int:
        try:
            return int(asyncio.get_running_loop().time() * 1000)
        except RuntimeError:
            return 0

    def open(self, session_id: int = 0, epoch: int = 0, replica: int = FOLLOWER) -> FollowerSession:
        return self.serving.session(session_id, epoch, replica, 7, lambda: self.gone)

    def stand(self, offset: int, index: int = 0, *, last_epoch: int = -1, epoch: int = EPOCH, size: int = 1000) -> None:
        self.session.name(Key("", TOPIC_ID, index), Wanted(offset, size, epoch, last_epoch))

    def read(self, bytes_max: int = 1 << 20) -> dict[int, PartitionData]:
        rows, _ = self.serving.read(self.session, bytes_max)
        return {key.partition: row for key, row in rows.items()}

    @property
    def first(self) -> Replica:
        return self.replicas[0]


def test_a_fetch_looks_only_at_what_has_changed() -> None:
    ground = Ground(count=3)
    for index in range(3):
        ground.stand(0, index)
    assert sorted(ground.read()) == [0, 1, 2]
    assert ground.read() == {}
    ground.replicas[1].write(batch(2))
    assert list(ground.session.pending) == [Key("", TOPIC_ID, 1)]
    rows = ground.read()
    assert list(rows) == [1]
    assert rows[1].records


def test_a_fetch_says_what_the_follower_has_and_that_moves_the_watermark() -> None:
    ground = Ground()
    ground.first.write(batch(3))
    ground.stand(0)
    assert ground.read()[0].high_watermark == 0
    assert ground.first.partition.high_watermark == 0
    ground.stand(3, last_epoch=EPOCH)
    assert ground.read()[0].high_watermark == 3
    assert ground.first.partition.high_watermark == 3


def test_a_follower_that_has_something_else_at_its_end_moves_nothing() -> None:
    """Were it counted, the watermark would pass records that it does not have."""
    ground = Ground()
    ground.first.write(batch(3))
    ground.stand(3, last_epoch=EPOCH - 1)
    row = ground.read()[0]
    assert row.diverging_epoch is not None
    assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset, row.records) == (EPOCH - 1, 0, b"")
    ground.stand(9)
    assert ground.read()[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert ground.first.partition.high_watermark == 0


@pytest.mark.parametrize(
    ("epoch", "code"), [(EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH), (EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_follower_of_another_epoch_is_fenced(epoch: int, code: ErrorCode) -> None:
    ground = Ground()
    ground.first.write(batch(3))
    ground.stand(3, epoch=epoch)
    assert ground.read()[0].error_code == code
    assert ground.first.partition.high_watermark == 0


def test_whoever_ceases_to_lead_tells_its_followers() -> None:
    ground = Ground()
    ground.stand(0)
    ground.read()
    ground.first.told(3, epoch=EPOCH + 1, isr=(3,), replicas=(1, FOLLOWER, 3))
    row = ground.read()[0]
    assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert row.current_leader is not None
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (3, EPOCH + 1)


def test_a_partition_that_is_not_here_is_one_row_and_spoils_no_other() -> None:
    ground = Ground()
    ground.stand(0)
    ground.stand(0, index=5)
    rows = ground.read()
    assert [rows[0].error_code, rows[5].error_code] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_what_does_not_fit_comes_next_so_that_nobody_starves() -> None:
    ground = Ground(count=3)
    for index in range(3):
        ground.replicas[index].write(batch(1, value=bytes(100)))
        ground.stand(0, index)
    seen = []
    for _ in range(3):
        seen += [index for index, row in ground.read(bytes_max=1).items() if row.records]
    assert seen == [0, 1, 2]


def test_a_place_that_is_named_again_is_told_everything_again() -> None:
    """It may have made nothing of the answer before."""
    ground = Ground()
    ground.stand(0)
    assert ground.read()
    ground.stand(0)
    assert ground.read()


def test_a_new_life_of_the_follower_reaches_partitions_it_does_not_name() -> None:
    ground = Ground()
    ground.stand(0)
    ground.read()
    ground.session.begin(8, 0)
    ground.read()
    leading = ground.first.partition.role.leading
    assert leading is not None
    assert leading.followers[FOLLOWER].broker_epoch == 8


# Waiting.


def test_a_fetch_that_waits_is_answered_as_soon_as_a_record_is_there() -> None:
    async def scenario() -> None:
        ground = Ground()
        ground.stand(0)
        waiting = asyncio.ensure_future(ground.serving.fetch(ground.session, 1 << 20, 1, 500))
        await asyncio.sleep(0.2)
        ground.first.write(batch(1))
        rows, found = await waiting
        assert len(found) == 1
        assert rows[Key("", TOPIC_ID, 0)].records
        assert asyncio.get_running_loop().time() == 0.2

    run(scenario())


def test_a_fetch_that_waits_in_vain_tells_of_watermarks_at_its_end() -> None:
    async def scenario() -> None:
        ground = Ground()
        ground.first.write(batch(2))
        ground.stand(2, last_epoch=EPOCH)
        rows, found = await ground.serving.fetch(ground.session, 1 << 20, 1, 500)
        assert (found, rows[Key("", TOPIC_ID, 0)].high_watermark) == ({}, 2)
        assert asyncio.get_running_loop().time() == 0.5

    run(scenario())


def test_a_newer_fetch_of_the_session_ends_the_one_that_waits() -> None:
    async def scenario() -> None:
        ground = Ground(count=2)
        ground.stand(0)
        ground.read()
        waiting = asyncio.ensure_future(ground.serving.fetch(ground.session, 1 << 20, 1, 500))
        await asyncio.sleep(0.1)
        assert ground.open(ground.session.id, ground.session.epoch) is ground.session
        ground.replicas[1].write(batch(1))
        ground.stand(0, index=1)
        _, found = await ground.serving.fetch(ground.session, 1 << 20, 1, 500)
        assert [key.partition for key in found] == [1]
        assert await waiting == ({}, {})
        assert asyncio.get_running_loop().time() == 0.1

    run(scenario())


def test_too_few_bytes_are_waited_on_and_then_given_once() -> None:
    async def scenario() -> None:
        ground = Ground()
        ground.first.write(batch(1))
        ground.stand(0, size=1 << 20)
        waiting = asyncio.ensure_future(ground.serving.fetch(ground.session, 1 << 20, 100, 500))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        ground.first.write(batch(1))
        _, found = await waiting
        (piece,) = found.values()
        assert piece.records.length == ground.first.log.size_bytes

    run(scenario())


# Sessions.


def test_a_session_is_known_by_its_id_its_epoch_and_its_follower() -> None:
    ground = Ground()
    session = ground.session
    for session_id, epoch, replica, code in (
        (session.id + 1, 1, FOLLOWER, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (session.id, 1, 3, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (session.id, 2, FOLLOWER, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ):
        with pytest.raises(ProtocolError, match=code.name):
            ground.open(session_id, epoch, replica)
    assert ground.open(session.id, 1) is session
    with pytest.raises(ProtocolError, match="INVALID_FETCH_SESSION_EPOCH"):
        ground.open(session.id, 1)


def test_sessions_that_ended_watch_nothing_any_more() -> None:
    ground = Ground()
    ground.stand(0)
    ground.read()
    assert len(ground.first.partition.watchers) == 1
    ground.open(ground.session.id, epoch=-1)
    assert (len(ground.serving), ground.first.partition.watchers) == (0, [])
    ground.session = ground.open()
    ground.stand(0)
    ground.read()
    ground.gone = True
    ground.open()
    assert (len(ground.serving), ground.first.partition.watchers) == (1, [])


def test_rows_are_grouped_by_topic() -> None:
    one, two = Key("", TOPIC_ID, 0), Key("", bytes(16), 1)
    rows = {key: PartitionData(partition_index=key.partition, high_watermark=0) for key in (one, two)}
    assert {key: [row.partition_index for row in found] for key, found in grouped(rows).items()} == {
        ("", TOPIC_ID): [0],
        ("", bytes(16)): [1],
    }
