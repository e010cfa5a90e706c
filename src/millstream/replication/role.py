"""A replica's part in its partition, decided without I/O.

The controller says who leads; a message with an older epoch than one already followed is stale and changes
nothing.  What a leader knows of the other replicas is in ``leading``.
"""

from dataclasses import dataclass, replace
from enum import Enum

from millstream.replication.leading import Leading, Proposal

NO_LEADER = -1


class Part(Enum):
    """What a replica is in its partition."""

    IDLE = "idle"
    LEADER = "leader"
    FOLLOWER = "follower"


#: part -> the parts it may take next.  A leader that is told a higher epoch stays leader under the new one, and one
#: whose log could not be opened is told to stop without ever having begun.
TRANSITIONS: dict[Part, set[Part]] = {
    Part.IDLE: {Part.LEADER, Part.FOLLOWER, Part.IDLE},
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
    #: Those of the replicas that the partition is being moved to.
    adding: tuple[int, ...] = ()
    #: Who may lead besides those in sync, as nothing was committed since they were.
    eligible: tuple[int, ...] = ()


class Role:
    """One replica's standing: its part, the leadership it follows and, as leader, what followers have."""

    __slots__ = ("broker_id", "leadership", "leading", "others_in_sync", "part", "term")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.part = Part.IDLE
        self.leadership = Leadership()
        #: In-sync replicas besides the leader itself; empty on a cluster of one.
        self.others_in_sync: tuple[int, ...] = ()
        #: What is known of the other replicas; None where there are none, or another leads.
        self.leading: Leading | None = None
        #: Counts how often this replica ceased to lead: what it appended before may be gone.
        self.term = 0

    def is_stale(self, told: Leadership) -> bool:
        """Whether ``told`` was overtaken by what is already followed."""
        known = self.leadership
        return told.leader_epoch < known.leader_epoch or (
            told.leader_epoch == known.leader_epoch and told.partition_epoch < known.partition_epoch
        )

    def follow(self, told: Leadership, own_end: int = 0, now_ms: int = 0) -> bool:
        """Take the part that ``told`` gives this broker, whose log ends at ``own_end``; is the leader epoch new?"""
        assert not self.is_stale(told)
        known = self.leadership
        is_new_epoch = told.leader_epoch > known.leader_epoch
        is_news = is_new_epoch or told.partition_epoch > known.partition_epoch
        self._enter(Part.LEADER if told.leader == self.broker_id else Part.FOLLOWER)
        self.leadership = told
        if self.part is not Part.LEADER:
            self._forget()
            return is_new_epoch
        self.others_in_sync = tuple(id_ for id_ in told.isr if id_ != self.broker_id)
        everyone = told.replicas + tuple(id_ for id_ in told.isr if id_ not in told.replicas)
        if not any(id_ != self.broker_id for id_ in everyone):
            self.leading = None
        elif is_new_epoch or self.leading is None:
            self.leading = Leading(self.broker_id, everyone, told.isr, own_end, now_ms, told.eligible)
        elif is_news:  # What is told again settles nothing: a proposal may still be on its way.
            self.leading.told(everyone, told.isr, now_ms, told.eligible)
        else:  # But for who is eligible, of which a controller of an older release says nothing.
            self.leading.eligible = told.eligible
        return is_new_epoch

    def granted(
        self,
        proposal: Proposal,
        isr: tuple[int, ...],
        partition_epoch: int,
        now_ms: int,
        eligible: tuple[int, ...],
    ) -> bool:
        """The controller took over what this leader proposed; False when that is no news any more."""
        known = self.leadership
        if (
            self.leading is None
            or proposal.leader_epoch != known.leader_epoch
            or partition_epoch < known.partition_epoch
            or not self.leading.granted(proposal, isr, now_ms, eligible)
        ):
            return False
        self.leadership = replace(known, isr=isr, partition_epoch=partition_epoch, eligible=eligible)
        self.others_in_sync = tuple(id_ for id_ in isr if id_ != self.broker_id)
        return True

    def retire(self) -> None:
        """The replica is stopped here."""
        self._enter(Part.IDLE)
        self._forget()

    def _forget(self) -> None:
        self.others_in_sync = ()
        self.leading = None

    def _enter(self, part: Part) -> None:
        assert part in TRANSITIONS[self.part], f"{self.part} cannot become {part}"
        if self.part is Part.LEADER and part is not Part.LEADER:
            self.term += 1
        self.part = part
