"""A replica's part in its partition, decided without I/O.

The controller says who leads; a message with an older epoch than one already followed is stale and changes
nothing.  A leader's high watermark is the lowest log end of the in-sync replicas, and never goes back.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

NO_LEADER = -1


class Part(Enum):
    """What a replica is in its partition."""

    IDLE = "idle"
    LEADER = "leader"
    FOLLOWER = "follower"


#: part -> the parts it may take next.  A leader that is told a higher epoch stays leader under the new one.
TRANSITIONS: dict[Part, set[Part]] = {
    Part.IDLE: {Part.LEADER, Part.FOLLOWER},
    Part.LEADER: {Part.LEADER, Part.FOLLOWER, Part.IDLE},
    Part.FOLLOWER: {Part.LEADER, Part.FOLLOWER, Part.IDLE},
}


@dataclass(frozen=True, slots=True)
class Leadership:
    """What the controller last said of a partition."""

    controller_epoch: int = 0
    leader: int = NO_LEADER
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    replicas: tuple[int, ...] = ()


class Role:
    """One replica's standing: its part, the leadership it follows and, as leader, what followers have."""

    __slots__ = ("_ends", "broker_id", "leadership", "others_in_sync", "part")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.part = Part.IDLE
        self.leadership = Leadership()
        #: In-sync replicas besides the leader itself; empty on a cluster of one.
        self.others_in_sync: tuple[int, ...] = ()
        self._ends: dict[int, int] = {}

    def is_stale(self, told: Leadership) -> bool:
        """Whether ``told`` was overtaken by what is already followed."""
        known = self.leadership
        return told.leader_epoch < known.leader_epoch or (
            told.leader_epoch == known.leader_epoch and told.partition_epoch < known.partition_epoch
        )

    def follow(self, told: Leadership) -> bool:
        """Take the part that ``told`` gives this broker; says whether the leader epoch is new."""
        assert not self.is_stale(told)
        is_new_epoch = told.leader_epoch > self.leadership.leader_epoch
        part = Part.LEADER if told.leader == self.broker_id else Part.FOLLOWER
        self._enter(part)
        self.leadership = told
        is_leader = part is Part.LEADER
        self.others_in_sync = tuple(id_ for id_ in told.isr if id_ != self.broker_id) if is_leader else ()
        if is_new_epoch:
            self._ends.clear()
        return is_new_epoch

    def retire(self) -> None:
        """The replica is stopped here."""
        self._enter(Part.IDLE)
        self.others_in_sync = ()
        self._ends.clear()

    def note_end(self, replica: int, end_offset: int) -> None:
        """A follower has everything below ``end_offset``."""
        assert self.part is Part.LEADER
        self._ends[replica] = end_offset

    def high_watermark(self, current: int, own_end: int) -> int:
        """Where the watermark belongs now; a follower that never fetched holds it where it is."""
        return max(current, min(own_end, *self._other_ends(current))) if self.others_in_sync else own_end

    def _other_ends(self, unknown: int) -> Iterable[int]:
        return (self._ends.get(replica, unknown) for replica in self.others_in_sync)

    def _enter(self, part: Part) -> None:
        assert part in TRANSITIONS[self.part], f"{self.part} cannot become {part}"
        self.part = part
