"""Nothing that was committed is lost, whoever stops and however, while fewer lose records than must be in sync.

A partition of a few replicas as a plain model: records are numbers in lists, followers copy their leader, and a
record is committed once all that are in sync have it and they are enough.  The controller's own decisions say who
leads and who is in sync.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.controller import brokers, in_sync
from millstream.controller.context import Context, LiveBroker, Partition, Topic
from millstream.controller.interface import NO_LEADER, ControllerSettings
from millstream.controller.loading import _enter
from millstream.controller.requests import Decision
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from millstream.registry.nodes import PARTITION_STATE, BrokerRegistration, Endpoint, PartitionState
from millstream.registry.tree import Node

KEY = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
REPLICAS = (1, 2, 3)


@dataclass
class Replica:
    """A broker's copy: what it wrote, and how much of it would survive a loss of power."""

    log: list[tuple[int, int]] = field(default_factory=list)
    flushed: int = 0
    is_clean: bool = False


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


class Partitioned(RuleBasedStateMachine):
    """One partition, its replicas, and the controller's mind."""

    @initialize(min_in_sync=st.integers(1, 3), is_flushed=st.booleans())
    def start(self, min_in_sync: int, is_flushed: bool) -> None:
        """``is_flushed``: whatever is written survives, so everybody may lose power at once."""
        self.min_in_sync, self.is_flushed = min_in_sync, is_flushed
        self.settings = ControllerSettings(min_in_sync=lambda topic: min_in_sync)
        self.zxid = 10
        self.records = 0
        self.committed: list[tuple[int, int]] = []
        self.replicas = {number: Replica() for number in REPLICAS}
        #: Replicas that lost records since all were in sync.
        self.lossy: set[int] = set()
        self.context = Context(9, 1, 1)
        self.context.add_topic(Topic(KEY.topic, TOPIC_ID, partitions={0: Partition(REPLICAS)}))
        self.context.brokers = {number: self._broker(number, False) for number in REPLICAS}
        _enter(self.context, KEY, self.partition, None)
        self._carry_out(brokers.take_over(self.context, self.settings))

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
        for change in decision.changes:
            self.context.replay(change)

    def _led(self) -> list[tuple[int, int]]:
        return self.replicas[self.state.leader].log

    def _is_led(self) -> bool:
        return self.partition.state is not None and self.state.leader != NO_LEADER

    def _alter(self, isr: set[int]) -> None:
        asked = AlterPartitionPartition(
            partition_index=0,
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.partition.version,
            new_isr_with_epochs=[
                BrokerState(broker_id=number, broker_epoch=self.context.brokers[number].epoch) for number in sorted(isr)
            ],
        )
        leader = self.state.leader
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=self.context.brokers[leader].epoch,
            topics=[AlterPartitionTopic(topic_id=TOPIC_ID, partitions=[asked])],
        )
        decision, response = in_sync.alter_partitions(self.context, request, self.settings)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
        self._carry_out(decision)

    # What happens.

    @precondition(_is_led)
    @rule()
    def write(self) -> None:
        self.records += 1
        self._led().append((self.state.leader_epoch, self.records))

    @precondition(_is_led)
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

    @precondition(_is_led)
    @rule()
    def write_everywhere(self) -> None:
        """As it mostly goes."""
        self.write()
        for number in REPLICAS:
            self.copy(number, len(self._led()))

    def _commit(self) -> None:
        if len(self.state.isr) >= min(self.min_in_sync, len(REPLICAS)):
            everywhere = min(_common(self._led(), self.replicas[number].log) for number in self.state.isr)
            if everywhere > len(self.committed):
                self.committed = self._led()[:everywhere]

    @precondition(_is_led)
    @rule(number=st.sampled_from(REPLICAS))
    def drop_from_in_sync(self, number: int) -> None:
        if number in self.state.isr and number != self.state.leader:
            self._alter({*self.state.isr} - {number})
            self._commit()

    @precondition(_is_led)
    @rule(number=st.sampled_from(REPLICAS))
    def take_into_in_sync(self, number: int) -> None:
        is_caught_up = self.replicas[number].log == self._led()
        if number in self.context.brokers and number not in self.state.isr and is_caught_up:
            self._alter({*self.state.isr, number})
            self._commit()
            if len(self.state.isr) == len(REPLICAS):
                self.lossy.clear()

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
        if not (is_clean or self.is_flushed):
            is_clean = len(self.lossy | {number}) >= self.min_in_sync
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
        if self._is_led():
            assert self._led()[: len(self.committed)] == self.committed

    @invariant()
    def whoever_may_lead_has_it_too(self) -> None:
        for number in (*self.state.isr, *self.state.eligible):
            if number in self.context.brokers or self.replicas[number].is_clean:
                log = self.replicas[number].log
                assert log[: len(self.committed)] == self.committed, f"{number} lacks records"


TestPartitioned = Partitioned.TestCase
TestPartitioned.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
