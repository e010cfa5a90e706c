"""Looks into every broker's memory and disk, behind everyone's back, for what must never be."""

import asyncio
from collections.abc import Iterator

from millstream.model.batch import HEADER_BYTES, header_at
from millstream.replication.role import Part
from tests.simulation.cluster.ledger import Partition
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.world import World
from tests.simulation.medium import Folder, Inode

LOOK_S = 0.25


class Inspector:
    """Keeps what was committed, byte for byte, and who led under which epoch."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: The bytes of each partition below the highest watermark of its leaders.
        self.committed: dict[Partition, bytes] = {}
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._controllers: dict[int, int] = {}

    async def run(self) -> None:
        """Look again and again; never returns."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look()

    def look(self) -> None:
        """Raise what is wrong, if anything is."""
        self._look_at_terms()
        for topic, index, _, state, version in self._world.states():
            self._extend((topic, index), state.leader, state.leader_epoch)
            for broker_id in state.isr:
                self._look_at_replica((topic, index), broker_id, state.leader_epoch, version)

    def _look_at_terms(self) -> None:
        """One leader per epoch of a partition, one controller per epoch of the cluster."""
        violate = self._world.ledger.violate
        for broker in self._world.serving:
            if broker.controller.is_active:
                first = self._controllers.setdefault(broker.controller.epoch, broker.id)
                if first != broker.id:
                    raise violate(f"brokers {first} and {broker.id} are controller of epoch {broker.controller.epoch}")
            for partition in broker.replicas:
                if partition.role.part is Part.LEADER:
                    term = (*partition.topic_partition, partition.role.leadership.leader_epoch)
                    first = self._leaders.setdefault(term, broker.id)
                    if first != broker.id:
                        raise violate(f"brokers {first} and {broker.id} both lead {term[0]}-{term[1]} in {term[2]}")

    def _extend(self, place: Partition, leader: int, leader_epoch: int) -> None:
        """Take in what the leader says is safe; one that was replaced and does not know may lag behind."""
        broker = self._world.machines[leader].serving if leader >= 0 else None
        if broker is None:
            return
        watermarks = [
            partition.safe_offset  # Where the power may go everywhere, what the leader has not flushed is not safe.
            for partition in broker.replicas
            if tuple(partition.topic_partition) == place and partition.role.part is Part.LEADER
            if partition.role.leadership.leader_epoch == leader_epoch
            if partition.log is not None and not partition.log.is_offline
        ]
        if not watermarks:
            return
        log, known = log_bytes(self._world.machines[leader], place), self.committed.get(place, b"")
        if log[: len(known)] != known:
            raise self._differs(place, leader, log, known, "leads")
        at = len(known)
        for position, next_offset in _batches(log, at):
            if next_offset > watermarks[0]:
                break
            at = position
        self.committed[place] = log[:at]

    def _look_at_replica(self, place: Partition, broker_id: int, leader_epoch: int, version: int) -> None:
        """A replica that is in sync, and knows, has everything that was committed."""
        broker = self._world.machines[broker_id].serving
        if broker is None:
            return
        told = [
            partition.role.leadership
            for partition in broker.replicas
            if tuple(partition.topic_partition) == place and partition.log is not None and not partition.log.is_offline
        ]
        if not told or told[0].leader_epoch != leader_epoch or told[0].partition_epoch != version:
            return
        log, known = log_bytes(self._world.machines[broker_id], place), self.committed.get(place, b"")
        if log[: len(known)] != known:
            raise self._differs(place, broker_id, log, known, "is in sync")

    def _differs(self, place: Partition, broker_id: int, log: bytes, known: bytes, how: str) -> Exception:
        at = next((at for at, (one, other) in enumerate(zip(log, known, strict=False)) if one != other), len(log))
        offset = next((next_offset - 1 for position, next_offset in _batches(known, 0) if position > at), -1)
        return self._world.ledger.violate(
            f"broker {broker_id}, which {how}, has {len(log)} bytes of {place} and differs at byte {at} "
            f"(offset {offset}) from the {len(known)} bytes that were committed"
        )

    # The end.

    def differences(self) -> str | None:
        """Whether some replica has not, byte for byte, what the others have."""
        for topic, index, replicas, _, _ in self._world.states():
            logs = {id_: log_bytes(self._world.machines[id_], (topic, index)) for id_ in replicas}
            if len(set(logs.values())) > 1:
                sizes = {id_: len(log) for id_, log in logs.items()}
                return f"the replicas of {topic}-{index} differ: {sizes} bytes"
        return None


def log_bytes(machine: Machine, place: Partition) -> bytes:
    """A partition's whole log as it lies on the machine's disk or in its cache."""
    found = b""
    for directory in ("a", "b"):
        folder = machine.files._find(f"/data/{directory}/{place[0]}-{place[1]}")
        if isinstance(folder, Folder):
            for name in sorted(folder.entries):
                node = folder.entries[name]
                if name.endswith(".log") and isinstance(node, Inode):
                    found += node.data
    return bytes(found)


def _batches(log: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Where each whole batch ends, and the offset after it."""
    while at + HEADER_BYTES <= len(log):
        header = header_at(log, at)
        if at + header.size > len(log):
            return
        at += header.size
        yield at, header.next_offset
