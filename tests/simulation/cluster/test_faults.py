"""What befalls a cluster stays within what a replicated log can survive."""

import asyncio
import random

from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.life import _until
from tests.simulation.cluster.processes import ClusterLoop
from tests.simulation.cluster.world import Plan, World
from tests.simulation.network import SimNetwork, Weather

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def test_no_other_machine_loses_power_while_a_disk_fails_though_all_are_in_sync() -> None:
    async def scenario(loop: ClusterLoop, network: SimNetwork) -> None:
        world = World(Plan(random.Random(1), min_insync=2, settings=SETTINGS), loop, network)
        watching = loop.create_task(world.ensemble.watch_over())
        await world.begin()
        await _until(world, world.is_whole, 10, lambda: "not whole")
        faults = Faults(world)
        breaking = loop.create_task(faults._break_disk())
        await asyncio.sleep(0)
        (ailing,) = faults._ailing
        others = [each for each in world.machines.values() if each.id != ailing]
        assert world.is_whole()
        faults._forget_the_healed()
        assert not any(map(faults._may_lose, others))
        await breaking
        await _until(world, world.is_whole, 30, lambda: "not whole")
        faults._forget_the_healed()
        assert all(map(faults._may_lose, others))
        watching.cancel()
        for machine in world.machines.values():
            machine.crash_now(power=False)

    with asyncio.Runner(loop_factory=ClusterLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ClusterLoop)
        loop.network = network = SimNetwork(random.Random(2), Weather())
        runner.run(scenario(loop, network))
