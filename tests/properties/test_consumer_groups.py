"""Random histories of consumer groups: members that are quick, slow, silent or leaving, topics that grow, restarts.

At every moment no partition has two owners, and what is loaded from the log is what there was; once everybody is quick
again, everybody has what the plan says, and the plan is even.
"""

from itertools import count
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import MemberState
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.coordination.groups.consumer.clients import GROUP, ClassicConsumer, Consumer, Partition, stage_of
from tests.unit.coordination.stage import Topics, topic_id_of

SESSION_MS = GroupSettings().group_consumer_session_timeout_ms
NAMES = ("orders", "bills", "team-a")


def hard_state(group: ConsumerGroup) -> tuple[Any, ...]:
    """All that the log must bring back; members are what their fields say."""
    return (
        group.epoch,
        group.assignment_epoch,
        group.metadata_hash,
        group.members,
        group.instances,
        group.plans,
        group.owners,
        group.regexes,
    )


class Histories(RuleBasedStateMachine):
    """One group, whatever befalls it."""

    consumers: Bundle[Consumer] = Bundle("consumers")

    def __init__(self) -> None:
        super().__init__()
        self._topics = Topics(orders=3, bills=2)
        self._stage = stage_of(self._topics)
        self._ids = (f"c{number}" for number in count())
        self._all: list[Consumer] = []
        #: When each was last heard.
        self._heard_ms: dict[str, int] = {}

    # What happens.

    @rule(target=consumers, names=st.sampled_from([("orders",), ("orders", "bills"), ("bills",), ()]))
    def join(self, names: tuple[str, ...]) -> Consumer:
        return self._joined(Consumer(self._stage, next(self._ids), *names))

    @rule(target=consumers, assignor=st.sampled_from(["uniform", "range", None]), is_regex=st.booleans())
    def join_by_pattern_or_with_a_wish(self, assignor: str | None, is_regex: bool) -> Consumer:
        names: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": ".*(s|-a)"}
        told = (names if is_regex else {"subscribed_topic_names": ["orders"]}) | {"server_assignor": assignor}
        return self._joined(Consumer(self._stage, next(self._ids), **told))

    @rule(consumer=consumers, is_slow=st.booleans())
    def beat(self, consumer: Consumer, is_slow: bool) -> None:
        consumer.beat(is_slow=is_slow)
        self._heard_ms[consumer.member_id] = self._stage.now_ms

    @rule(consumer=consumers, names=st.sets(st.sampled_from(NAMES)))
    def subscribe(self, consumer: Consumer, names: set[str]) -> None:
        consumer.subscribe(*sorted(names))
        self.beat(consumer, is_slow=False)

    @rule(target=consumers, consumer=consumes(consumers))
    def leave(self, consumer: Consumer) -> Any:
        if consumer.member_id in self._members:
            consumer.leave()
        self._all.remove(consumer)
        return multiple()

    @rule(by_ms=st.sampled_from([1, 5_000, 20_000, SESSION_MS]))
    def wait(self, by_ms: int) -> None:
        self._stage.advance(by_ms)

    @rule(name=st.sampled_from(NAMES), is_told=st.booleans())
    def widen(self, name: str, is_told: bool) -> None:
        view = self._topics.by_name(name)
        self._topics.make(name, 1 if view is None else min(view.partition_count + 1, 8))
        if is_told:
            self._stage.topics_changed(name)

    @rule()
    def restart(self) -> None:
        self._stage.restart()
        self._heard_ms = dict.fromkeys(self._members, self._stage.now_ms)  # Sessions begin anew.

    @rule()
    def converge(self) -> None:
        """Everybody is quick for a while: the group comes to rest, where the plan says."""
        self._stage.topics_changed(*NAMES)
        for _ in range(6):
            for consumer in self._all:
                self.beat(consumer, is_slow=False)
        if not self._all:
            return
        group = self._group
        assert group.state_name == "Stable"
        for consumer in self._all:
            plan = group.plans.get(consumer.member_id, {})
            assert consumer.owned == {
                (name, each) for name in NAMES for each in plan.get(topic_id_of(name), frozenset())
            }
            assert consumer.epoch == group.epoch
        self._check_even()

    # What holds.

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: dict[Partition, str] = {}
        for consumer in self._all:
            member = self._members.get(consumer.member_id)
            if member is None:
                continue  # It was dropped, and may not know yet: its commits are refused.
            for owned in (member.assigned, member.revoking):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        assert owners.setdefault((topic_id.hex(), partition), consumer.member_id) == consumer.member_id
            mine = {key for key, owner in self._group.owners.items() if owner == consumer.member_id}
            if consumer.epoch:
                assert {(topic_id_of(name), partition) for name, partition in consumer.owned} <= mine

    @invariant()
    def what_is_loaded_is_what_there_was(self) -> None:
        machine = self._stage.loaded_anew()
        assert isinstance(machine, GroupMachine)
        loaded = machine.groups.get(GROUP)
        if isinstance(loaded, ConsumerGroup):
            assert hard_state(loaded) == hard_state(self._group)

    @invariant()
    def who_is_silent_is_dropped(self) -> None:
        for member_id in self._members:
            assert self._heard_ms[member_id] + SESSION_MS > self._stage.now_ms

    @invariant()
    def a_member_gives_back_only_while_it_must(self) -> None:
        for member in self._members.values():
            assert not member.revoking or member.state is MemberState.UNREVOKED_PARTITIONS

    def _check_even(self) -> None:
        group = self._group
        subscriptions = {group.topics_of(member) for member in group.members.values()}
        if len(subscriptions) == 1 and group.preferred_assignor(["uniform", "range"]) == "uniform":
            sizes = [len(consumer.owned) for consumer in self._all]
            assert max(sizes) - min(sizes) <= 1

    def _joined(self, consumer: Consumer) -> Consumer:
        self._all.append(consumer)
        self.beat(consumer, is_slow=False)
        return consumer

    @property
    def _group(self) -> ConsumerGroup:
        machine = self._stage.machine
        assert isinstance(machine, GroupMachine)
        group = machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def _members(self) -> dict[str, Any]:
        machine = self._stage.machine
        assert isinstance(machine, GroupMachine)
        return self._group.members if GROUP in machine.groups else {}


