"""What confluent-kafka cannot ask: where transactions stand.  Our own wire client does, without encryption."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from millstream.client import transactions
from millstream.client.application.errors import Refused, Unreachable
from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.wire import parse_addresses
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """Where a transactional id stands; ``since`` and ``partitions`` while it has a transaction open."""

    id: str
    state: str
    producer_id: int
    since: datetime | None
    partitions: list[TopicPartition]


def listed(bootstrap: str, timeout_s: float) -> list[TransactionInfo]:
    """Every transactional id of the cluster."""
    found = _asked(bootstrap, timeout_s, "asking for the transactions", transactions.list_transactions)
    return sorted(map(_shown, found), key=lambda row: row.id)


def described(bootstrap: str, timeout_s: float, name: str) -> TransactionInfo:
    """One of them."""
    doing = f"describing transactional id {name!r}"
    return _shown(_asked(bootstrap, timeout_s, doing, lambda them: transactions.describe_transaction(them, name)))


def aborted(bootstrap: str, timeout_s: float, name: str) -> None:
    """Abort what an id has open, and fence its producer."""
    described(bootstrap, timeout_s, name)  # An id that nobody used would be made.
    doing = f"aborting what transactional id {name!r} has open"
    _asked(bootstrap, timeout_s, doing, lambda them: transactions.fence(them, name))


def _shown(row: transactions.Transaction) -> TransactionInfo:
    since = datetime.fromtimestamp(row.start_ms / 1000, UTC) if row.start_ms and row.start_ms > 0 else None
    return TransactionInfo(row.id, row.state, row.producer_id, since, list(row.partitions))


def _asked(bootstrap: str, timeout_s: float, doing: str, ask: Callable[[Coordinators], Awaitable[Answer]]) -> Answer:
    """In a thread with a loop of its own, so that it can be called from anywhere, from asyncio too."""

    async def run() -> Answer:
        async with asyncio.timeout(timeout_s), Cluster(parse_addresses(bootstrap), timeout_s=timeout_s) as cluster:
            return await ask(Coordinators(cluster))

    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, run()).result()
        except ProtocolError as error:
            raise Refused(f"{doing}: {error}", code=error.code.name) from error
        except ConnectionError as error:  # It says where, and what to do.
            raise Unreachable(f"{doing}: {error}") from error
        except TimeoutError as error:
            raise Unreachable(f"{doing}: no answer from {bootstrap} within {timeout_s:g} s") from error
