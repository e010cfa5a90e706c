"""A classic group: what it knows, which states it may enter, and what it answers to offsets and administration."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from millstream.coordination.decision import Timer
from millstream.coordination.groups.classic.events import SessionExpired
from millstream.coordination.groups.group import GroupType
from millstream.coordination.schemas.consumer_offsets import GroupMetadataKey
from millstream.coordination.schemas.consumer_protocol import subscribed_topics
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import Uuid

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class State(StrEnum):
    """Kafka's names, as DescribeGroups shows them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: state -> the states it may enter.  Anything else is our bug, never the client's.
TRANSITIONS: Final = {
    State.EMPTY: {State.PREPARING, State.DEAD},
    State.PREPARING: {State.COMPLETING, State.EMPTY, State.DEAD},
    State.COMPLETING: {State.STABLE, State.PREPARING, State.DEAD},
    State.STABLE: {State.PREPARING, State.DEAD},
    State.DEAD: set(),
}


@dataclass(slots=True)
class ClassicMember:
    """What a member said of itself, and its share of the assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    #: Its metadata by protocol, the one it likes best first.
    protocols: dict[str, bytes]
    assignment: bytes = b""
    #: Kept because every heartbeat sets it.
    session_timer: Timer | None = None

    def metadata(self, protocol_name: str | None) -> bytes:
        return self.protocols.get(protocol_name or "", b"")

    def has_protocols(self, protocols: dict[str, bytes]) -> bool:
        """Whether it said the same before, in the same order."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)


