"""Nothing that was committed is lost, whoever stops and however, while fewer lose records than must be in sync.

A partition of a few replicas as a plain model: records are numbers in lists, followers copy their leader, and a
record is committed once all that are in sync have it and they are enough, as its leader was told, and nobody else is
eligible.  The controller's own decisions say who leads and who is in sync.  How many must be in sync changes, and
leaders and controller hear of it when they do; words of the controller come late, its answers late or never.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.controller import brokers, in_sync
from millstream.controller.context import Context, LiveBroker, Partition, Topic
from millstream.controller.interface import NO_LEADER, ControllerSettings
from millstream.controller.loading import _enter
from millstream.controller.requests import Decision
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from millstream.registry.nodes import PARTITION_STATE, BrokerRegistration, Endpoint, PartitionState
from millstream.registry.tree import Node

KEY = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
REPLICAS = (1, 2, 3)
#: What becomes of a leader's request: it is answered, or its answer is lost, or it comes once it was given up.
ANSWERED, UNANSWERED, LATE = "answered", "unanswered", "late"
FATES = st.sampled_from((ANSWERED, ANSWERED, UNANSWERED, LATE))


@dataclass
class Replica:
    """A broker's copy: what it wrote, and how much of it would survive a loss of power."""

    log: list[tuple[int, int]] = field(default_factory=list)
    flushed: int = 0
    is_clean: bool = False
    #: How many must be in sync, as this broker has heard.
    min_in_sync: int = 1


@dataclass(frozen=True)
class Told:
    """What a leader knows of its partition; who ``may_be`` in sync was asked for, and no answer came."""

    leader_epoch: int
    version: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    may_be: frozenset[int] = frozenset()


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


