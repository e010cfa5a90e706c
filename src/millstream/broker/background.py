"""What a broker does besides answering: flushing, checkpoints, retention, compaction, forgetting what is old."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from millstream.config import broker as settings
from millstream.config import log, network
from millstream.config.setting import Setting
from millstream.metrics.metric import TURN_S
from millstream.storage.cleaner import Cleaner

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_MS = 100
DELETE_INTERVAL_MS = 1_000
IDLE_CHECK_INTERVAL_MS = 5_000


class Background:
    """Jobs that come round again and again; one that fails is reported and tried again at its next turn.

    Made before the controller gives any order, for the cleaner must hear of every log that is new or cut.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._cleaner = Cleaner(
            broker.logs,
            broker.workers,
            broker.clock,
            broker.random,
            lambda: broker.settings.config,
            broker.replicas.stable_offset,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin every job of the table below."""
        jobs: list[tuple[Callable[[], Awaitable[None]], Setting[int] | int]] = [
            (self._flush, FLUSH_INTERVAL_MS),
            (self._checkpoint, settings.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS),
            (self._retain, log.LOG_RETENTION_CHECK_INTERVAL_MS),
            (self._compact, log.LOG_CLEANER_BACKOFF_MS),
            (self._delete_files, DELETE_INTERVAL_MS),
            (self._hang_up_on_idle, IDLE_CHECK_INTERVAL_MS),
            (self._turn_summaries, TURN_S * 1000),
        ]
        self._tasks = [asyncio.create_task(self._repeat(job, interval)) for job, interval in jobs]

    async def stop(self) -> None:
        """End every job; one in the middle of its work is cut off."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._broker.patient_workers.in_thread(_nothing)  # A flush on its way ends before the last one begins.

    async def _repeat(self, job: Callable[[], Awaitable[None]], interval: Setting[int] | int) -> None:
        while True:
            config = self._broker.settings.config
            await asyncio.sleep((interval if isinstance(interval, int) else config.get(interval)) / 1000)
            try:
                await job()
            except Exception:
                logger.exception("%s went wrong; it is tried again at its next turn", job.__name__.lstrip("_"))

    async def _flush(self) -> None:
        broker = self._broker
        await broker.logs.flush_due(broker.clock.now_ms(), broker.patient_workers, broker.workers)

    async def _checkpoint(self) -> None:
        await self._broker.logs.checkpoint_async(self._broker.replicas.high_watermarks(), self._broker.workers)

    async def _retain(self) -> None:
        """Remove what retention no longer keeps; producers that fell silent are forgotten on the way."""
        marks = self._broker.replicas.high_watermarks()
        self._broker.logs.retain(self._broker.clock.now_ms(), lambda partition: marks.get(partition, 0))

    async def _compact(self) -> None:
        await self._cleaner.clean()

    async def _delete_files(self) -> None:
        await self._broker.logs.delete_pending(self._broker.clock.now_ms(), self._broker.workers)

    async def _hang_up_on_idle(self) -> None:
        idle_s = self._broker.settings.config.get(network.CONNECTIONS_MAX_IDLE_MS) / 1000
        now_s = asyncio.get_running_loop().time()
        for connection in list(self._broker.connections):
            if idle_s >= 0 and now_s - connection.last_active_s > idle_s:
                connection.refused("it was idle for longer than connections.max.idle.ms")
                connection.close()

    async def _turn_summaries(self) -> None:
        self._broker.metrics.turn()


def _nothing() -> None:
    """What is done when all before it is."""