class ClassicGroup:
    """The state of one group.

    Hard, as ``GroupMetadata`` records it: generation, protocol, leader, members with their assignment.  Soft, and lost
    with the leadership: whoever is joining, the tickets that wait, and a generation that has no assignment yet.
    """

    __slots__ = (
        "_topics",
        "generation",
        "group_id",
        "has_newcomer_since_delay",
        "instances",
        "join_tickets",
        "leader_id",
        "members",
        "newcomers",
        "pending",
        "pending_sync",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "supporters",
        "sync_tickets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id: str = group_id
        self.state = State.EMPTY
        self.previous_state = State.DEAD
        #: When the state was entered; None where an old record does not say.
        self.state_since_ms: int | None = None
        self.generation = 0
        #: Empty for a group that only keeps offsets.
        self.protocol_type: str = ""
        self.protocol_name: str | None = None
        #: None without members, and with those that another protocol handed over, until they have met.
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        #: The member id behind each group.instance.id.
        self.instances: dict[str, str] = {}
        #: How many members speak each protocol.
        self.supporters: Counter[str] = Counter()
        #: Ids handed out to members that have not come back with them yet.
        self.pending: set[str] = set()
        #: Members that joined for the first time and have not yet seen a generation.
        self.newcomers: set[str] = set()
        #: JoinGroup and SyncGroup requests that wait, by member.
        self.join_tickets: dict[str, int] = {}
        self.sync_tickets: dict[str, int] = {}
        #: Members of this generation that have not asked for their assignment yet.
        self.pending_sync: set[str] = set()
        #: Whether the initial delay is worth another round.
        self.has_newcomer_since_delay = False
        #: What the members read: a 1-tuple once reckoned; None inside when their metadata cannot be read.
        self._topics: tuple[frozenset[str] | None] | None = None

    # What the rest of the coordinator asks.

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_consumer(self) -> bool:
        """Whether its members speak the consumers' embedded protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """All topics its members read, or None when the coordinator cannot know."""
        if self._topics is None:
            self._topics = (self._reckon_topics(),)
        return self._topics[0]

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member of that id; one replaced by another of the same instance is fenced."""
        if instance_id is not None:
            current_id = self.instances.get(instance_id)
            if current_id is None:
                raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member of instance {instance_id}")
            if current_id != member_id:
                raise ProtocolError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} is another member by now")
        member = self.members.get(member_id)
        if member is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member {member_id!r} in {self.group_id}")
        return member

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise ProtocolError(ErrorCode.ILLEGAL_GENERATION, f"{generation} is not {self.generation}")

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[tuple[Uuid, int]],
        *,
        is_transactional: bool,
        version: int,
    ) -> Sequence[Timer]:
        if self.state is State.DEAD:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
        if epoch < 0 and self.state is State.EMPTY:
            return ()  # An administrator, or a consumer that assigns its partitions itself.
        if epoch >= 0 or member_id or instance_id is not None:
            member = self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif is_transactional:
            return ()  # Older producers name no member.
        else:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and the commit names none")
        if is_transactional:
            return ()
        if self.state is State.COMPLETING:
            raise ProtocolError(ErrorCode.REBALANCE_IN_PROGRESS)
        return (self.session_timer(member),)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if self.state is State.DEAD:
            raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, "the group is gone")

    def check_delete(self) -> None:
        if self.state is State.DEAD:
            raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, "the group is gone")
        if self.state is not State.EMPTY:
            raise ProtocolError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed(self, topic: str) -> bool:
        if not self.is_consumer:
            return False
        topics = self.subscribed_topics
        return topics is None or topic in topics

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is State.EMPTY:
            return commit_timestamp_ms if self.state_since_ms is None else self.state_since_ms
        if self.state is State.STABLE and self.is_consumer and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)]

    # Members.

    def session_timer(self, member: ClassicMember) -> Timer:
        """The timer that drops the member unless it is set again in time."""
        timer = member.session_timer
        if timer is None or timer.after_ms != member.session_timeout_ms:
            timer = self.expiry_timer(member.member_id, member.session_timeout_ms)
            member.session_timer = timer
        return timer

    def expiry_timer(self, member_id: str, after_ms: int | None) -> Timer:
        """The same for any time; None calls it off."""
        event = None if after_ms is None else SessionExpired(self.group_id, member_id)
        return Timer(("session", self.group_id, member_id), after_ms, event)

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the most patient member needs."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_yet_to_meet(self) -> bool:
        """Whether another protocol handed its members over, without what those had who did not come along."""
        return bool(self.members) and self.leader_id is None

    @property
    def has_everyone_joined(self) -> bool:
        return len(self.join_tickets) == len(self.members) and not self.pending

    def is_supporting(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member that speaks these could be one of us."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self.supporters[name] == len(self.members) for name in protocols)

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Take in a member; the first one leads, and says what type of group it is."""
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.instances
            self.instances[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.supporters.update(member.protocols.keys())
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Let a member or a pending id go; its tickets must have been answered."""
        assert member_id not in self.join_tickets
        assert member_id not in self.sync_tickets
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_protocols(member)
            if member.instance_id is not None:
                del self.instances[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        for ids in (self.pending, self.pending_sync, self.newcomers):
            ids.discard(member_id)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member came back under another id: it keeps its place, its share and the lead."""
        assert old.instance_id is not None
        assert old.instance_id == new.instance_id
        self.members = {
            new.member_id if member_id == old.member_id else member_id: new if member is old else member
            for member_id, member in self.members.items()
        }
        self.instances[old.instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        self._forget_protocols(old)
        self.supporters.update(new.protocols.keys())
        self.newcomers.discard(old.member_id)
        if old.member_id in self.pending_sync:
            self.pending_sync.remove(old.member_id)
            self.pending_sync.add(new.member_id)

    def change_protocols(self, member: ClassicMember, protocols: dict[str, bytes]) -> None:
        """A member says anew what it speaks."""
        self._forget_protocols(member)
        member.protocols = protocols
        self.supporters.update(protocols.keys())

    def elect_protocol(self) -> str:
        """Of the protocols that all speak the one most members like best; where two are even, the first voted for."""
        everyone = len(self.members)
        common = {name for name, count in self.supporters.items() if count == everyone}
        votes = Counter(next(name for name in member.protocols if name in common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one who joined; False when nobody did."""
        if self.leader_id not in self.join_tickets:
            joined = next((member_id for member_id in self.members if member_id in self.join_tickets), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    # States.

    def enter(self, state: State, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state} may not become {state}"
        self.previous_state, self.state = self.state, state
        self.state_since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Those who joined are the next generation; it wants an assignment."""
        self.generation += 1
        self.protocol_name = self.elect_protocol()
        self.pending_sync = set(self.members)
        self.forget_topics()
        self.enter(State.COMPLETING, now_ms)

    def forget_topics(self) -> None:
        """What the members read may have changed."""
        self._topics = None

    def _forget_protocols(self, member: ClassicMember) -> None:
        self.supporters.subtract(member.protocols.keys())
        for name in member.protocols:
            if not self.supporters[name]:
                del self.supporters[name]

    def _reckon_topics(self) -> frozenset[str] | None:
        if not self.is_consumer:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            own = subscribed_topics(member.metadata(self.protocol_name))
            if own is None:
                return None
            topics |= own
        return frozenset(topics)
