"""What a Python process keeps between tasks: connections, decisions read so far, transactional ids of its own."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from millstream.client.coordinators import Coordinators
from millstream.client.producing import ProducerId, end_transaction, init_producer_id
from millstream.model.clock import Clock, SystemClock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.spark.cluster import BlockingCluster
from millstream.pipelines.spark.sink.coordinator import (
    Decisions,
    Driver,
    free_ids,
    longest_timeout_ms,
)
from millstream.pipelines.spark.sink.ids import Ready, Terms, WorkerIds
from millstream.pipelines.spark.sink.options import SinkOptions
from millstream.pipelines.spark.sink.protocol import EPOCH_MAX, Standing, Transaction, continued, is_free, reusable
from millstream.pipelines.spark.workers import spare_collections

T = TypeVar("T")

#: A two-phase transaction has no time-out, but the request for one must name some.
_UNUSED_TIMEOUT_MS = 60_000
#: What a broker answers that does not do two phases, or not for us.
_NO_TWO_PHASE = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
#: Connections that were used within this time are taken for open: whoever finds one lost asks once more.
_IDLE_S = 1.0
_ENDED = frozenset({"CompleteAbort", "Dead"})


class _Key(NamedTuple):
    """A forked process is another one, whatever it found in its memory."""

    pid: int
    bootstrap: str
    client_id: str
    timeout_ms: int
    decisions_topic: str


_PROCESSES: dict[_Key, "SinkProcess"] = {}


def sink_process(options: SinkOptions) -> "SinkProcess":
    """This process's own, for these brokers."""
    key = _Key(os.getpid(), options.bootstrap, options.client_id, options.timeout_ms, options.decisions_topic)
    if key not in _PROCESSES:
        _PROCESSES[key] = SinkProcess(options, uuid4().hex[:12], SystemClock())
    spare_collections()
    found = _PROCESSES[key]
    found.hear()
    return found


class SinkProcess:
    """One process of the sink, a worker's or a driver's. ``nonce`` is unlike that of any other there ever was."""

    def __init__(self, options: SinkOptions, nonce: str, clock: Clock) -> None:
        self.clock = clock
        self._blocking = BlockingCluster(options.bootstrap, options.client_id, options.timeout_ms)
        self.coordinators = Coordinators(self._blocking.cluster)
        self._decisions = Decisions(self.coordinators, options.decisions_topic)
        self._drivers: dict[str, Driver] = {}
        self._ids = WorkerIds(nonce)
        #: When it was last asked how many partitions a topic has.
        self._asked_s: dict[str, float] = {}
        self._has_two_phase = True
        self._heard_s = 0.0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do ``work`` and wait for it."""
        return self._blocking.run(work)

    def hear(self) -> None:
        """Let it be heard what became of connections that were idle."""
        now_s, before_s = self.clock.monotonic_s(), self._heard_s
        self._heard_s = now_s
        if now_s - before_s >= _IDLE_S:
            self.run(asyncio.sleep(0))

    def close(self) -> None:
        self._blocking.close()

    def driver(self, query: str) -> Driver:
        """Who decides for a query; the same each time, for it may hold the fence from one batch to the next."""
        if query not in self._drivers:
            self._drivers[query] = Driver(self.coordinators, self._decisions, query, self.clock)
        return self._drivers[query]

    def dismiss(self, query: str) -> None:
        """Nobody will decide for this query any more, nor write."""
        self._drivers.pop(query, None)
        self._ids.dismiss(query)

    def forget_if_old(self, topic: str, age_max_ms: int) -> None:
        """Have a topic looked up again that may have been widened: else one worker would go on as if it were not."""
        now_s = self.clock.monotonic_s()
        if now_s - self._asked_s.setdefault(topic, now_s) >= age_max_ms / 1000:
            self.coordinators.cluster.forget([topic])
            self._asked_s[topic] = now_s

    async def begin(self, query: str, batch: int, *, timeout_ms: int, is_two_phase: bool) -> Transaction:
        """A transaction for a batch under an id of this process that is free, with nothing in it yet.

        Two-phase if that is wanted and to be had, else with the time-out, or the longest that the broker allows.
        """
        ids = self._ids.of(query)
        ids.agree(Terms(timeout_ms, is_two_phase))
        transaction = ids.taken(batch, self.clock.monotonic_s())
        if transaction is None:
            name, found = await self._free_id(query, batch)
            transaction = continued(ids.last.get(name), found)
            if transaction is None:
                transaction = await self._initialised(name, timeout_ms, is_two_phase)
            ids.begun(transaction, batch)
        return transaction

    async def make_ready(self, query: str, batch: int) -> None:
        """Have an id looked up that the batch after this one can be written under right away; there may be none."""
        ids = self._ids.of(query)
        name = next((each for each in reusable(ids.uses, batch + 1) if each not in ids.ready), None)
        if name is not None and name in ids.last:
            transaction = continued(ids.last[name], (await free_ids(self.coordinators, [name])).get(name))
            if transaction is not None:
                ids.ready[name] = Ready(transaction, self.clock.monotonic_s())

    async def _initialised(self, name: str, timeout_ms: int, is_two_phase: bool) -> Transaction:
        if is_two_phase and self._has_two_phase:
            try:
                producer = await init_producer_id(
                    self.coordinators, name, timeout_ms=_UNUSED_TIMEOUT_MS, is_two_phase=True
                )
                return Transaction(name, producer.id, producer.epoch, True)
            except ProtocolError as refusal:
                if refusal.code not in _NO_TWO_PHASE:
                    raise
                self._has_two_phase = False
        timeout_ms = timeout_ms or await longest_timeout_ms(self.coordinators, name)
        producer = await init_producer_id(self.coordinators, name, timeout_ms=timeout_ms)
        return Transaction(name, producer.id, producer.epoch)

    async def take_back(self, transaction: Transaction) -> None:
        """Abort a transaction of this process that nobody was told of, and that no decision can name therefore."""
        producer = ProducerId(transaction.producer_id, transaction.producer_epoch)
        await end_transaction(self.coordinators, transaction.id, producer, is_commit=False)

    def spare(self, query: str, transaction: Transaction) -> None:
        """Nothing was written in it: its id may be had again at once."""
        self._ids.of(query).spared(transaction.id)

    async def _free_id(self, query: str, batch: int) -> tuple[str, Standing | None]:
        """An id that may be used for this batch, and where it stands."""
        ids = self._ids.of(query)
        for name in reusable(ids.uses, batch):
            found = (await free_ids(self.coordinators, [name])).get(name)
            if is_free(found):
                break
            if found is not None and (found.state in _ENDED or found.producer_epoch >= EPOCH_MAX):
                ids.drop(name)  # It stays as it is, for whoever asks what became of it.
        else:
            name, found = self._ids.new(query), None
        ids.uses[name] = batch
        return name, found
