"""The thread that a flow's chores run on, beside Spark's driver."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.translation import Run
from millstream.pipelines.mirror.upkeep import Upkeep

T = TypeVar("T")

#: How long the last chores may take when all else has ended.
LAST_S = 5.0


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
        """Begin with the chores; they end with the process."""
        asyncio.run_coroutine_threadsafe(self._upkeep.run(), self._loop)

    def learn(self, runs: Mapping[TopicPartition, Sequence[Run]]) -> None:
        """A micro-batch is committed, and this became of its offsets."""
        self._loop.call_soon_threadsafe(self._upkeep.learn, runs)

    def finish(self) -> None:
        """Write what is not written yet."""
        self.ask(self._upkeep.write_syncs(), LAST_S)
