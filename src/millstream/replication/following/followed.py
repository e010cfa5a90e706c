"""One partition that is followed: what its leader sends is appended, what its leader does not have is cut."""

import logging

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.fetch import PartitionData
from millstream.replication.following.place import Cut, EpochEnd, Place, Position, Restart, cut_for
from millstream.replication.partition import Partition

logger = logging.getLogger(__name__)


class Followed:
    """A partition, and where we stand in it, under the leader epoch that it was told."""

    __slots__ = ("log", "partition", "place")

    def __init__(self, partition: Partition, backoff_ms_max: int) -> None:
        log = partition.log
        assert log is not None
        self.partition = partition
        self.log = log
        position = Position(partition.role.leadership.leader_epoch, log.end_offset, log.epochs.latest)
        self.place = Place(position, backoff_ms_max)

    def take(self, row: PartitionData, now_ms: int) -> None:
        """Do as the leader's answer says; whatever goes wrong is this partition's alone."""
        try:
            if row.error_code:
                self.place.refused(ErrorCode(row.error_code), now_ms)
            elif row.diverging_epoch is not None:
                leaders = EpochEnd(row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
                own = EpochEnd(*self.log.epochs.end_offset_for(leaders.epoch))
                self._cut(cut_for(leaders, own, self.log.end_offset), now_ms)
            else:
                self._append(row)
        except ProtocolError as refusal:
            self._refused(refusal, now_ms)
        except Exception:
            logger.exception("%s: what the leader sent cannot be taken over", self.partition.topic_partition)
            self.place.delay(now_ms)

    def bounded(self, bounds: tuple[int, int] | None, now_ms: int) -> None:
        """Find back, knowing where the leader's log starts and ends; None where it did not say."""
        try:
            step = None if bounds is None else self.place.bounded(*bounds)
            if step is None:
                self.place.delay(now_ms)  # Nothing is wrong that we could make good.
            else:
                self._cut(step, now_ms)
        except ProtocolError as refusal:
            self._refused(refusal, now_ms)

    def _append(self, row: PartitionData) -> None:
        if row.records:
            assert isinstance(row.records, bytes | bytearray | memoryview)
            self.partition.append_from_leader(memoryview(row.records))
            if not self.place.moved(self.log.end_offset, self.log.epochs.latest):
                raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, "the leader sent no whole batch")
        self.partition.heed(row.high_watermark, row.log_start_offset)

    def _cut(self, cut: Cut | Restart, now_ms: int) -> None:
        partition, log = self.partition, self.log
        logger.info("%s: %s, as broker %d leads", partition.topic_partition, cut, partition.role.leadership.leader)
        if isinstance(cut, Restart):
            partition.restart_at(cut.offset)
        else:
            partition.truncate_to(cut.offset)
        if not self.place.moved(log.end_offset, log.epochs.latest):
            self.place.delay(now_ms)  # Never in a hurry where nothing changes.

    def _refused(self, refusal: ProtocolError, now_ms: int) -> None:
        if refusal.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self.place.fail()
            return
        logger.warning("%s: it cannot be followed: %s", self.partition.topic_partition, refusal)
        self.place.delay(now_ms)
