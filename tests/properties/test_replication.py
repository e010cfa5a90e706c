"""Three replicas of a partition and a controller, in any order of events: what was once shown is never lost.

Logs, roles, in-sync sets, what a leader serves and what a follower makes of it are the broker's own; the test is the
network between them (answers come late, or never) and the controller (whose word comes late, too).  How many must be in
sync changes, and each broker and the controller hear of it when they do.
"""

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.controller.elections import eligible_after, offline
from millstream.controller.interface import NO_LEADER
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.replication.following.followed import Followed
from millstream.replication.following.place import State
from millstream.replication.role import Leadership, Part
from tests.unit.replication.node import Node
from tests.unit.replication.replica import REPLICAS
from tests.unit.storage.ground import SetClock, batch

LAG_MS = 30_000
MIN_INSYNC = 2
SETTINGS: dict[str, Any] = {"segment_bytes": 400, "index_interval_bytes": 100, "min_insync_replicas": MIN_INSYNC}


class Replication:
    """The controller's state, the brokers, and every record that some consumer may have seen."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = SetClock()
        self.shown: list[bytes] = []
        self.count = 0
        self.nodes = {broker_id: Node(broker_id, self.clock, **SETTINGS) for broker_id in REPLICAS}
        self.alive = set(REPLICAS)
        self.leader, self.epoch, self.version = 1, 0, 0
        self.isr: tuple[int, ...] = REPLICAS
        self.eligible: tuple[int, ...] = ()
        #: How many must be in sync, as the controller has heard, and as each broker has.
        self.min_insync = MIN_INSYNC
        self.own_min_insync = dict.fromkeys(REPLICAS, MIN_INSYNC)
        #: The number that a broker's proposal named.
        self.proposed_with: dict[int, int] = {}
        #: Brokers that have not heard the controller's last word.
        self.untold: set[int] = set(REPLICAS)
        for broker_id in REPLICAS:
            self.tell(broker_id)

    # The controller.

    def tell(self, broker_id: int) -> None:
        self.untold.discard(broker_id)
        node = self.nodes[broker_id]
        before = node.partition.role.leadership
        told = Leadership(1, self.leader, self.epoch, self.isr, self.version, REPLICAS, eligible=self.eligible)
        assert node.partition.follow(told) is ErrorCode.NONE
        role = node.partition.role
        if role.part is Part.LEADER or self.leader < 0:
            node.followed = None
        elif node.followed is None or before.leader_epoch != self.epoch:
            node.followed = Followed(node.partition, 1_000)
        self.look(node)

    def decide(
        self, leader: int, isr: tuple[int, ...], min_insync: int | None = None, unclean: Collection[int] = ()
    ) -> None:
        if leader != self.leader:
            self.epoch += 1
        least = None if leader == NO_LEADER else self.min_insync if min_insync is None else min_insync
        self.eligible = eligible_after((*self.isr, *self.eligible), isr, least, unclean)
        self.leader, self.isr = leader, isr
        self.version += 1
        self.untold = set(REPLICAS)

    def elect(self) -> None:
        """Somebody in sync leads, if one is alive; else somebody who is eligible."""
        if self.leader not in self.alive:
            elected = offline(REPLICAS, self.isr, self.alive, eligible=self.eligible)
            self.decide(*((NO_LEADER, self.isr) if elected is None else (elected.leader, elected.isr)))

    def hear_of_settings(self) -> None:
        """As many must be in sync as was set: the controller hears of it, or some broker, whoever leads before all."""
        least, broker_id = self.rng.choice(REPLICAS), self.rng.choice((NO_LEADER, self.leader, *REPLICAS))
        if broker_id != NO_LEADER:
            self.own_min_insync[broker_id] = least
            if broker_id in self.alive:
                self.configure(self.nodes[broker_id])
                self.look(self.nodes[broker_id])
        else:
            self.min_insync = least
            if self.leader in self.alive and len(self.isr) >= least and self.eligible:
                self.decide(self.leader, self.isr)

    def configure(self, node: Node) -> None:
        log = node.replica.log
        log.config = replace(log.config, min_insync_replicas=self.own_min_insync[node.replica.id])
        node.partition.in_sync_changed()

    def hear(self) -> None:
        """Some brokers hear the controller's word."""
        for broker_id in sorted(self.untold & self.alive):
            if self.rng.random() < 0.7:
                self.tell(broker_id)

    def grant(self) -> None:
        """Answer leaders' proposals, if they are not out of date; the answers may be lost on their way back."""
        for broker_id in sorted(self.alive):
            if self.nodes[broker_id].proposal is not None:
                self.answer(self.nodes[broker_id], lost=self.rng.random() < 0.2)

    def answer(self, node: Node, lost: bool) -> None:
        proposal, node.proposal = node.proposal, None
        assert proposal is not None
        isr = tuple(replica for replica, _ in proposal.isr)
        code = ErrorCode.NONE
        if proposal.leader_epoch != self.epoch or node.replica.id != self.leader:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif isr != self.isr and proposal.partition_epoch != self.version:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif any(id_ not in self.alive or life not in (-1, self.nodes[id_].life) for id_, life in proposal.isr):
            code = ErrorCode.INELIGIBLE_REPLICA
        elif proposal.partition_epoch == self.version:
            self.decide(self.leader, isr, min(self.min_insync, self.proposed_with[node.replica.id]))
        role = node.partition.role
        if lost:
            code = ErrorCode.REQUEST_TIMED_OUT
        if code and role.leading is not None:
            role.leading.refused(proposal, code, self.clock.ms)
        elif not code and role.granted(proposal, isr, self.version, self.clock.ms, self.eligible):
            node.partition.in_sync_changed()
        self.look(node)

    # Brokers.

    def write(self) -> None:
        """Whoever believes to lead takes records."""
        leading = [id_ for id_ in sorted(self.alive) if self.nodes[id_].partition.role.part is Part.LEADER]
        if leading:
            node = self.nodes[self.rng.choice(leading)]
            self.count += 1
            records = batch(self.rng.randint(1, 3), value=b"%d" % self.count)
            try:
                node.replica.write(records, acks=self.rng.choice((1, -1)))
            except ProtocolError as refusal:
                assert refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS
            self.look(node)

    def ask_one(self) -> None:
        self.ask(self.rng.choice(REPLICAS))

    def ask(self, broker_id: int) -> None:
        """A follower fetches; its leader answers at once, and the answer is on its way."""
        node = self.nodes[broker_id]
        if broker_id not in self.alive or node.followed is None or node.answer is not None:
            return
        node.followed.place.resume(1 << 60)
        leader = node.partition.role.leadership.leader
        if leader not in self.alive:
            return
        if node.followed.place.state is State.FETCHING:
            position = node.followed.place.position
            row = self.nodes[leader].serve(broker_id, node.life, position)
            self.look(self.nodes[leader])
            if row is not None:
                node.answer = (position, row)
        elif node.followed.place.state is State.ASTRAY:
            log = self.nodes[leader].replica.log
            node.followed.bounded((log.start_offset, log.end_offset), self.clock.ms)

    def replicate(self) -> None:
        """Some followers fetch and take what comes."""
        for broker_id in self.rng.sample(REPLICAS, self.rng.randint(1, 3)):
            for _ in range(self.rng.randint(1, 3)):
                self.ask(broker_id)
                self.take(broker_id)

    def take_one(self) -> None:
        self.take(self.rng.choice(REPLICAS), is_lost=self.rng.random() < 0.2)

    def take(self, broker_id: int, *, is_lost: bool = False) -> None:
        """An answer arrives, or does not."""
        node = self.nodes[broker_id]
        answer, node.answer = node.answer, None
        if answer is None or is_lost or node.followed is None or broker_id not in self.alive:
            return
        position, row = answer
        if node.followed.place.is_answered_by(position):
            node.followed.take(row, self.clock.ms)
        self.look(node)

    def propose(self) -> None:
        """Time passes, and leaders look after their followers."""
        self.clock.ms += self.rng.choice((100, LAG_MS // 2, LAG_MS + 1))
        for broker_id in sorted(self.alive):
            node = self.nodes[broker_id]
            role = node.partition.role
            if role.leading is not None and node.proposal is None:
                self.proposed_with[broker_id] = self.own_min_insync[broker_id]
                node.proposal = role.leading.propose(
                    role.leadership.leader_epoch,
                    role.leadership.partition_epoch,
                    node.life,
                    node.partition.high_watermark,
                    node.replica.log.end_offset,
                    self.clock.ms,
                    LAG_MS,
                    node.replica.log.config.min_insync_replicas,
                )
        if self.rng.random() < 0.7:
            self.grant()

    def die(self) -> None:
        """Without power what was not flushed is lost, but not of the last one in sync: all could be lost with it."""
        broker_id, power = self.rng.choice(REPLICAS), self.rng.random() < 0.5
        if broker_id not in self.alive or (power and self.isr == (broker_id,)):
            return
        node = self.nodes[broker_id]
        if self.rng.random() < 0.5:
            node.replica.log.flush()
        node.mark = self.rng.randint(node.mark, max(node.mark, node.partition.high_watermark))
        (node.replica.files.crash if power else node.replica.files.kill)()
        self.alive.discard(broker_id)
        node.begin()
        for other in self.nodes.values():
            other.sessions.pop(broker_id, None)
        unclean = {broker_id} if power else set()
        if len(self.isr) > 1 and broker_id in self.isr:
            self.decide(self.leader, tuple(id_ for id_ in self.isr if id_ != broker_id), unclean=unclean)
        elif self.eligible != eligible_after(self.eligible, self.isr, None, unclean):
            self.decide(self.leader, self.isr, unclean=unclean)
        self.elect()

    def come_back(self) -> None:
        dead = [id_ for id_ in REPLICAS if id_ not in self.alive]
        if dead:
            node = self.nodes[self.rng.choice(dead)]
            node.replica.start(node.mark)
            node.life += 1
            node.begin()
            self.configure(node)
            self.alive.add(node.replica.id)
            self.elect()
            self.tell(node.replica.id)

    # What must hold.

    def look(self, node: Node) -> None:
        """Whatever a consumer may read here must be what anybody was ever shown."""
        upper = node.partition.high_watermark
        values = [record.value or b"" for record in node.replica.records if record.offset < upper]
        both = min(len(values), len(self.shown))
        assert values[:both] == self.shown[:both], f"broker {node.replica.id} shows something else"
        self.shown += values[both:]

    def check(self) -> None:
        """Whoever leads has all that was shown."""
        if self.leader in self.alive and self.leader not in self.untold:
            values = [record.value for record in self.nodes[self.leader].replica.records]
            assert values[: len(self.shown)] == self.shown, f"broker {self.leader} leads and has lost records"

    def calm(self) -> None:
        """Once everybody is back and nothing fails, all logs become the same."""
        while len(self.alive) < len(REPLICAS):
            self.come_back()
        for _ in range(400):
            for broker_id in REPLICAS:
                self.tell(broker_id)
                self.ask(broker_id)
                self.take(broker_id)
            if self.all_agree():
                return
        raise AssertionError("the replicas do not agree")

    def all_agree(self) -> bool:
        logs = [node.replica.log for node in self.nodes.values()]
        if len({log.end_offset for log in logs}) > 1:
            return False
        return len({node.replica.all_bytes() for node in self.nodes.values()}) == 1


#: What happens, and how often.
EVENTS: dict[Callable[[Replication], None], int] = {
    Replication.write: 6,
    Replication.replicate: 8,
    Replication.ask_one: 3,
    Replication.take_one: 3,
    Replication.hear: 5,
    Replication.propose: 4,
    Replication.grant: 1,
    Replication.hear_of_settings: 2,
    Replication.die: 2,
    Replication.come_back: 3,
}
#: The same while many a setting is tried out.
RESTLESS = EVENTS | {Replication.hear_of_settings: 8, Replication.die: 3}


def live(replication: Replication, events: dict[Callable[[Replication], None], int], count: int) -> None:
    for event in replication.rng.choices(list(events), list(events.values()), k=count):
        event(replication)
        replication.check()
    replication.calm()
    replication.check()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_what_was_once_shown_is_never_lost_and_all_replicas_come_to_agree(seed: int) -> None:
    live(Replication(random.Random(seed)), EVENTS, 80)


@settings(max_examples=250)
@given(seed=st.integers(0, 2**32))
def test_nothing_is_lost_while_leaders_and_controller_hear_of_other_numbers_that_must_be_in_sync(seed: int) -> None:
    live(Replication(random.Random(seed)), RESTLESS, 150)
