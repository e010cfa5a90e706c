"""Transactions as the rest of the broker sees them: whether a partition may take part in one."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

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
    """Asks the coordinator of a transaction; on one broker, without waiting."""

    def __init__(self, shards: Coordinator) -> None:
        self.shards = shards

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

        A code of the coordinator itself (it moved, it is being loaded) is told of every partition.
        """
        asked = frozenset(partitions)
        try:
            if adds:
                await self.add(transactional_id, producer_id, producer_epoch, asked, BUMPING)
                return dict.fromkeys(asked, ErrorCode.NONE)
            verdicts: dict[TopicPartition, ErrorCode] = await self.ask(
                transactional_id, VerifyPartitions(transactional_id, producer_id, producer_epoch, asked)
            )
        except ProtocolError as refusal:
            return dict.fromkeys(asked, refusal.code)
        return verdicts

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
