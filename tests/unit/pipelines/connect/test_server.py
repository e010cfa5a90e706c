"""A worker and its API as they begin and end."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from millstream.pipelines.connect.rest.api import Api
from millstream.pipelines.connect.rest.levels import Levels
from millstream.pipelines.connect.rest.server import Front, _place, _run
from millstream.pipelines.connect.runtime.fleet import Locks, WorkerSettings


class Opening:
    """A worker that is never opened: its brokers are away."""

    settings = WorkerSettings(bootstrap="nowhere:1", data="/nowhere", worker_id="w:1")

    def __init__(self) -> None:
        self.is_killed = False

    async def open(self) -> None:
        await asyncio.Event().wait()

    def kill(self) -> None:
        self.is_killed = True


def test_a_worker_that_is_told_to_stop_while_it_opens_ends() -> None:
    async def scenario() -> list[str]:
        worker: Any = Opening()
        stops: asyncio.Queue[int] = asyncio.Queue()
        said: list[str] = []
        running = asyncio.create_task(_run(worker, Front(), stops, lambda: said.append("ready"), said.append))
        stops.put_nowait(15)
        await asyncio.wait_for(running, 10)
        assert worker.is_killed
        return said

    assert asyncio.run(scenario()) == []


def test_nobody_waits_for_a_check_that_does_not_come_back() -> None:
    """The loop ends, and no thread keeps the process."""
    begun = threading.Event()

    def hang(about: str) -> None:
        begun.set()
        threading.Event().wait()

    async def scenario() -> None:
        worker: Any = SimpleNamespace(settings=Opening.settings)
        api = Api(worker, Levels(lambda: 0))
        hanging = asyncio.create_task(api.check(hang, "x"))
        assert await api.check(str.upper, "y") == "Y", "others are checked meanwhile"
        with pytest.raises(ZeroDivisionError):
            await api.check(lambda number: 1 / number, 0)
        await asyncio.to_thread(begun.wait, 10)
        hanging.cancel()

    asyncio.run(scenario())
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "check")


def test_a_worker_that_listens_everywhere_is_known_by_its_machine() -> None:
    assert _place("127.0.0.1", 8083) == "127.0.0.1:8083"
    assert _place("::1", 8083) == "[::1]:8083"
    for host in ("0.0.0.0", "::", ""):
        assert _place(host, 8083).endswith(":8083") and not _place(host, 8083).startswith((host or ":", "["))


def test_a_lock_is_one_while_somebody_has_it_and_forgotten_then() -> None:
    async def scenario() -> None:
        locks = Locks()
        async with locks["a"]:
            is_held, is_other_held = locks["a"].locked(), locks["b"].locked()
        assert (is_held, is_other_held, len(locks._held)) == (True, False, 0)

    asyncio.run(scenario())
