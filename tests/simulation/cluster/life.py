"""One life of a cluster, from its seed to the reckoning."""

import asyncio
import gc
import logging
import random
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from millstream.model.batch import header_at
from millstream.model.records import decode_batch
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.inspection import Inspector, log_bytes
from tests.simulation.cluster.ledger import Ledger
from tests.simulation.cluster.processes import ClusterLoop, running_process
from tests.simulation.cluster.world import Plan, World
from tests.simulation.network import SimNetwork, Weather
from tests.simulation.test_crashing_transactions import reckon

#: Once everything works again, every partition is whole within this time.
HEALED_WITHIN_S = 60.0
#: And every client has done what it had begun.
DONE_WITHIN_S = 90.0
LOOK_S = 0.1


@dataclass
class Outcome:
    """How a life went; ``failure`` says what must not have been."""

    seed: int
    failure: str | None = None
    digest: str = ""
    virtual_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)


class _Complaints(logging.Handler):
    """An exception that a live broker did not expect is a failure, whatever else goes well."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger = ledger
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        process = running_process()
        if process is None or process.is_dead or record.exc_info is None:
            return
        error = record.exc_info[1]
        if error is not None and not isinstance(error, OSError):
            where = self._formatter.formatException(record.exc_info)
            self._ledger.violate(f"{process.name}: {record.getMessage()}\n{where}")


def live(seed: int, outcome: Outcome | None = None) -> Outcome:
    """Live through the seed's faults; the same seed lives the same life.

    ``outcome`` is filled in as soon as it is known, for what is left behind may never come to its end.
    """
    rng = random.Random(seed)
    plan = Plan.draw(rng)
    network = SimNetwork(random.Random(rng.getrandbits(64)), Weather(fragment_chance=rng.choice((0, 0.1))))
    outcome = outcome or Outcome(seed)
    with _quiet(), asyncio.Runner(loop_factory=ClusterLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ClusterLoop)
        loop.network = network
        world = runner.run(_lay_out(plan, loop, network))
        complaints, ours = _Complaints(world.ledger), logging.getLogger("millstream")
        logging.getLogger().addHandler(complaints)
        before = ours.level
        ours.setLevel(logging.ERROR)
        loop.set_exception_handler(lambda _, context: None)
        try:
            runner.run(_watched(world))
        except Exception as error:
            is_found = world.ledger.broken is not None
            outcome.failure = str(world.ledger.broken) if is_found else "".join(traceback.format_exception(error))
        finally:
            ours.setLevel(before)
            logging.getLogger().removeHandler(complaints)
        outcome.virtual_s = loop.time()
        outcome.digest, outcome.counts, outcome.trace = world.ledger.digest, world.ledger.counts, world.ledger.faults
        outcome.trace.insert(0, f"seed {seed}: {plan}")
    return outcome


@contextmanager
def _quiet() -> Iterator[None]:
    """No collection in between: what unwinds when rubbish is found would do so at another moment in another run."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


async def _lay_out(plan: Plan, loop: ClusterLoop, network: SimNetwork) -> World:
    return World(plan, loop, network)


async def _watched(world: World) -> None:
    """Live until the end, or until somebody finds what must not be."""
    inspector = Inspector(world)
    main = world.loop.create_task(_live(world, inspector))
    others = [world.loop.create_task(world.ensemble.watch_over()), world.loop.create_task(inspector.run())]
    try:
        while not main.done():
            await asyncio.wait([main, *others], timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            if world.ledger.broken is not None:
                raise world.ledger.broken
            for other in others:
                if other.done():
                    other.result()
        main.result()
    finally:
        for task in (main, *others):
            task.cancel()


async def _live(world: World, inspector: Inspector) -> None:
    """Begin, suffer, heal, and give account."""
    await world.begin()
    world.ledger.remark("begun")
    clients = world.client_runs()
    try:
        faults = Faults(world)
        await _beside(clients, faults.run(world.plan.fault_s))
        await _beside(clients, faults.heal())
        await _beside(clients, _until(world, world.is_whole, HEALED_WITHIN_S, lambda: _unhealed(world)))
        world.ledger.remark("whole")
        world.stop_clients()
        await _finished(world, clients)
        world.ledger.remark("clients done")
        await _until(
            world, lambda: inspector.differences() is None, HEALED_WITHIN_S, lambda: str(inspector.differences())
        )
        inspector.look()
        await reckon(world.watchers[0], list(world.transactors), is_settled_by_time=world.plan.rng.random() < 0.3)
        _reckon_producers(world)
        world.ledger.remark(f"end {sum(map(len, inspector.committed.values()))} bytes committed")
    finally:
        for client in clients:
            client.cancel()


async def _beside(clients: list[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Do the work while the clients run; whatever one of them finds wrong ends it."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            running = [client for client in clients if not client.done()]
            await asyncio.wait([task, *running], return_when=asyncio.FIRST_COMPLETED)
            for client in clients:
                if client.done():
                    client.result()
        task.result()
    finally:
        task.cancel()


async def _until(world: World, condition: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    deadline_s = world.loop.time() + seconds
    while not condition():
        if world.loop.time() > deadline_s:
            raise world.ledger.violate(f"not within {seconds:g} s: {why()}")
        await asyncio.sleep(LOOK_S)


async def _finished(world: World, clients: list[asyncio.Task[None]]) -> None:
    done, late = await asyncio.wait(clients, timeout=DONE_WITHIN_S)
    for client in done:
        client.result()
    if late:
        plights = [f"{client.name} {client.plight}" for client in world.transactors]
        raise world.ledger.violate(f"{len(late)} clients are not answered within {DONE_WITHIN_S:g} s: {plights}")


def _unhealed(world: World) -> str:
    bad = [
        f"{topic}-{index}: leader {state.leader} epoch {state.leader_epoch} isr {state.isr} of {replicas}"
        for topic, index, replicas, state, _ in world.states()
        if state.leader < 0 or set(state.isr) != set(replicas)
    ]
    up = [machine.id for machine in world.machines.values() if machine.is_up]
    return (
        f"brokers {up} serve, controller {world.controller and world.controller.id}, {world.moving()} move, but "
        + "; ".join(bad)
    )


def _reckon_producers(world: World) -> None:
    """Every record of a safe producer is there once, in order; what was acknowledged lies where it was said to."""
    for place, acknowledged in world.ledger.acknowledged.items():
        there = dict(records_of(world, place))
        for offset, value in acknowledged.items():
            if there.get(offset) != value:
                raise world.ledger.violate(
                    f"{place} offset {offset} is {there.get(offset)!r}, acknowledged as {value!r}"
                )
    for producer in world.producers:
        if producer.is_safe:
            prefix = f"{producer.name}.".encode()
            there_now = [value for _, value in records_of(world, producer.place) if value.startswith(prefix)]
            if there_now != producer.sent:
                raise world.ledger.violate(
                    f"{producer.name} sent {len(producer.sent)} records, {len(there_now)} are in {producer.place}"
                )


def records_of(world: World, place: tuple[str, int]) -> Iterator[tuple[int, bytes]]:
    """Every record of a partition, with its offset, as its first replica has it."""
    replicas = next(replicas for topic, index, replicas, _, _ in world.states() if (topic, index) == place)
    log = log_bytes(world.machines[replicas[0]], place)
    at = 0
    while at < len(log):
        header = header_at(log, at)
        if not header.is_control:
            for record in decode_batch(log, at):
                yield record.offset, bytes(record.value or b"")
        at += header.size