class GuestHistories(Histories):
    """The same with classic members in the group, which may stay there by themselves."""

    guests: Bundle[ClassicConsumer] = Bundle("guests")

    def __init__(self) -> None:
        super().__init__()
        self._stage = stage_of(self._topics, lambda: GroupSettings(group_consumer_migration_policy="upgrade"))
        self._guests: list[ClassicConsumer] = []

    @precondition(lambda self: self._members)
    @rule(target=guests, names=st.sampled_from([("orders",), ("orders", "bills")]))
    def join_as_guest(self, names: tuple[str, ...]) -> ClassicConsumer:
        guest = ClassicConsumer(self._stage, *names, session_ms=SESSION_MS)
        guest.join()
        self._guests.append(guest)
        self._hear(guest)
        return guest

    @rule(guest=guests)
    def beat_as_guest(self, guest: ClassicConsumer) -> None:
        if guest not in self._guests:
            return
        if guest.member_id in self._members:
            guest.beat()
            self._hear(guest)
        else:
            self._guests.remove(guest)  # It would be told, and begin anew.

    @rule(guest=guests)
    def leave_as_guest(self, guest: ClassicConsumer) -> None:
        if guest in self._guests and guest.member_id in self._members:
            leaving = [MemberIdentity(member_id=guest.member_id)]
            self._stage.ask(LeaveGroupRequest(group_id=GROUP, member_id="", members=leaving))
            self._guests.remove(guest)

    @rule()
    def converge_with_guests(self) -> None:
        for _ in range(8):
            for guest in list(self._guests):
                self.beat_as_guest(guest)
            for consumer in self._all:
                self.beat(consumer, is_slow=False)
        if not self._clients:
            return
        group = self._group
        assert group.state_name == "Stable"
        for client in self._clients:
            plan = group.plans.get(client.member_id, {})
            assert client.owned == {(name, each) for name in NAMES for each in plan.get(topic_id_of(name), frozenset())}

    @invariant()
    def no_partition_has_two_clients(self) -> None:
        owned = [each for client in self._clients if client.member_id in self._members for each in client.owned]
        assert len(owned) == len(set(owned))

    def converge(self) -> None:
        """Not without the guests."""

    @property
    def _clients(self) -> list[Consumer | ClassicConsumer]:
        return [*self._all, *self._guests]

    def _hear(self, guest: ClassicConsumer) -> None:
        self._heard_ms[guest.member_id] = self._stage.now_ms


SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.reuse, Phase.generate, Phase.shrink],  # Explaining traces every line.
)
TestHistories = Histories.TestCase
TestHistories.settings = SETTINGS
TestGuestHistories = GuestHistories.TestCase
TestGuestHistories.settings = SETTINGS
