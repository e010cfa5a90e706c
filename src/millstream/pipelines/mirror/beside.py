"""The thread that a flow's chores run on, beside Spark's driver."""

import asyncio
import os
import signal
import threading
import traceback
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.translation import Run
from millstream.pipelines.mirror.upkeep import Upkeep

T = TypeVar("T")

#: How long the last chores may take when all else has ended.
LAST_S = 5.0


def _end(chores: "Future[None]") -> None:
    """Whatever passes, chores see to themselves; what is left is a bug, and whoever watches us starts us again."""
    if not chores.cancelled() and (error := chores.exception()) is not None:
        traceback.print_exception(error)
        os.kill(os.getpid(), signal.SIGTERM)


class Beside:
    """Runs an upkeep on a loop of its own."""

    def __init__(self, upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="upkeep", daemon=True)
        self._thread.start()

    def ask(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Have it done there, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def start(self) -> None:
        """Begin with the chores; they end with the process, and it with them."""
        asyncio.run_coroutine_threadsafe(self._upkeep.run(), self._loop).add_done_callback(_end)

    def learn(self, runs: Mapping[TopicPartition, Sequence[Run]]) -> None:
        """A micro-batch is committed, and this became of its offsets."""
        self._loop.call_soon_threadsafe(self._upkeep.learn, runs)

    def finish(self) -> None:
        """Write what is not written yet."""
        self.ask(self._upkeep.write_syncs(), LAST_S)