class Partitioned(RuleBasedStateMachine):
    """One partition, its replicas, and the controller's mind."""

    @initialize(least=st.integers(1, 3), more=st.integers(0, 2), is_flushed=st.booleans())
    def start(self, least: int, more: int, is_flushed: bool) -> None:
        """``is_flushed``: whatever is written survives, so everybody may lose power at once.

        Otherwise fewer do than ``least``, the least number that must ever be in sync: so many ``more`` at first.
        """
        self.least, self.is_flushed = least, is_flushed
        self.min_in_sync = least + more
        self.settings = ControllerSettings(min_in_sync=lambda topic: self.min_in_sync)
        self.told: Told | None = None
        #: A request that its leader has given up, and which may arrive all the same.
        self.late: AlterPartitionRequest | None = None
        self.zxid = 10
        self.records = 0
        self.committed: list[tuple[int, int]] = []
        self.replicas = {number: Replica(min_in_sync=self.min_in_sync) for number in REPLICAS}
        #: Replicas that lost records since all were in sync.
        self.lossy: set[int] = set()
        self.context = Context(9, 1, 1)
        self.context.add_topic(Topic(KEY.topic, TOPIC_ID, partitions={0: Partition(REPLICAS)}))
        self.context.brokers = {number: self._broker(number, False) for number in REPLICAS}
        _enter(self.context, KEY, self.partition, None)
        self._carry_out(brokers.take_over(self.context, self.settings))
        self.hear()

    # The cluster.

    def _broker(self, number: int, is_clean: bool) -> LiveBroker:
        self.zxid += 1
        registration = BrokerRegistration((Endpoint("PLAINTEXT", "here", 1),), is_clean=is_clean)
        return LiveBroker(number, self.zxid, registration)

    @property
    def partition(self) -> Partition:
        return self.context.topics[KEY.topic].partitions[0]

    @property
    def state(self) -> PartitionState:
        assert self.partition.state is not None
        return self.partition.state

    def _carry_out(self, decision: Decision) -> None:
        before = self.partition.state
        for change in decision.changes:
            self.context.replay(change)
        if before is not None and self.state.leader == NO_LEADER:
            unclean = {number for number, live in self.context.brokers.items() if not live.registration.is_clean}
            could, can = {*before.isr, *before.eligible}, {*self.state.isr, *self.state.eligible}
            assert could - unclean <= can <= could, "where nobody leads, nothing but a loss strikes anybody"

    def _led(self) -> list[tuple[int, int]]:
        return self.replicas[self.state.leader].log

    def _leads(self) -> bool:
        """Whether somebody leads and knows it."""
        state = self.partition.state
        return state is not None and state.leader != NO_LEADER and self.told is not None

    def _asked(self, isr: Iterable[int]) -> AlterPartitionRequest:
        """What the leader asks for, by what it was told; from now on all of these may be in sync."""
        assert self.told is not None
        leader, live = self.state.leader, self.context.brokers
        asked = AlterPartitionPartition(
            partition_index=0,
            leader_epoch=self.told.leader_epoch,
            partition_epoch=self.told.version,
            new_isr_with_epochs=[
                BrokerState(broker_id=number, broker_epoch=live[number].epoch if number in live else -1)
                for number in isr
            ],
            min_in_sync=self.replicas[leader].min_in_sync,
        )
        self.told = replace(self.told, may_be=self.told.may_be.union(isr))
        return AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=live[leader].epoch,
            topics=[AlterPartitionTopic(topic_id=TOPIC_ID, partitions=[asked])],
        )

    def _arrive(self, request: AlterPartitionRequest) -> AlterPartitionPartitionResult | None:
        """What the controller answers; None where the request is another broker's, or refused."""
        decision, response = in_sync.alter_partitions(self.context, request, self.settings)
        self._carry_out(decision)
        row = response.topics[0].partitions[0] if response.topics else None
        return None if row is None or row.error_code else row

    def _alter(self, isr: Iterable[int], fate: str) -> None:
        request = self._asked(isr)
        if fate == LATE:
            self.late = request
            return
        row = self._arrive(request)
        assert self.told is not None
        if row is not None and fate == ANSWERED:
            self.told = Told(row.leader_epoch, row.partition_epoch, tuple(row.isr), tuple(row.eligible_replicas))
            self._commit()

    # What happens.

    @rule()
    def hear(self) -> None:
        """The leader is told the partition's state; what it knows already settles nothing."""
        state = self.state
        if state.leader == NO_LEADER:
            return
        now = Told(state.leader_epoch, self.partition.version, state.isr, state.eligible)
        if self.told is None or (self.told.leader_epoch, self.told.version) < (now.leader_epoch, now.version):
            self.told = now
        self._commit()

    @precondition(_leads)
    @rule()
    def write(self) -> None:
        assert self.told is not None
        self.records += 1
        self._led().append((self.told.leader_epoch, self.records))
        self._commit()

    @precondition(_leads)
    @rule(number=st.sampled_from(REPLICAS), count=st.integers(0, 3))
    def copy(self, number: int, count: int) -> None:
        """A follower cuts what its leader does not have and copies some more; then what all in sync have commits."""
        if number not in self.context.brokers or number == self.state.leader:
            return
        led, follower = self._led(), self.replicas[number]
        common = _common(led, follower.log)
        follower.log[common:] = led[common : common + count]
        follower.flushed = min(follower.flushed, len(follower.log))
        self._commit()

    @precondition(_leads)
    @rule()
    def write_everywhere(self) -> None:
        """As it mostly goes."""
        self.hear()
        self.write()
        for number in REPLICAS:
            self.copy(number, len(self._led()))

    def _commit(self) -> None:
        if not self._leads():
            return
        assert self.told is not None
        least = min(self.replicas[self.state.leader].min_in_sync, len(REPLICAS))
        if len(self.told.isr) < least or self.told.eligible:
            return
        awaited = self.told.may_be.union(self.told.isr)
        everywhere = min(_common(self._led(), self.replicas[number].log) for number in awaited)
        if everywhere > len(self.committed):
            self.committed = self._led()[:everywhere]

    @precondition(_leads)
    @rule(number=st.sampled_from(REPLICAS), fate=FATES)
    def drop_from_in_sync(self, number: int, fate: str) -> None:
        assert self.told is not None
        if number in self.told.isr and number != self.state.leader:
            self._alter([each for each in self.told.isr if each != number], fate)

    @precondition(_leads)
    @rule(number=st.sampled_from(REPLICAS), fate=FATES)
    def take_into_in_sync(self, number: int, fate: str) -> None:
        assert self.told is not None
        is_caught_up = self.replicas[number].log == self._led()
        is_settled = self.told.may_be <= set(self.told.isr)
        if number in self.context.brokers and number not in self.told.isr and is_caught_up and is_settled:
            self._alter([*self.told.isr, number], fate)
            if len(self.state.isr) == len(REPLICAS):
                self.lossy.clear()

    @precondition(_leads)
    @rule(fate=FATES)
    def ask_for_the_same(self, fate: str) -> None:
        """So nobody is eligible any more, once there are enough without them; and what is not known is settled."""
        assert self.told is not None
        self._alter(self.told.isr, fate)

    @rule()
    def arrive_late(self) -> None:
        if self.late is not None:
            self._arrive(self.late)
            self.late = None

    @rule(number=st.sampled_from((NO_LEADER, *REPLICAS)), least=st.integers(1, 3), is_seen_to=st.booleans())
    def hear_of_settings(self, number: int, least: int, is_seen_to: bool) -> None:
        """A broker hears how many must be in sync, or the controller, who then may yet have to look at the topic."""
        least = max(least, self.least)
        if number != NO_LEADER:
            self.replicas[number].min_in_sync = least
            self._commit()
        else:
            self.min_in_sync = least
            if is_seen_to:
                self._carry_out(brokers.topic_changed(self.context, KEY.topic, self.settings))

    @rule(numbers=st.sets(st.sampled_from(REPLICAS), min_size=1), is_clean=st.booleans())
    def stop(self, numbers: set[int], is_clean: bool) -> None:
        gone = numbers & self.context.brokers.keys()
        for number in gone:
            self._go(number, is_clean)
        self.context.brokers = {key: broker for key, broker in self.context.brokers.items() if key not in gone}
        self._carry_out(brokers.brokers_went(self.context, gone, self.settings))

    @rule(number=st.sampled_from(REPLICAS))
    def restart_under_another_controller(self, number: int) -> None:
        """The broker and the controller go at once, so nobody saw it go."""
        if number not in self.context.brokers:
            return
        is_clean = self._go(number, is_clean=False)
        before, live = self.context, dict(self.context.brokers)
        live[number] = self._broker(number, is_clean)
        node = Node(PARTITION_STATE.encode(self.state), self.partition.version, 0, 0, 0, 0)
        self.context = Context(9, before.epoch + 1, before.epoch_version + 1)
        self.context.add_topic(Topic(KEY.topic, TOPIC_ID, partitions={0: Partition(REPLICAS)}))
        self.context.brokers, self.context.settled = live, before.settled
        _enter(self.context, KEY, self.partition, node)
        self._carry_out(brokers.take_over(self.context, self.settings))

    def _go(self, number: int, is_clean: bool) -> bool:
        """Says whether it went cleanly, which it does where otherwise too many would have lost records."""
        replica = self.replicas[number]
        if number == self.state.leader:
            self.told = None
        if not (is_clean or self.is_flushed):
            is_clean = len(self.lossy | {number}) >= self.least
            if not is_clean:
                self.lossy.add(number)
                del replica.log[replica.flushed :]
        replica.is_clean = is_clean
        replica.flushed = len(replica.log)
        return is_clean

    @rule(number=st.sampled_from(REPLICAS))
    def come_back(self, number: int) -> None:
        if number not in self.context.brokers:
            self.context.brokers[number] = self._broker(number, self.replicas[number].is_clean)
            self._carry_out(brokers.brokers_came(self.context, {number}, self.settings))

    # What must hold.

    @invariant()
    def the_leader_has_all_that_was_committed(self) -> None:
        if self.partition.state is not None and self.state.leader != NO_LEADER:
            assert self._led()[: len(self.committed)] == self.committed

    @invariant()
    def whoever_may_lead_has_it_too(self) -> None:
        for number in (*self.state.isr, *self.state.eligible):
            if number in self.context.brokers or self.replicas[number].is_clean:
                log = self.replicas[number].log
                assert log[: len(self.committed)] == self.committed, f"{number} lacks records"


TestPartitioned = Partitioned.TestCase
TestPartitioned.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
