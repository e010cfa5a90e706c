"""The shards of one internal topic: which of them answers for a group or a transactional id."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from millstream.coordination.driver import Shard, Stage
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.replication.partition import Partition
from millstream.replication.role import Part

_SIGN = 0x80000000


@lru_cache(maxsize=10_000)
def java_hash(text: str) -> int:
    """Java's ``String.hashCode``, by which Kafka picks the partition of a group or a transactional id."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & _SIGN else value


def index_of(key: str, partition_count: int) -> int:
    """The partition of the internal topic that keeps ``key``."""
    value = java_hash(key)
    return 0 if value == -_SIGN else abs(value) % partition_count


class Coordinator:
    """Shards by partition, made and unmade as this broker wins and loses leadership."""

    def __init__(self, topic: str, stage: Stage, partition_count: Callable[[], int | None]) -> None:
        self.topic = topic
        self._stage = stage
        #: None while the topic does not exist.
        self._partition_count = partition_count
        self._shards: dict[int, Shard] = {}

    def index_of(self, key: str) -> int:
        """The partition that keeps ``key``, or the refusal: there is no such topic yet."""
        count = self._partition_count()
        if not count:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} does not exist yet")
        return index_of(key, count)

    def shard_for(self, key: str) -> Shard:
        """Who answers for ``key``, or the refusal: another broker does."""
        return self.shard(self.index_of(key))

    def shard(self, index: int) -> Shard:
        """The shard of that partition, or the refusal: another broker has it."""
        shard = self._shards.get(index)
        if shard is None:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR)
        return shard

    def shards(self) -> Iterator[Shard]:
        """All that are here, those still being loaded included."""
        yield from list(self._shards.values())

    def role_changed(self, partition: Partition) -> None:
        """This broker leads the partition, leads it under a new epoch, or no longer does."""
        index = partition.topic_partition.partition
        shard = self._shards.get(index)
        is_leader = partition.role.part is Part.LEADER
        if shard is not None:
            if is_leader and shard.partition is partition and shard.epoch == partition.role.leadership.leader_epoch:
                return
            shard.close()
            del self._shards[index]
        if is_leader:
            shard = self._shards[index] = Shard(partition, self._stage)
            shard.start()

    def tell(self, event: Any) -> None:
        """Tell every machine."""
        for shard in self.shards():
            shard.tell(event)

    def close(self) -> None:
        """Let go of every shard."""
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()
