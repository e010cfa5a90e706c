"""Asks the controller for other in-sync sets: on a timer for followers that lag, at once for those that caught up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import Uuid
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from millstream.replication.leading import Proposal
from millstream.replication.partition import Partition
from millstream.replication.replicas import Replicas
from millstream.replication.role import Leadership

logger = logging.getLogger(__name__)

Alter = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]


class InSync:
    """One request to the controller under way at a time, for all partitions that have something to propose."""

    def __init__(
        self, broker_id: int, replicas: Replicas, alter: Alter, clock: Clock, lag_ms_max: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._alter = alter
        self._clock = clock
        self._lag_ms_max = lag_ms_max
        self._noticed: dict[Partition, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._replicas.on_in_sync = self.notice
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End; what is asked for at the moment may be granted all the same."""
        self._replicas.on_in_sync = _ignore
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def notice(self, partition: Partition) -> None:
        """Another set may be due for the partition."""
        if partition not in self._noticed:
            self._noticed[partition] = None
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    async def _run(self) -> None:
        looked_ms = self._now_ms()
        while True:
            interval_ms = max(1, self._lag_ms_max() // 2)
            await self._wait(looked_ms + interval_ms)
            if self._now_ms() >= looked_ms + interval_ms:
                looked_ms = self._now_ms()
                self._noticed |= dict.fromkeys(each for each in self._replicas if each.role.leading is not None)
            try:
                proposals = self._collect()
                if proposals:
                    await self._ask(proposals)
            except Exception:
                logger.exception("in-sync sets could not be looked after; that is tried again")

    async def _wait(self, until_ms: int) -> None:
        """Return when something was noticed, when a refused proposal may be made again, or at ``until_ms``."""
        now_ms = self._now_ms()
        due = [leading.due_ms() for each in self._noticed if (leading := each.role.leading) is not None]
        wait_ms = min([until_ms, *due]) - now_ms
        if wait_ms <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later((wait_ms + 1) / 1000, self._expire, self._waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    @staticmethod
    def _expire(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)

    def _collect(self) -> dict[Partition, Proposal]:
        now_ms, lag_ms_max = self._now_ms(), self._lag_ms_max()
        proposals: dict[Partition, Proposal] = {}
        put_off: dict[Partition, None] = {}
        for partition in self._noticed:
            leading, leadership, log = partition.role.leading, partition.role.leadership, partition.log
            if leading is None or log is None or log.is_offline:
                continue
            if now_ms < leading.due_ms():
                put_off[partition] = None
                continue
            proposal = leading.propose(
                leadership.leader_epoch,
                leadership.partition_epoch,
                self._replicas.broker_epoch,
                partition.high_watermark,
                log.end_offset,
                now_ms,
                lag_ms_max,
                log.config.min_insync_replicas,
            )
            if proposal is not None:
                proposals[partition] = proposal
        self._noticed = put_off
        return proposals

    async def _ask(self, proposals: dict[Partition, Proposal]) -> None:
        topics: dict[Uuid, AlterPartitionTopic] = {}
        for partition, proposal in proposals.items():
            assert partition.log is not None  # It was there in this turn, when the proposal was made.
            if partition.topic_id not in topics:
                topics[partition.topic_id] = AlterPartitionTopic(topic_id=partition.topic_id, partitions=[])
            topics[partition.topic_id].partitions.append(
                AlterPartitionPartition(
                    partition_index=partition.topic_partition.partition,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in proposal.isr],
                    partition_epoch=proposal.partition_epoch,
                    min_in_sync=partition.log.config.min_insync_replicas,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._replicas.broker_epoch, topics=list(topics.values())
        )
        code, response = ErrorCode.REQUEST_TIMED_OUT, AlterPartitionResponse()
        try:
            response = await self._alter(request)
            code = ErrorCode(response.error_code) or code
        except (OSError, TimeoutError, ProtocolError) as error:
            logger.info("the controller did not answer for %d in-sync sets: %s", len(proposals), error)
        finally:
            self._take(proposals, response, code)

    def _take(self, proposals: dict[Partition, Proposal], response: AlterPartitionResponse, code: ErrorCode) -> None:
        """Apply the controller's answers; ``code`` is for those it gave none to."""
        answers = {(topic.topic_id, row.partition_index): row for topic in response.topics for row in topic.partitions}
        for partition, proposal in proposals.items():
            answer = answers.get((partition.topic_id, partition.topic_partition.partition))
            refusal = code if answer is None else ErrorCode(answer.error_code)
            if answer is not None and not refusal:
                before = partition.role.leadership
                isr, eligible = tuple(answer.isr), tuple(answer.eligible_replicas)
                if partition.role.granted(proposal, isr, answer.partition_epoch, self._now_ms(), eligible):
                    _tell(partition, before, partition.role.leadership)
                    partition.in_sync_changed()
            elif partition.role.leading is not None:
                logger.info("%s: the controller refused %s: %s", partition.topic_partition, proposal, refusal.name)
                partition.role.leading.refused(proposal, refusal, self._now_ms())
                partition.in_sync_changed()  # What waited for a replica that may not join waits no more.
            self._noticed[partition] = None


def _tell(partition: Partition, before: Leadership, after: Leadership) -> None:
    if before.isr != after.isr:
        logger.info("%s: in sync are %s, were %s", partition.topic_partition, list(after.isr), list(before.isr))
    if before.eligible != after.eligible:
        eligible = list(after.eligible) or "nobody"
        logger.info("%s: eligible besides is %s, were %s", partition.topic_partition, eligible, list(before.eligible))


def _ignore(partition: Partition) -> None:
    """Nobody looks after in-sync sets."""
