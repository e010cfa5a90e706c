"""The ``uniform`` assignor where members read different topics: as even as that allows, by moving single partitions."""

from heapq import heapify, heappop, heappush
from typing import Final

from millstream.coordination.groups.consumer.assignors.share import PartitionCounts, Shares, Subscribers
from millstream.model.ids import Uuid

#: Balance spreads from topic to topic through the members they share; Kafka stops after as many rounds.
ROUNDS_MAX: Final = 16
NOBODY: Final = -1


def assign(members: Subscribers, counts: PartitionCounts) -> Shares:
    """Keep what may stay, give the rest to the least loaded, then move from the most to the least loaded."""
    table = _Table(members, counts)
    topics = sorted(table.owners, key=table.rank)
    for topic_id in topics:
        table.fill(topic_id)
    shared = [topic_id for topic_id in topics if len(table.readers[topic_id]) > 1]
    for _ in range(ROUNDS_MAX):
        if not sum([table.balance(topic_id) for topic_id in shared]):
            break
    return table.shares()


class _Table:
    """Who has which partition, with members by their number."""

    def __init__(self, members: Subscribers, counts: PartitionCounts) -> None:
        self._ids = list(members)
        self._loads = [0] * len(members)
        self.readers: dict[Uuid, list[int]] = {}
        for number, member in enumerate(members.values()):
            for topic_id in member.topic_ids:
                self.readers.setdefault(topic_id, []).append(number)
        self.owners = {topic_id: [NOBODY] * counts[topic_id] for topic_id in self.readers}
        for number, member in enumerate(members.values()):
            for topic_id, partitions in member.plan.items():
                if topic_id in member.topic_ids:
                    for partition in partitions:
                        if partition < counts[topic_id] and self.owners[topic_id][partition] == NOBODY:
                            self._give(topic_id, partition, number)

    def rank(self, topic_id: Uuid) -> tuple[float, int, Uuid]:
        """Topics that leave the least choice come first."""
        readers = len(self.readers[topic_id])
        return (-len(self.owners[topic_id]) / readers, readers, topic_id)

    def fill(self, topic_id: Uuid) -> None:
        """Give each partition that nobody has to the least loaded reader."""
        free = [partition for partition, owner in enumerate(self.owners[topic_id]) if owner == NOBODY]
        if not free:
            return
        heap = [(self._loads[number], number) for number in self.readers[topic_id]]
        heapify(heap)
        for partition in free:
            _, number = heappop(heap)
            self._give(topic_id, partition, number)
            heappush(heap, (self._loads[number], number))

    def balance(self, topic_id: Uuid) -> int:
        """Move partitions of one topic while that evens out its readers; how many were moved."""
        loads = self._loads
        readers = self.readers[topic_id]
        if max(loads[number] for number in readers) - min(loads[number] for number in readers) <= 1:
            return 0
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic_id]):
            held.setdefault(owner, []).append(partition)
        takers = [(loads[number], number) for number in readers]
        givers = [(-loads[number], number) for number in held]
        heapify(takers)
        heapify(givers)
        moved = 0
        # A giver only sheds and a taker only gains here, and none does both: what the heaps say stays true.
        while givers and loads[givers[0][1]] - loads[takers[0][1]] > 1:
            _, giver = heappop(givers)
            _, taker = heappop(takers)
            self._give(topic_id, held[giver].pop(), taker)
            moved += 1
            heappush(takers, (loads[taker], taker))
            if held[giver]:
                heappush(givers, (-loads[giver], giver))
        return moved

    def shares(self) -> Shares:
        """What everyone has."""
        found: list[dict[Uuid, list[int]]] = [{} for _ in self._ids]
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                found[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in share.items()}
            for member_id, share in zip(self._ids, found, strict=True)
        }

    def _give(self, topic_id: Uuid, partition: int, number: int) -> None:
        owners = self.owners[topic_id]
        if owners[partition] != NOBODY:
            self._loads[owners[partition]] -= 1
        owners[partition] = number
        self._loads[number] += 1
