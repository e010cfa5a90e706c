"""A broker as far as one partition goes: its replica, what it serves, and what it has asked its leader."""

from typing import Any

from millstream.model.slices import FileSlice
from millstream.protocol.messages.fetch import PartitionData
from millstream.replication.fetch_sessions import Key, Wanted
from millstream.replication.following.followed import Followed
from millstream.replication.following.place import Position
from millstream.replication.leading import Proposal
from millstream.replication.partition import Partition
from millstream.replication.serving import FollowerSession, Serving
from tests.unit.replication.replica import Replica
from tests.unit.storage.ground import TOPIC_ID, TP, SetClock

KEY = Key("", TOPIC_ID, TP.partition)


class OnePartition:
    """As much of ``Replicas`` as serving needs."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    def topic_name(self, _: bytes) -> str:
        return TP.topic

    def find(self, _topic: str, _index: int) -> Partition:
        return self._partition


class Node:
    """A broker: its replica, what it serves, and what it has asked its leader."""

    def __init__(self, broker_id: int, clock: SetClock, **settings: Any) -> None:
        self.replica = Replica(broker_id, clock, **settings)
        self.clock = clock
        self.life = 0
        #: The watermark as it was last written down.
        self.mark = 0
        self.begin()

    def begin(self) -> None:
        self.serving = Serving(OnePartition(self.replica.partition), lambda: 1, lambda: 0)  # type: ignore[arg-type]
        self.sessions: dict[int, FollowerSession] = {}
        self.followed: Followed | None = None
        #: The answer on its way here, and where it was asked from.
        self.answer: tuple[Position, PartitionData] | None = None
        self.proposal: Proposal | None = None

    @property
    def partition(self) -> Partition:
        return self.replica.partition

    def serve(self, replica: int, life: int, position: Position) -> PartitionData | None:
        """Answer a follower's fetch, with little at a time; None when there is no news."""
        session = self.sessions.setdefault(replica, FollowerSession(replica, replica, life, lambda: False))
        session.begin(life, self.clock.ms)
        session.name(KEY, Wanted(position.offset, 200, position.leader_epoch, position.last_epoch))
        rows, _ = self.serving.read(session, 1 << 20)
        row = rows.get(KEY)
        if row is not None and row.records:
            assert isinstance(row.records, FileSlice)
            row.records = row.records.read()
        return row
