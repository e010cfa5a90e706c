"""Random walks: whatever happens to the brokers, once it is quiet the registry is sound and everyone knows it."""

import asyncio
import random

import pytest

from millstream.controller.context import Context
from millstream.controller.interface import NO_LEADER
from millstream.controller.loading import load
from millstream.model.ids import TopicPartition, Uuid
from millstream.registry.nodes import CONTROLLER, PartitionState
from tests.scenarios.controller.cluster import Cluster, joined, key_of
from tests.scenarios.script import Command
from tests.simulation.loop import SimLoop

BROKERS = [1, 2, 3, 4]
STEPS = 40


class Walk:
    """Takes one random step after the other, and looks around after each."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._cluster = Cluster()
        self._deaf: set[int] = set()
        self._steps: list[str] = []
        #: Every (leader epoch, leader) there ever was.
        self._led: dict[tuple[Uuid, int], dict[int, int]] = {}
        self._may_lead: dict[tuple[Uuid, int], set[int]] = {}

    async def run(self) -> None:
        await self._do(f"start {' '.join(map(str, BROKERS))}")
        try:
            for _ in range(STEPS):
                await self._do(self._next())
                await self._look()
        except BaseException as error:
            error.add_note("after: " + "; ".join(self._steps))
            raise
        finally:
            await self._cluster.close()

    async def _do(self, line: str) -> None:
        if line.startswith("catch"):
            line = self._caught_up(key_of(line.split()[1]))
        self._steps.append(line)
        await self._cluster.perform(Command(line))

    def _caught_up(self, key: TopicPartition) -> str:
        """A leader takes one more replica into its in-sync set."""
        context = self._cluster._active().controller._context
        partition = None if context is None else context.partition(key)
        state = None if partition is None else partition.state
        if context is None or partition is None or state is None or state.leader == NO_LEADER:
            return "heal 1" if 1 in self._cluster.brokers else "moves"
        others = [each for each in context.live_replicas(key, partition) if each not in state.isr]
        isr = [*state.isr, *others[:1]]
        lasting_key = (context.topics[key.topic].topic_id, key.partition)
        self._may_lead.setdefault(lasting_key, set()).update(others[:1])
        return f"isr {key} {joined(isr)} by={state.leader} epoch={state.leader_epoch} version={partition.version}"

    def _next(self) -> str:
        dice, up = self._dice, sorted(self._cluster.brokers)
        down = [number for number in BROKERS if number not in up]
        topic = f"topic{dice.randrange(4)}"
        choices = [
            f"create {topic} partitions={dice.randrange(1, 4)} replicas={dice.randrange(1, len(up) + 1)} "
            f"min.insync.replicas={dice.randrange(1, 4)}",
            f"create unclean.{topic} replicas={dice.randrange(1, len(up) + 1)}",
            f"widen {topic} {dice.randrange(1, 6)}",
            f"delete {topic}",
            f"prefer {topic}-0",
            f"move {topic}-0 {','.join(map(str, dice.sample(up, dice.randrange(1, len(up) + 1))))}",
            f"move {topic}-0 back",
            f"catch {topic}-0",
        ]
        if len(up) > 1:
            victim, other = dice.sample(up, 2)
            choices += [f"kill {victim}", f"kill {victim}", f"cut {victim} from={other}", f"heal {victim}"]
            hearing = [number for number in up if number not in self._deaf]
            if victim not in self._deaf and len(hearing) > 1:
                choices += [f"expire {victim}", f"shutdown {victim}", f"deafen {victim}"]
            if not self._deaf:
                choices += [f"alarm {victim}"]
        choices += [f"start {number}{dice.choice(('', ' clean'))}" for number in down]
        for deaf in sorted(self._deaf):
            choices += [f"kill {deaf}", f"create {topic} at={deaf}", f"create {topic} at={deaf}"]
        line = dice.choice(choices)
        name, number, *_ = line.split()
        if name == "deafen":
            self._deaf.add(int(number))
        elif name == "kill":
            self._deaf.discard(int(number))
        if name == "kill" and self._deaf >= set(up) - {int(number)}:
            return f"heal {number}"  # Somebody must be left to notice.
        return line

    async def _look(self) -> None:
        registry = self._cluster.tree.session()
        claim = CONTROLLER.decode((await registry.get(CONTROLLER.path())).data)
        controller = self._cluster.brokers[claim.broker_id].controller
        known = controller._context
        assert known is not None
        active = {number for number, broker in self._cluster.brokers.items() if broker.controller.is_active}
        assert active - self._deaf == {claim.broker_id}
        there = Context(known.controller_id, known.epoch, known.epoch_version)
        await load(registry, there)
        assert {name: _hard(known, name) for name in known.topics} == {
            name: _hard(there, name) for name in there.topics
        }
        assert there.brokers == known.brokers
        for key, partition in there.lasting_partitions():
            state = partition.state
            assert state is not None
            self._look_at(there, key, partition.replicas, state)
            if partition.is_moving:
                assert not set(partition.assignment.target) <= set(state.isr), f"{key} has been moved"

    def _look_at(self, there: Context, key: TopicPartition, replicas: tuple[int, ...], state: PartitionState) -> None:
        may_lead = {*state.isr, *state.eligible} or {state.last_known}
        assert may_lead <= set(replicas) and not set(state.isr) & set(state.eligible)
        assert not state.eligible or len(state.isr) < self._cluster.min_in_sync(key.topic)
        if state.leader == NO_LEADER:
            assert not may_lead & there.brokers.keys(), f"{key} could be led"
            assert state.last_known in replicas
        else:
            assert state.leader in state.isr
            assert state.leader in there.brokers
            assert state.last_known == NO_LEADER
        lasting_key = (there.topics[key.topic].topic_id, key.partition)
        if not key.topic.startswith("unclean"):
            before = self._may_lead.get(lasting_key, set(replicas))
            assert may_lead <= before, "no leader asked for more"
            self._may_lead[lasting_key] = may_lead | {state.last_known}
        led = self._led.setdefault(lasting_key, {})
        assert state.leader_epoch >= max(led, default=0)
        assert led.setdefault(state.leader_epoch, state.leader) == state.leader, "two leaders in one epoch"
        for broker_id in there.brokers:
            broker = self._cluster.brokers[broker_id]
            if broker.unreachable_from:
                continue
            assert broker.leaders[key] == state.leader
            if broker_id in replicas and broker_id in state.isr:
                assert broker.roles[key][:2] == (state.leader, state.leader_epoch), joined(replicas)


def _hard(context: Context, name: str) -> object:
    topic = context.topics[name]
    partitions = [
        (number, partition.assignment, partition.state, partition.version)
        for number, partition in sorted(topic.partitions.items())
    ]
    return topic.topic_id, topic.version, topic.is_doomed, partitions


@pytest.mark.parametrize("seed", range(30))
def test_a_random_walk_leaves_the_cluster_sound(seed: int) -> None:
    async def walk() -> None:
        await Walk(seed).run()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(walk())
