"""What a leader knows of its followers, and what it makes of it: the high watermark and the in-sync set.

Pure.  The controller alone changes the in-sync set; the leader proposes, one proposal at a time.  Until it knows what
came of it, the watermark waits for every replica that may be in the set (the *maximal* one), while acknowledgements
count only those that certainly are.
"""

from dataclasses import dataclass
from typing import NamedTuple

from millstream.model.errors import ErrorCode

UNKNOWN = -1
NEVER_MS = -(2**62)
#: A proposal that was refused is not made again sooner than this; one that is refused again waits twice as long.
BACKOFF_MS = 100
BACKOFF_MS_MAX = 5_000
#: Refusals that say: this proposal changed nothing, and never will.
NOT_DONE = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})


@dataclass(slots=True)
class Pulse:
    """When a broker last fetched at all; all its partitions of one fetch session share it."""

    ms: int = NEVER_MS


class Proposal(NamedTuple):
    """An in-sync set to ask the controller for: each replica with the broker epoch it was last seen under."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class Follower:
    """How far one follower has come; ``end`` is -1 until it has fetched under this leader."""

    __slots__ = ("_fetched_ms", "_leader_end", "broker_epoch", "caught_up_ms", "end", "pulse", "start")

    def __init__(self, caught_up_ms: int) -> None:
        self.end = UNKNOWN
        #: Where its log starts, as it last said.
        self.start = UNKNOWN
        #: The last moment at which it had everything the leader had.
        self.caught_up_ms = caught_up_ms
        self.broker_epoch = UNKNOWN
        self.pulse = Pulse()
        self._fetched_ms = NEVER_MS
        self._leader_end = UNKNOWN

    @property
    def seen_ms(self) -> int:
        return max(self._fetched_ms, self.pulse.ms)

    def fetched(self, end: int, leader_end: int, now_ms: int) -> None:
        """It asks for what comes at ``end``.

        One that has all that was there at its fetch before had caught up then, however fast the leader grows.
        """
        if end >= leader_end:
            self.caught_up_ms = now_ms
        elif self._leader_end != UNKNOWN and end >= self._leader_end and self._fetched_ms > self.caught_up_ms:
            self.caught_up_ms = self._fetched_ms
        self.end = end
        self._fetched_ms = now_ms
        self._leader_end = leader_end

    def left_behind(self, leader_end: int) -> None:
        """The leader grows beyond ``leader_end``: whoever had all of it had caught up when it last fetched."""
        if self.end == leader_end and self.seen_ms > self.caught_up_ms:
            self.caught_up_ms = self.seen_ms

    def is_behind(self, leader_end: int, now_ms: int, lag_ms_max: int) -> bool:
        return self.end < leader_end and now_ms - self.caught_up_ms > lag_ms_max


class Leading:
    """One term as leader of a partition that has other replicas."""

    __slots__ = (
        "_backoff_ms",
        "_not_before_ms",
        "_proposal",
        "broker_id",
        "eligible",
        "epoch_start",
        "followers",
        "isr",
        "maybe",
    )

    def __init__(
        self,
        broker_id: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        epoch_start: int,
        now_ms: int,
        eligible: tuple[int, ...],
    ) -> None:
        self.broker_id = broker_id
        self.epoch_start = epoch_start
        self.isr = isr
        #: Whom the controller would let lead as well, for it knows of nothing that was committed without them.
        self.eligible = eligible
        self.followers = {
            replica: Follower(now_ms if replica in isr else NEVER_MS) for replica in replicas if replica != broker_id
        }
        #: Replicas that a proposal named whose fate is not known.
        self.maybe: frozenset[int] = frozenset()
        self._proposal: Proposal | None = None
        self._not_before_ms = NEVER_MS
        self._backoff_ms = BACKOFF_MS

    def told(self, replicas: tuple[int, ...], isr: tuple[int, ...], now_ms: int, eligible: tuple[int, ...]) -> None:
        """The controller has another state of the same term: what was proposed before is settled by it."""
        others = [replica for replica in replicas if replica != self.broker_id]
        self.followers = {replica: self.followers.get(replica) or Follower(NEVER_MS) for replica in others}
        self._enter(isr, now_ms, eligible)
        self._proposal = None
        self._not_before_ms = NEVER_MS

    def _enter(self, isr: tuple[int, ...], now_ms: int, eligible: tuple[int, ...]) -> None:
        """Another in-sync set holds; whoever is new in it has its time to catch up."""
        for replica in isr:
            if replica not in self.isr and replica in self.followers:
                self.followers[replica].caught_up_ms = now_ms
        self.isr = isr
        self.eligible = eligible
        self.maybe = frozenset()

    # The watermark.

    def high_watermark(self, current: int, own_end: int, min_insync: int) -> int:
        """Where the watermark belongs now; it never goes back.

        It stays while fewer replicas are in sync than ``min_insync`` asks for (never more than there are): what then
        were shown could be on one disk alone.  So it does while others are eligible: the controller, who may not have
        heard of this ``min_insync``, could let them lead.  A follower that never fetched holds it where it is, too.
        """
        if self.eligible or not self._is_enough(min_insync):
            return current
        lowest = own_end
        for replica, follower in self.followers.items():
            if follower.end < lowest and (replica in self.isr or replica in self.maybe):
                lowest = follower.end
        return max(current, lowest)

    def _is_enough(self, min_insync: int) -> bool:
        """Whether as many are in sync as must be for anything to be committed."""
        return len(self.isr) >= min(min_insync, len(self.followers) + 1)

    @property
    def maximal_isr_size(self) -> int:
        return len(self.maybe.union(self.isr))

    def low_watermark(self, own_start: int) -> int:
        """Whoever in sync may lead next, what lies before is gone there too."""
        return min([own_start, *(each.start for replica, each in self.followers.items() if replica in self.isr)])

    # The in-sync set.

    def may_join(self, replica: int, watermark: int) -> bool:
        """Whether a follower outside the set has all that was acknowledged, this term's beginning included."""
        return replica not in self.isr and self.followers[replica].end >= max(watermark, self.epoch_start)

    def laggards(self, own_end: int, now_ms: int, lag_ms_max: int) -> list[int]:
        """In-sync replicas that have not caught up for too long."""
        return [
            replica
            for replica in self.isr
            if replica != self.broker_id
            and (replica not in self.followers or self.followers[replica].is_behind(own_end, now_ms, lag_ms_max))
        ]

    def due_ms(self) -> int:
        """Before this moment nothing more is proposed."""
        return self._not_before_ms

    def propose(
        self,
        leader_epoch: int,
        partition_epoch: int,
        broker_epoch: int,
        watermark: int,
        own_end: int,
        now_ms: int,
        lag_ms_max: int,
        min_insync: int,
    ) -> Proposal | None:
        """The set to ask for now, if another one than is known; from here on the watermark waits for all it names.

        Who leaves and who joins is asked separately, so that one that may not join keeps nobody from leaving.  While it
        is not known whether somebody joined, nobody else does: the set is asked for as it is, which settles it.  So it
        is where there are enough in it and others are eligible all the same: they must not be when the watermark moves,
        and that shall not fail for one who may not join.
        """
        if self._proposal is not None or now_ms < self._not_before_ms:
            return None
        behind = self.laggards(own_end, now_ms, lag_ms_max)
        wanted = [replica for replica in self.isr if replica not in behind]
        is_settled = self.maybe <= set(self.isr)
        holds_back = bool(self.eligible) and self._is_enough(min_insync)
        if not behind and is_settled and not holds_back:
            wanted += [
                replica
                for replica, follower in self.followers.items()
                if self.may_join(replica, watermark) and now_ms - follower.seen_ms <= lag_ms_max
            ]
        if len(wanted) == len(self.isr) and not behind and is_settled and not holds_back:
            return None
        epochs = {replica: follower.broker_epoch for replica, follower in self.followers.items()}
        epochs[self.broker_id] = broker_epoch
        self._proposal = Proposal(
            leader_epoch, partition_epoch, tuple((replica, epochs.get(replica, UNKNOWN)) for replica in wanted)
        )
        self.maybe = self.maybe.union(wanted)
        return self._proposal

    def granted(self, proposal: Proposal, isr: tuple[int, ...], now_ms: int, eligible: tuple[int, ...]) -> bool:
        """The controller has taken ``proposal`` over; False when something newer was heard meanwhile."""
        if proposal is not self._proposal:
            return False
        self._proposal = None
        self._enter(isr, now_ms, eligible)
        self._backoff_ms = BACKOFF_MS
        return True

    def refused(self, proposal: Proposal, code: ErrorCode, now_ms: int) -> None:
        """The controller did not take ``proposal`` over, or there is no telling whether it did.

        Only where it certainly did not, the watermark no longer waits for those that would have joined.  Whatever else
        the refusal was, a later state of the partition is on its way here, or the next attempt finds a controller that
        answers.
        """
        if proposal is not self._proposal:
            return
        self._proposal = None
        if code in NOT_DONE:
            self.maybe -= {replica for replica, _ in proposal.isr if replica not in self.isr}
        self._not_before_ms = now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)
