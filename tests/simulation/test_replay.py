"""A seed must replay: whatever a simulation finds can be found again, step by step."""

import asyncio
import hashlib
import random

from tests.simulation.asking import create, produce
from tests.simulation.broker import SimBroker
from tests.simulation.loop import run
from tests.simulation.network import SimNetwork, Weather

Trace = list[tuple[float, str]]


def trace_of(seed: int) -> Trace:
    """What time it was and what lay on the disk after each step of a stormy life."""
    rng = random.Random(seed)
    network = SimNetwork(rng, Weather(latency_ms_most=20, fragment_chance=0.5))
    trace: Trace = []

    async def scenario() -> None:
        machine = SimBroker(network, seed, {"log.segment.bytes": "1500"}, delay_ms_max=8)
        for number in range(3):
            await machine.start()
            connection = await machine.connect()
            if not number:
                await create(connection, "orders", partitions=4, flush_messages="3")
            for _ in range(15):
                await produce(connection, "orders", rng.randbytes(rng.randrange(200)), partition=rng.randrange(4))
                await asyncio.sleep(rng.uniform(0, 2))
                trace.append((machine.loop.time(), digest(machine)))
            await machine.crash(power=number % 2 == 0)
            trace.append((machine.loop.time(), digest(machine)))

    run(scenario(), network)
    return trace


def digest(machine: SimBroker) -> str:
    """The disk's names and bytes, in short."""
    whole = hashlib.sha256()
    for path in machine.files.paths():
        whole.update(path.encode() + b"\0" + machine.files.read(path) + b"\0")
    return whole.hexdigest()[:16]


def test_the_same_seed_takes_the_same_steps_and_another_takes_others() -> None:
    first = trace_of(1)
    assert first == trace_of(1)
    assert first != trace_of(2)
    assert len({state for _, state in first}) > 20
