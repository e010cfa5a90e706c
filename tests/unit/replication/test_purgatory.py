"""Answers wait on virtual time: seconds pass for the broker and none for us."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from millstream.replication.purgatory import Purgatory
from tests.simulation.loop import SimLoop


def run(scenario: Coroutine[Any, Any, float]) -> float:
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(scenario)


def test_nothing_to_wait_for_returns_at_once() -> None:
    async def scenario() -> float:
        await Purgatory().until(lambda: True, watching=["orders-0"], timeout_ms=5_000)
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 0.0


def test_waiting_in_vain_ends_at_the_deadline() -> None:
    async def scenario() -> float:
        await Purgatory().until(lambda: False, watching=["orders-0"], timeout_ms=5_000)
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 5.0


def test_a_change_asks_again_and_only_then() -> None:
    async def scenario() -> float:
        purgatory, asked = Purgatory(), 0

        def third_time() -> bool:
            nonlocal asked
            asked += 1
            return asked == 3

        loop = asyncio.get_running_loop()
        loop.call_later(1, purgatory.wake, "orders-0")
        loop.call_later(2, purgatory.wake, "payments-0")
        loop.call_later(3, purgatory.wake, "orders-1")
        await purgatory.until(third_time, watching=["orders-0", "orders-1"], timeout_ms=60_000)
        assert asked == 3
        return loop.time()

    assert run(scenario()) == 3.0


def test_nothing_is_left_behind_by_an_answer_that_was_cancelled() -> None:
    async def scenario() -> float:
        purgatory = Purgatory()
        waiting = asyncio.create_task(purgatory.until(lambda: False, watching=["orders-0"], timeout_ms=5_000))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not purgatory._watchers
        return asyncio.get_running_loop().time()

    assert run(scenario()) == 1.0
