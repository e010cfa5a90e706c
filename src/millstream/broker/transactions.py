"""Transactions as the rest of the broker sees them: whether a partition may take part in one."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from millstream.broker.admissions import Admissions, Question
from millstream.broker.cluster_view import ClusterView
from millstream.controller.interface import NO_LEADER
from millstream.coordination.coordinator import Coordinator
from millstream.coordination.transactions.events import AddPartitions, VerifyPartitions
from millstream.coordination.transactions.machine import TransactionMachine
from millstream.coordination.transactions.settings import transaction_settings
from millstream.coordination.transactions.transaction import BUMPING
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

logger = logging.getLogger(__name__)

#: The broker itself asks; the machine of transactions never looks at who did.
NOBODY = ("", "")


class Transactions:
    """Asks the coordinator of a transaction; where it is on this broker, without waiting."""

    def __init__(self, shards: Coordinator, cluster: ClusterView, broker_id: int, admissions: Admissions) -> None:
        self.shards = shards
        self._cluster = cluster
        self._broker_id = broker_id
        self._admissions = admissions

    async def ask(self, transactional_id: str, request: Any, version: int = 0) -> Any:
        """What the coordinator of this id answers; its refusal is a ``ProtocolError``."""
        if not transactional_id:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
        return await self.shards.shard_for(transactional_id).ask(request, version, *NOBODY)

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is in the producer's transaction; with ``adds`` it is added if it is not.

        A code of the coordinator itself (it moved, it is being loaded, it does not answer) is told of every partition.
        """
        question = Question(transactional_id, producer_id, producer_epoch, frozenset(partitions), adds)
        try:
            return await self.admit_here(question)
        except ProtocolError as refusal:
            if refusal.code is ErrorCode.NOT_COORDINATOR:
                leader = self._coordinator(transactional_id)
                if leader not in (NO_LEADER, self._broker_id):
                    return await self._admissions.ask(leader, question)
            return dict.fromkeys(question.partitions, refusal.code)

    async def admit_here(self, question: Question) -> dict[TopicPartition, ErrorCode]:
        """The same where this broker must coordinate; otherwise NOT_COORDINATOR is raised."""
        transactional_id, producer_id, producer_epoch, partitions, adds = question
        if adds:
            await self.add(transactional_id, producer_id, producer_epoch, partitions, BUMPING)
            return dict.fromkeys(partitions, ErrorCode.NONE)
        verdicts: dict[TopicPartition, ErrorCode] = await self.ask(
            transactional_id, VerifyPartitions(transactional_id, producer_id, producer_epoch, partitions)
        )
        return verdicts

    def _coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates the id, as far as is known here."""
        topic = self._cluster.topics[self.shards.topic]
        state = topic.partitions.get(self.shards.index_of(transactional_id))
        return NO_LEADER if state is None else state.leader

    async def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        version: int,
    ) -> None:
        """Add all of them to the producer's transaction, or none, as a client of that version of transactions asks."""
        await self.ask(
            transactional_id, AddPartitions(transactional_id, producer_id, producer_epoch, partitions, version)
        )


def transaction_machine(broker: "Broker", index: int, epoch: int) -> TransactionMachine:
    """The machine of one partition of ``__transaction_state``, led under ``epoch``."""
    return TransactionMachine(
        epoch,
        settings=lambda: transaction_settings(broker.settings.config),
        new_producer_id=broker.producer_ids.take,
        report=logger.warning,
    )
