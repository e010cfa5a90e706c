"""Replicas of one partition without a cluster around them: each with a disk of its own, told who leads by the test."""

import random
from typing import Any

from millstream.metrics.metric import Metrics
from millstream.metrics.table import METRICS
from millstream.metrics.traffic import TopicTraffic
from millstream.model.batch import header_at
from millstream.model.errors import ErrorCode
from millstream.model.records import Record
from millstream.replication.partition import Partition
from millstream.replication.purgatory import Purgatory
from millstream.replication.role import Leadership
from millstream.storage.log import AppendOutcome, Log
from millstream.storage.manager import Logs
from millstream.storage.verification import UNVERIFIED
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import NOW_MS, TOPIC_ID, TP, SetClock, batch, made, open_logs, read_all

REPLICAS = (1, 2, 3)


class Replica:
    """One broker's replica, which can be killed and started again."""

    partition: Partition

    def __init__(self, broker_id: int, clock: SetClock | None = None, **settings: Any) -> None:
        self.id = broker_id
        self.clock = clock or SetClock()
        self.files = MemoryFiles(random.Random(broker_id), self.clock)
        self._settings = settings
        self.start(0)

    def start(self, high_watermark: int) -> None:
        """Open what the disk holds; ``high_watermark`` is what was last written down."""
        self.logs: Logs = open_logs(self.files, "/data", clock=self.clock, **self._settings)
        log = made(self.logs, **self._settings)
        traffic = TopicTraffic(Metrics(METRICS), TP.topic)
        self.partition = Partition(TP, TOPIC_ID, self.id, log, Purgatory(), high_watermark, traffic)

    @property
    def log(self) -> Log:
        assert self.partition.log is not None
        return self.partition.log

    @property
    def records(self) -> list[Record]:
        return read_all(self.log)

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    def told(
        self,
        leader: int,
        epoch: int,
        isr: tuple[int, ...] = REPLICAS,
        partition_epoch: int = 0,
        replicas: tuple[int, ...] = REPLICAS,
    ) -> None:
        """The controller's word."""
        code = self.partition.follow(Leadership(1, leader, epoch, isr, partition_epoch, replicas))
        assert code is ErrorCode.NONE

    def write(self, records: bytearray | bytes | None = None, *, acks: int = 1, **fields: Any) -> AppendOutcome:
        """Append as leader."""
        view = memoryview(bytearray(batch(**fields) if records is None else records))
        return self.partition.append(self.log, view, header_at(view), acks, NOW_MS, UNVERIFIED)

    def bytes_from(self, offset: int) -> bytes:
        """What a follower at ``offset`` is sent."""
        piece = self.log.read(offset, 1 << 20, self.log.end_offset)
        return b"" if piece is None else piece.read()

    def all_bytes(self) -> bytes:
        """Every byte of the log."""
        return b"".join(segment.reader().read(0, segment.size) for segment in self.log.segments)

    def copy_from(self, leader: "Replica") -> None:
        """Append all that the leader has, and take its marks over."""
        while self.log.end_offset < leader.log.end_offset:
            self.partition.append_from_leader(memoryview(leader.bytes_from(self.log.end_offset)))
        if leader.partition.role.leading is not None:
            leader.partition.fetched_by(self.id, self.log.end_offset)
        self.partition.heed(leader.partition.high_watermark, leader.log.start_offset)
