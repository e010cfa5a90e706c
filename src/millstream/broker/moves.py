"""Replicas on their way from one log directory to another, each copied by a task beside its use."""

import asyncio
import logging
from typing import TYPE_CHECKING

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.replication.partition import Partition
from millstream.storage.directory import LogDirectory
from millstream.storage.moving import Copy

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

logger = logging.getLogger(__name__)


class Moves:
    """At most one move of each partition; another order for it replaces the one before."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        #: What is copied at the moment.
        self.copies: dict[TopicPartition, Copy] = {}

    async def begin(self, partition: Partition, directory: LogDirectory) -> None:
        """Have the partition lie in ``directory``; if it does, a move elsewhere is given up."""
        log, key = partition.log, partition.topic_partition
        if log is None or log.is_offline or directory.failure is not None:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR)
        copy = self.copies.get(key)
        if copy is not None and copy.log.directory is directory:
            return
        await self._end(key)
        if log.directory is not directory:
            self._tasks[key] = asyncio.create_task(self._move(partition, directory))

    async def stop(self) -> None:
        """Give every move up."""
        for key in list(self._tasks):
            await self._end(key)

    async def _end(self, key: TopicPartition) -> None:
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _move(self, partition: Partition, directory: LogDirectory) -> None:
        key = partition.topic_partition
        try:
            while not await self._copied(partition, directory):
                pass
        except (OSError, ProtocolError) as error:
            logger.error("%s could not be moved to %s: %s", key, directory.path, error)
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]

    async def _copied(self, partition: Partition, directory: LogDirectory) -> bool:
        """Whether the log lies there now, or never will; else it changed so much meanwhile that it is copied anew."""
        log, key = partition.log, partition.topic_partition
        if log is None or log.is_deleted or log.directory is directory:
            return True
        copy = self.copies[key] = Copy(log, directory)
        is_in_place = False
        try:
            await copy.catch_up(self._broker.workers)
            if not copy.is_worthless and partition.log is log:
                copy.finish()
                partition.moved_to(self._broker.logs.replace(copy))
                is_in_place = True
                self._broker.replication.followers.moved(partition)
                logger.info("%s lies in %s now", key, directory.path)
        finally:
            del self.copies[key]
            if not is_in_place:
                copy.discard()
        return is_in_place
