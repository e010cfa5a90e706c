"""Transactions while the broker is killed, loses its power or its disk at moments of the seed's choice.

What must hold: a transaction that was said to be committed is visible as a whole and stays so, one that was not is
visible as a whole or not at all, and a group's offsets go with the transaction that carried them.
"""

import asyncio
import errno
import random

import pytest

from tests.simulation.asking import create
from tests.simulation.broker import SimBroker
from tests.simulation.loop import run
from tests.simulation.network import SimNetwork, Weather
from tests.simulation.transacting import PARTITIONS, TIMEOUT_MS, TOPIC, Client, Fate, Transactor

SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.segment.bytes": "2000",
    "transaction.state.log.segment.bytes": "2000",
    "log.segment.bytes": "4000",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.cleanable.ratio": "0.01",
}


class Watcher(Client):
    """A committed reader that follows every partition, and so notices what is taken back."""

    def __init__(self, machine: SimBroker, rng: random.Random) -> None:
        super().__init__(machine, rng)
        self.seen: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        self._offsets = dict.fromkeys(self.seen, 0)
        self.is_stopped = False

    async def run(self) -> None:
        while not self.is_stopped:
            partition = self.rng.randrange(PARTITIONS)
            values, self._offsets[partition] = await self.read_committed(partition, self._offsets[partition])
            self.seen[partition] += values
            await asyncio.sleep(self.rng.uniform(0, 0.2))


async def crash(machine: SimBroker, rng: random.Random, *, may_lose_power: bool) -> None:
    """End the broker now, or in the middle of a turn: from some write on nothing reaches the disk any more."""
    if rng.random() < 0.5:
        machine.files.fail("*", error=errno.EIO, after=rng.randrange(60))
        await asyncio.sleep(rng.uniform(0, 0.3))
    await machine.crash(power=may_lose_power and rng.random() < 0.6)
    machine.files.heal()
    await asyncio.sleep(rng.uniform(0, 0.3))
    await machine.start()


async def live(network: SimNetwork, seed: int) -> None:
    """A life of a few crashes, and the reckoning."""
    rng = random.Random(seed)
    may_lose_power = rng.random() < 0.6
    settings = SETTINGS | ({"log.flush.interval.messages": "1"} if may_lose_power else {})
    machine = SimBroker(network, seed, settings, delay_ms_max=rng.choice((0, 3)))
    await machine.start()
    await create(await machine.connect(), TOPIC, PARTITIONS)
    watcher = Watcher(machine, rng)
    await watcher.find_coordinators()
    network.weather.reset_chance = rng.choice((0, 0.01))
    transactors = [Transactor(machine, rng, f"t{number}") for number in range(rng.randint(1, 3))]
    tasks = [asyncio.create_task(transactor.run()) for transactor in transactors]
    if not may_lose_power:  # Readers are shown what is not on disk yet, as Kafka's are.
        tasks.append(asyncio.create_task(watcher.run()))
    for _ in range(rng.randint(1, 4)):
        await asyncio.sleep(rng.uniform(0, 2))
        await crash(machine, rng, may_lose_power=may_lose_power)
    await asyncio.sleep(rng.uniform(0, 1))
    watcher.is_stopped = True
    for transactor in transactors:
        transactor.is_stopped = True
    await asyncio.gather(*tasks)
    await reckon(watcher, transactors, is_settled_by_time=rng.random() < 0.3)
    await machine.stop()


async def reckon(watcher: Watcher, transactors: list[Transactor], *, is_settled_by_time: bool) -> None:
    """Compare what there is with what everyone was told."""
    if is_settled_by_time:
        await asyncio.sleep(2 * TIMEOUT_MS / 1000)
    else:
        for transactor in transactors:
            await transactor.begin_anew()
    visible = {partition: await watcher.all_committed(partition) for partition in range(PARTITIONS)}
    for partition, seen in watcher.seen.items():
        assert visible[partition][: len(seen)] == seen, "what was seen was taken back"
    for partition, values in visible.items():
        assert len(values) == len(set(values)), f"something came twice in {partition}"
    for transactor in transactors:
        last_offset = -1
        expected: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        for transaction in transactor.transactions:
            first_value = next(iter(transaction.values.values()))[0]
            is_visible = any(first_value in values for values in visible.values())
            if transaction.fate is not Fate.UNKNOWN:
                assert is_visible == (transaction.fate is Fate.COMMITTED), f"{first_value} is {transaction.fate}"
            if is_visible:
                last_offset = last_offset if transaction.offset is None else transaction.offset
                for partition, values in transaction.values.items():
                    expected[partition] += values
        for partition, values in visible.items():
            theirs = [value for value in values if value.startswith(f"{transactor.name}.")]
            assert theirs == expected[partition], "a transaction is visible in part, or out of order"
        assert await watcher.committed_offset(transactor.group) == last_offset


def check(seed: int) -> None:
    rng = random.Random(seed)
    network = SimNetwork(rng, Weather(latency_ms_most=rng.choice((0.5, 5)), fragment_chance=0.1))
    run(live(network, seed), network)


@pytest.mark.parametrize("seed", [*range(100), 1114])
def test_transactions_are_whole_whatever_the_broker_goes_through(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_transactions_are_whole_in_many_more_lives() -> None:
    for seed in range(1_000, 3_000):
        check(seed)
