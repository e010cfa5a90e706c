"""Processes that are paused and killed, and sessions with the registry that outlive neither for long."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from millstream.registry.tree import SessionExpired
from tests.simulation.cluster.processes import ClusterLoop, Process
from tests.simulation.cluster.registry import REGISTRY, Ensemble
from tests.simulation.network import SimNetwork

TIMEOUT_S = 4.0


def simulate(scenario: Callable[[ClusterLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=ClusterLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ClusterLoop)
        runner.run(scenario(loop))


async def tick(into: list[float]) -> None:
    while True:
        into.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)


def test_a_paused_process_does_nothing_and_then_everything_that_is_due() -> None:
    async def scenario(loop: ClusterLoop) -> None:
        process, ticks = Process(loop, "p"), list[float]()
        with process.inside():
            task = loop.create_task(tick(ticks))
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(10)
        assert ticks == [0, 1]
        process.resume()
        await asyncio.sleep(1.2)
        assert ticks == [0, 1, 11.5, 12.5]
        task.cancel()

    simulate(scenario)


def test_a_killed_process_waits_for_nothing_any_more_and_others_go_on() -> None:
    async def scenario(loop: ClusterLoop) -> None:
        process, ticks, others = Process(loop, "p"), list[float](), list[float]()
        with process.inside():
            dead = loop.create_task(tick(ticks))
        alive = loop.create_task(tick(others))
        await asyncio.sleep(0.5)
        process.pause()
        process.kill()
        await asyncio.sleep(3)
        assert dead.cancelled()
        assert (ticks, others) == ([0], [0, 1, 2, 3])
        alive.cancel()

    simulate(scenario)


def with_session(scenario: Callable[[Ensemble, Process, SimNetwork], Coroutine[Any, Any, None]]) -> None:
    async def run(loop: ClusterLoop) -> None:
        network = SimNetwork(random.Random(1))
        ensemble = Ensemble(loop, network, random.Random(2), TIMEOUT_S)
        watching = loop.create_task(ensemble.watch_over())
        await scenario(ensemble, Process(loop, "broker"), network)
        watching.cancel()

    simulate(run)


def test_what_unwinds_after_the_worlds_end_may_call_for_others() -> None:
    """A coroutine that nobody ended is collected as garbage, and lets go of what it holds."""

    async def hold(loop: ClusterLoop) -> None:
        try:
            await loop.create_future()
        finally:
            loop.call_soon(came.append, True)

    async def scenario(loop: ClusterLoop) -> None:
        left.append(hold(loop))
        left[0].send(None)

    left, came = list[Coroutine[Any, Any, None]](), list[bool]()
    simulate(scenario)
    left[0].close()
    assert not came


def test_a_silent_session_ends_and_its_owner_learns_of_it_when_it_is_heard_again() -> None:
    async def scenario(ensemble: Ensemble, process: Process, network: SimNetwork) -> None:
        other = ensemble.open("other", Process(ensemble.loop, "other"))
        session = ensemble.open("broker", process)
        expiries, changes = list[int](), list[int]()
        session.on_session_expired(lambda: expiries.append(session.session_id))
        await session.create("/mine", b"", ephemeral=True)
        await session.watch("/theirs", lambda: changes.append(1))
        before = session.session_id
        network.cut("broker", REGISTRY)
        asking = asyncio.ensure_future(session.get("/mine"))
        await asyncio.sleep(TIMEOUT_S - 1)
        assert await other.exists("/mine")
        await asyncio.sleep(2)
        assert await other.exists("/mine") is None
        assert not expiries and not asking.done()
        await other.create("/theirs")
        network.heal()
        with pytest.raises(SessionExpired):
            await asking
        await asyncio.sleep(1)
        assert expiries == [session.session_id] and session.session_id != before
        assert changes, "what changed while nobody listened is told too"

    with_session(scenario)


def test_a_short_cut_is_waited_out() -> None:
    async def scenario(ensemble: Ensemble, process: Process, network: SimNetwork) -> None:
        session = ensemble.open("broker", process)
        network.cut(REGISTRY, "broker")
        asking = asyncio.ensure_future(session.create("/mine", b"x", ephemeral=True))
        await asyncio.sleep(TIMEOUT_S - 1)
        assert not asking.done()
        network.heal()
        await asking
        assert (await session.get("/mine")).ephemeral_owner == session.session_id

    with_session(scenario)


def test_the_nodes_of_a_killed_process_stay_until_it_was_silent_for_long() -> None:
    async def scenario(ensemble: Ensemble, process: Process, network: SimNetwork) -> None:
        with process.inside():
            session = ensemble.open("broker", process)
        other = ensemble.open("other", Process(ensemble.loop, "other"))
        await session.create("/mine", b"", ephemeral=True)
        process.kill()
        await asyncio.sleep(TIMEOUT_S / 2)
        assert await other.exists("/mine")
        await asyncio.sleep(TIMEOUT_S)
        assert await other.exists("/mine") is None

    with_session(scenario)
