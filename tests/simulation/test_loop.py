"""Virtual time must be right before anything is believed that was seen on it."""

import asyncio
import pickle
import random
import threading
import time

import pytest

from millstream.model.clock import Clock
from millstream.model.workers import Workers
from tests.simulation.loop import EPOCH_MS, Deadlock, ManualClock, SimClock, SimLoop, SimWorkers, run


def test_a_day_passes_in_no_time() -> None:
    async def scenario() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    started = time.monotonic()
    assert run(scenario()) == 86_400
    assert time.monotonic() - started < 1


def test_timers_fire_in_their_order_and_at_their_time() -> None:
    async def scenario() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        seen: list[tuple[str, float]] = []
        for name, delay in (("late", 7.5), ("soon", 0.25), ("never", 30.0)):
            loop.call_later(delay, lambda it: seen.append((it, loop.time())), name)
        await asyncio.sleep(10)
        return seen

    assert run(scenario()) == [("soon", 0.25), ("late", 7.5)]


def test_time_stands_still_while_a_thread_works() -> None:
    """50 ms of real work under a time-out of 5 virtual seconds is not late."""

    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        release = threading.Event()
        threading.Timer(0.05, release.set).start()
        async with asyncio.timeout(5):
            assert await loop.run_in_executor(None, release.wait, 10)
        return loop.time()

    assert run(scenario()) == 0.0


def test_time_stands_still_for_a_thread_that_nobody_waits_for() -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        release, seen = threading.Event(), []

        def work() -> None:
            release.wait(10)
            seen.append(loop.time())

        job = loop.run_in_executor(None, work)
        await asyncio.sleep(0)
        job.cancel()
        threading.Timer(0.05, release.set).start()
        await asyncio.sleep(100)
        return seen

    assert run(scenario()) == [0.0]


def test_timers_still_pass_after_a_thread_came_back() -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        await asyncio.gather(asyncio.to_thread(time.monotonic), asyncio.sleep(3))
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        await asyncio.sleep(2)
        return loop.time()

    assert run(scenario()) == 5.0


def test_a_deadlock_is_reported_with_who_waits_and_where() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    async def scenario() -> None:
        await asyncio.create_task(stuck(), name="the-stuck-one")

    with pytest.raises(Deadlock, match=r"the-stuck-one at .*test_loop\.py:\d+ in stuck"):
        run(scenario())


def test_a_call_from_another_thread_is_no_deadlock() -> None:
    async def scenario() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        answer: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(answer.set_result, "here"))
        with loop.standing_still():
            thread.start()
            result = await answer
        thread.join()
        return result

    assert run(scenario()) == "here"


def test_the_clocks_follow_the_loop_or_the_hand() -> None:
    async def scenario() -> tuple[int, float]:
        clock: Clock = SimClock(asyncio.get_running_loop(), skew_ms=-40)
        await asyncio.sleep(1.5)
        return clock.now_ms(), clock.monotonic_s()

    assert run(scenario()) == (EPOCH_MS + 1460, 1.5)
    manual = ManualClock(5_000)
    manual.advance(250)
    assert (manual.now_ms(), manual.monotonic_s()) == (5_250, 0.25)


def test_workers_without_delay_answer_inside_the_call() -> None:
    async def scenario() -> int:
        workers: Workers = SimWorkers()
        assert await workers.in_process(divmod, 7, 2) == (3, 1)
        return await workers.in_thread(sum, [1, 2])

    assert run(scenario()) == 3


def test_the_same_seed_finishes_jobs_in_the_same_order_and_another_in_another() -> None:
    async def scenario(seed: int) -> list[int]:
        workers = SimWorkers(random.Random(seed), delay_ms_max=10)
        done: list[int] = []
        await asyncio.gather(*(workers.in_thread(done.append, number) for number in range(8)))
        return done

    assert run(scenario(1)) == run(scenario(1))
    assert run(scenario(1)) != run(scenario(2))


def test_a_job_whose_caller_gave_up_still_runs_to_its_end() -> None:
    async def scenario() -> list[str]:
        workers = SimWorkers(random.Random(1), delay_ms_max=10_000)
        done: list[str] = []
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await workers.in_thread(done.append, "flushed")
        assert done == []
        await asyncio.sleep(30)
        return done

    assert run(scenario()) == ["flushed"]


def test_what_cannot_be_pickled_cannot_go_to_a_process() -> None:
    async def scenario() -> None:
        await SimWorkers().in_process(lambda: 1)

    with pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
        run(scenario())
