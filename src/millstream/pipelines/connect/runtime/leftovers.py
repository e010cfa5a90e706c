"""What a worker does about transactions that killed processes left open: they are ended at once, by itself."""

import asyncio
import logging
from functools import partial
from urllib.parse import unquote

from millstream.client.coordinators import Coordinators
from millstream.model.clock import Clock
from millstream.model.errors import ProtocolError
from millstream.pipelines.connect.spark.assembly import group_prefix, queries_prefix
from millstream.pipelines.connect.spark.leftovers import open_queries, settle
from millstream.pipelines.spark.sink.coordinator import DECISIONS_TOPIC, Decisions, Driver, TakenOver
from millstream.pipelines.spark.sink.protocol import BatchLost, BatchOutdated

logger = logging.getLogger(__name__)

#: How long one waits after a failure.
RETRY_S = 1.0


class Leftovers:
    """Ends them, beside everything else; a connector's next process is started once its own are ended."""

    def __init__(self, coordinators: Coordinators, group: str, clock: Clock) -> None:
        self._coordinators = coordinators
        self._group = group
        decisions = Decisions(coordinators, DECISIONS_TOPIC)
        self._driver = partial(_driver, coordinators, decisions, clock)
        self._ending: dict[str, asyncio.Task[None]] = {}

    async def open(self) -> None:
        """Begin with what an earlier worker's connectors left, whatever has become of them since."""
        prefix = group_prefix(self._group)
        for query in await open_queries(self._coordinators, prefix):
            self.end(unquote(query.removeprefix(prefix).partition("/")[0]))

    async def close(self) -> None:
        """Leave what is not ended yet to whoever opens next."""
        for task in self._ending.values():
            task.cancel()
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    def end(self, name: str) -> None:
        """A process of this connector was killed: end what it has left."""
        if name not in self._ending:
            self._ending[name] = asyncio.create_task(self._end(name))

    async def ended(self, name: str) -> None:
        """Return once nothing of this connector is left open; TimeoutError where that takes long."""
        if task := self._ending.get(name):
            done, _ = await asyncio.wait([task], timeout=self._coordinators.cluster.timeout_s)
            if not done:
                raise TimeoutError(f"what connector {name} left open in topics could not be ended yet")

    async def _end(self, name: str) -> None:
        try:
            while True:
                if await self._is_ended(name):
                    return
                await asyncio.sleep(RETRY_S)
        except (BatchLost, BatchOutdated) as error:
            logger.error("connector %s: %s", name, error)
        finally:
            del self._ending[name]

    async def _is_ended(self, name: str) -> bool:
        try:
            prefix = queries_prefix(self._group, name)
            await settle(await open_queries(self._coordinators, prefix), self._driver)
        except (OSError, ProtocolError, TakenOver) as error:
            logger.warning("what connector %s left open in topics is not ended now: %s", name, error)
            return False
        return True


def _driver(coordinators: Coordinators, decisions: Decisions, clock: Clock, query: str) -> Driver:
    return Driver(coordinators, decisions, query, clock)
