"""Coroutines that are begun at once, and several that are awaited by one task."""

import asyncio
from collections.abc import Coroutine

import pytest

from millstream.net.eager import Begun, together


async def _let(future: "asyncio.Future[int]") -> int:
    return await future


async def _fail() -> int:
    raise ValueError("no")


def run(work: Coroutine[None, None, None]) -> None:
    asyncio.run(work)


def test_what_needs_no_waiting_is_done_when_it_is_begun() -> None:
    async def at_once() -> int:
        return 7

    async def scenario() -> None:
        begun = Begun(at_once())
        assert begun.is_done and begun.result == 7
        assert await begun == 7
        begun.cancel()
        assert begun.result == 7

    run(scenario())


def test_all_begin_before_any_is_awaited_and_none_needs_a_task() -> None:
    async def scenario() -> None:
        loop, begun = asyncio.get_running_loop(), list[int]()
        seen: list[tuple[list[int], bool]] = []
        futures: list[asyncio.Future[int]] = [loop.create_future() for _ in range(3)]

        async def work(number: int) -> int:
            begun.append(number)
            await asyncio.sleep(0)
            return await futures[number]

        def answer() -> None:
            seen.append((list(begun), asyncio.all_tasks() == {here}))
            for number in (2, 0, 1):
                futures[number].set_result(number * 10)

        here = asyncio.current_task()
        loop.call_soon(loop.call_soon, answer)
        assert await together(map(work, range(3))) == [0, 10, 20]
        assert seen == [([0, 1, 2], True)]

    run(scenario())


@pytest.mark.parametrize("fails_first", [True, False])
def test_the_first_failure_lets_go_of_the_others(fails_first: bool) -> None:
    async def scenario() -> None:
        waited_for = asyncio.get_running_loop().create_future()
        works = [_fail(), _let(waited_for)] if fails_first else [_let(waited_for), _fail()]
        with pytest.raises(ValueError, match="no"):
            await together(works)
        for each in works:
            each.close()  # One may not have begun.
        assert waited_for.cancelled() != fails_first, "what has not begun waits for nothing"

    run(scenario())


def test_whoever_is_cancelled_while_it_waits_lets_go_of_all() -> None:
    async def scenario() -> None:
        futures = [asyncio.get_running_loop().create_future() for _ in range(2)]
        waiting = asyncio.ensure_future(together(map(_let, futures)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert all(future.cancelled() for future in futures)

    run(scenario())


def test_what_is_let_go_cleans_up_and_is_not_awaited_any_more() -> None:
    async def scenario() -> None:
        ended: list[str] = []

        async def work(future: "asyncio.Future[int]") -> None:
            try:
                await future
            finally:
                ended.append("cleaned")

        future = asyncio.get_running_loop().create_future()
        begun = Begun(work(future))
        begun.cancel()
        begun.cancel()
        assert ended == ["cleaned"] and future.cancelled() and begun.is_done

    run(scenario())
