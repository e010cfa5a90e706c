"""Questions to coordinators on other brokers: whether partitions are, or may be, in a producer's transaction."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.net.channels import Channels
from millstream.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

#: How long a coordinator may take; then the producer is told to try again.
TIMEOUT_MS = 10_000

Verdicts = dict[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """A transaction's partitions to be added, or only looked for."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    adds: bool


class Admissions:
    """One request to a broker is under way at a time, and takes along all that has gathered meanwhile."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._waiting: dict[int, deque[tuple[Question, asyncio.Future[Verdicts]]]] = {}
        self._askers: dict[int, asyncio.Task[None]] = {}

    async def ask(self, broker_id: int, question: Question) -> Verdicts:
        """What the coordinator on that broker says to each partition; NETWORK_EXCEPTION where it does not answer."""
        verdicts: asyncio.Future[Verdicts] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(broker_id, deque()).append((question, verdicts))
        if broker_id not in self._askers:
            self._askers[broker_id] = asyncio.create_task(self._ask_all(broker_id))
        return await verdicts

    async def close(self) -> None:
        """Ask no more."""
        askers = list(self._askers.values())
        for asker in askers:
            asker.cancel()
        await asyncio.gather(*askers, return_exceptions=True)

    async def _ask_all(self, broker_id: int) -> None:
        waiting = self._waiting[broker_id]
        try:
            while waiting:
                await self._ask_some(broker_id, _next_of(waiting))
        finally:
            del self._askers[broker_id]
            for _, verdicts in waiting:
                verdicts.cancel()

    async def _ask_some(self, broker_id: int, asked: dict[str, tuple[Question, asyncio.Future[Verdicts]]]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_row(question) for question, _ in asked.values()])
        code = ErrorCode.NETWORK_EXCEPTION
        found: dict[str, Verdicts] = {}
        try:
            response: AddPartitionsToTxnResponse = await self._channels.send(broker_id, request, timeout_ms=TIMEOUT_MS)
            code = ErrorCode(response.error_code) or code
            found = _verdicts(response)
        except OSError:
            pass  # The producer asks again, and the coordinator is looked for again.
        finally:
            for transactional_id, (question, verdicts) in asked.items():
                if not verdicts.done():
                    none = dict.fromkeys(question.partitions, code)
                    verdicts.set_result(none | found.get(transactional_id, {}))


def _next_of(
    waiting: deque[tuple[Question, asyncio.Future[Verdicts]]],
) -> dict[str, tuple[Question, asyncio.Future[Verdicts]]]:
    """As many as one request can hold: answers are told apart by the transactional id."""
    taken: dict[str, tuple[Question, asyncio.Future[Verdicts]]] = {}
    for _ in range(len(waiting)):
        question, verdicts = waiting.popleft()
        if question.transactional_id in taken:
            waiting.append((question, verdicts))
        else:
            taken[question.transactional_id] = (question, verdicts)
    return taken


def _row(question: Question) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.adds,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in by_topic(question.partitions).items()
        ],
    )


def _verdicts(response: AddPartitionsToTxnResponse) -> dict[str, Verdicts]:
    return {
        result.transactional_id: {
            TopicPartition(topic.name, row.partition_index): ErrorCode(row.partition_error_code)
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as requests name them: the indexes of each topic."""
    topics: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        topics.setdefault(name, []).append(index)
    return topics
