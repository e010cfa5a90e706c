"""The driver of one internal partition: it alone appends there, and its machine alone knows what that means.

A decision's records are appended and replayed in one turn of the loop.  Only answers wait, reads included, until the
high watermark covers what they show.  Whatever goes wrong between machine and log ends in loading the machine again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil, inf
from typing import Any, NamedTuple

from millstream.coordination.decision import Decision, Machine, Origin, Question
from millstream.coordination.loading import Codec, load
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.timers import Timers
from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import Record, encode_batch
from millstream.model.workers import Workers
from millstream.net.eager import Suspended, begin
from millstream.replication.partition import Partition
from millstream.replication.purgatory import Purgatory
from millstream.replication.role import Part
from millstream.storage.verification import Verification

logger = logging.getLogger(__name__)

NO_PRODUCER = -1
#: When only orders wait, which they do for as long as it takes, this is how often that is looked at.
LONGEST_WATCH_S = 60.0
#: How soon a machine is told again of an event whose consequences could not be written down.
TELL_AGAIN_AFTER_S = 1.0
#: How soon a machine that could not be loaded is loaded again.
LOAD_AGAIN_AFTER_S = 10.0
#: How many records of a decision that is divisible go into one batch.
RECORDS_AT_ONCE = 1_000
#: The log takes no batch of that size, today or ever.
TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
#: What a client is told where the log refused the coordinator's own records.
CODES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


@dataclass(frozen=True, slots=True)
class Stage:
    """What a shard stands on, the same for all of a topic."""

    #: A machine for the partition of this index, led under this epoch.
    make_machine: Callable[[int, int], Machine]
    codec: Codec
    #: Does what a machine orders; what it returns is told to the machine.
    perform: Callable[[Any], Coroutine[Any, Any, Any]]
    clock: Clock
    workers: Workers
    purgatory: Purgatory
    #: How much of the log is read at once when a machine is loaded.
    load_bytes: Callable[[], int]
    #: The codec of what is written, by its number.
    compression: Callable[[], int]
    #: How long an answer waits for the replicas.
    write_timeout_ms: Callable[[], int]
    #: Whose turn it is to be loaded: all machines at once would fill every turn of the loop, one leaves others theirs.
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Owed(NamedTuple):
    """A decision whose answers and orders wait until everything below an offset is safe; answers not for ever."""

    end_offset: int
    due_s: float
    decision: Decision


class Shard:
    """One partition's machine, from the moment this broker leads it until it no longer does."""

    def __init__(self, partition: Partition, stage: Stage) -> None:
        self.partition = partition
        #: The epoch under which this broker leads the partition, which is the coordinator's.
        self.epoch = partition.role.leadership.leader_epoch
        self._stage = stage
        self._loop = asyncio.get_running_loop()
        self._timers = Timers(self.tell)
        self._machine: Machine | None = None
        self._loading: asyncio.Task[None] | None = None
        #: Set while a machine that could not be loaded waits for another try.
        self._load_again: asyncio.TimerHandle | None = None
        self._tickets = count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        #: What is decided but not safe yet, in order.
        self._unsafe: deque[Owed] = deque()
        self._watch: Suspended | None = None
        self._orders: set[Suspended] = set()
        #: The end of what was appended here.
        self._end_offset = 0
        self._is_closed = False

    @property
    def is_active(self) -> bool:
        return self._machine is not None

    # Begin and end.

    def start(self) -> None:
        """Load the machine: at once where the log is empty, else beside everything else."""
        log = self.partition.log
        if log is not None and log.start_offset == log.end_offset:
            self._begin(self._stage.make_machine(self.partition.topic_partition.partition, self.epoch), log.end_offset)
        else:
            self._loading = asyncio.create_task(self._load())

    def close(self) -> None:
        """Forget everything: another broker coordinates now, or none."""
        self._is_closed = True
        self._stop(ErrorCode.NOT_COORDINATOR)

    def _begin(self, machine: Machine, end_offset: int) -> None:
        self._end_offset = end_offset
        self._machine = machine
        self._carry_out(machine.loaded(self._stage.clock.now_ms()))

    async def _load(self) -> None:
        name = self.partition.topic_partition
        try:
            async with self._stage.loading:
                machine, end_offset = await self._loaded()
            self._loading = None
            self._begin(machine, end_offset)
        except ProtocolError as refusal:
            logger.warning("%s cannot be loaded: %s", name, refusal)
            self._fail()
        except Exception:
            logger.exception("loading %s went wrong", name)
            self._fail()

    async def _loaded(self) -> tuple[Machine, int]:
        """A machine that has heard all of the log; again from its start where that moves to another directory."""
        stage, partition = self._stage, self.partition
        while True:
            machine, log = stage.make_machine(partition.topic_partition.partition, self.epoch), partition.leader_log()
            try:
                return machine, await load(log, machine, stage.codec, stage.workers, stage.load_bytes())
            except ProtocolError:
                if partition.log is log:
                    raise

    def _fail(self) -> None:
        """Send clients away rather than have them wait for a load that may never succeed, and try again later."""
        self._loading = None
        self._stop(ErrorCode.NOT_COORDINATOR)
        if not self._is_closed:
            self._load_again = self._loop.call_later(LOAD_AGAIN_AFTER_S, self._retry)

    def _retry(self) -> None:
        self._load_again = None
        self.start()

    def _stop(self, code: ErrorCode) -> None:
        """Let go of the machine; whoever waits is told."""
        self._machine = None
        self._timers.clear()
        self._unsafe.clear()
        if self._loading is not None:
            self._loading.cancel()
            self._loading = None
        if self._load_again is not None:
            self._load_again.cancel()
            self._load_again = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        for order in self._orders:
            order.cancel()
        self._orders.clear()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            _refuse(future, ProtocolError(code))

    def _reload(self, reason: ProtocolError) -> None:
        logger.warning("%s is loaded again: %s", self.partition.topic_partition, reason)
        self._stop(ErrorCode.NOT_COORDINATOR)
        if not self._is_closed:
            self.start()

    # Questions and events.

    async def ask(
        self, request: Any, version: int, client_id: str, client_host: str, guard: Verification | None = None
    ) -> Any:
        """The machine's answer, once what it shows is safe; its refusal is a ``ProtocolError``.

        What is written in a transaction is appended under the ``guard``.
        """
        ticket = next(self._tickets)
        question = Question(request, version, client_id, client_host, ticket)
        decision = self._write(self.machine.decide(question, self._stage.clock.now_ms()), guard)
        answers = decision.answers
        if len(answers) == 1 and answers[0][0] == ticket and not decision.orders and self._is_safe():
            return answers[0][1]  # The common case: it concerns nobody else, and nothing has to wait.
        future = self._waiting[ticket] = self._loop.create_future()
        try:
            self._pass_on(decision)
            return future.result() if future.done() else await future
        finally:
            self._waiting.pop(ticket, None)

    def tell(self, event: Any) -> None:
        """Something happened: a timer, the outcome of an order, a change in the cluster."""
        machine = self._machine
        if machine is None:
            return
        try:
            self._carry_out(machine.decide(event, self._stage.clock.now_ms()))
        except ProtocolError as refusal:
            logger.warning("%s: %s could not be carried out: %s", self.partition.topic_partition, event, refusal)
            if self._machine is machine:  # It happened all the same; a machine loaded anew will find out by itself.
                self._loop.call_later(TELL_AGAIN_AFTER_S, self._tell_again, machine, event)
        except Exception:
            logger.exception("%s: %s went wrong", self.partition.topic_partition, event)

    def _tell_again(self, machine: Machine, event: Any) -> None:
        if self._machine is machine:
            self.tell(event)

    @property
    def machine(self) -> Machine:
        """The machine, or the refusal: it is being loaded, or cannot be."""
        if self._machine is None:
            has_failed = self._load_again is not None
            raise ProtocolError(ErrorCode.NOT_COORDINATOR if has_failed else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._machine

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, is_commit: bool, coordinator_epoch: int, version: int = 0
    ) -> int:
        """Append the marker that ends a producer's transaction here; the offset that must be safe before it is told."""
        machine = self.machine
        outcome = self.partition.append_marker(
            producer_id, producer_epoch, is_commit, coordinator_epoch, self._stage.clock.now_ms(), version
        )
        self._end_offset = outcome.last_offset + 1
        try:
            machine.replay_marker(producer_id, is_commit=is_commit)
        except Exception as fault:
            raise self._disagreement() from fault
        return self._end_offset

    # Decisions.

    def _carry_out(self, decision: Decision) -> None:
        self._pass_on(self._write(decision))

    def _write(self, decision: Decision, guard: Verification | None = None) -> Decision:
        """Append and replay what was decided; what stands now, which is something else where the log refused it."""
        if decision.records:
            machine = self.machine
            try:
                self._append_all(decision, guard)
            except ProtocolError as refusal:
                code = CODES.get(refusal.code, refusal.code)
                if decision.if_refused is not None and self._machine is machine:
                    logger.warning("%s: %s", self.partition.topic_partition, refusal)
                    return self._write(machine.decide(decision.if_refused(code), self._stage.clock.now_ms()))
                if not decision.is_pure and self._machine is machine:
                    self._reload(refusal)
                raise ProtocolError(code, str(refusal)) from refusal
        for timer in decision.timers:
            self._timers.set(timer)
        return decision

    def _is_safe(self) -> bool:
        """Whether everything decided so far can be told at once."""
        return not self._unsafe and self._end_offset <= self.partition.safe_offset

    def _pass_on(self, decision: Decision) -> None:
        """Answer, and order, once that is safe."""
        if self._is_safe():
            self._fulfil(decision)
        elif decision.answers or decision.orders:
            due_s = self._loop.time() + self._stage.write_timeout_ms() / 1000
            self._unsafe.append(Owed(self._end_offset, due_s, decision))
            self._release()
            if self._unsafe and self._watch is None:
                self._watch = begin(self._loop, self._watch_replicas(), self._watched)

    def _append_all(self, decision: Decision, guard: Verification | None) -> None:
        """Append and replay a decision's records, in one batch, or in several that the log takes."""
        records = decision.records
        if not decision.is_divisible:
            self._append(decision, records, guard)
            return
        refused: ProtocolError | None = None
        waiting = [records[at : at + RECORDS_AT_ONCE] for at in range(0, len(records), RECORDS_AT_ONCE)]
        waiting.reverse()
        while waiting:
            share = waiting.pop()
            try:
                self._append(decision, share, guard)
            except ProtocolError as refusal:
                if refusal.code not in TOO_LARGE:
                    raise
                half = len(share) // 2
                if half:
                    waiting += (share[half:], share[:half])
                else:
                    refused = refusal  # One that is too large by itself must not keep the others waiting.
        if refused is not None:
            raise refused

    def _append(
        self, decision: Decision, records: Sequence[CoordinatorRecord], guard: Verification | None = None
    ) -> None:
        machine, stage = self.machine, self._stage
        now_ms = stage.clock.now_ms()
        producer_id, producer_epoch = decision.producer or (NO_PRODUCER, NO_PRODUCER)
        encode = stage.codec.encode
        batch = encode_batch(
            [Record(0, now_ms, *encode(record)) for record in records],
            compression=stage.compression(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=decision.producer is not None,
        )
        outcome = self.partition.append_internal(memoryview(batch), now_ms, guard)
        self._end_offset = outcome.last_offset + 1
        try:
            for offset, record in enumerate(records, outcome.first_offset):
                machine.replay(record, Origin(offset, now_ms, producer_id))
        except Exception as fault:
            raise self._disagreement() from fault

    def _disagreement(self) -> ProtocolError:
        """What was appended could not be replayed: machine and log have parted, and the machine is loaded again."""
        logger.exception("%s: a record that was appended could not be replayed", self.partition.topic_partition)
        refusal = ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "a record could not be replayed")
        self._reload(refusal)
        return refusal

    def _release(self) -> None:
        """Answer, and order, what has become safe."""
        safe_offset = self.partition.safe_offset
        while self._unsafe and self._unsafe[0].end_offset <= safe_offset:
            self._fulfil(self._unsafe.popleft().decision)

    def _fulfil(self, decision: Decision) -> None:
        for ticket, response in decision.answers:
            future = self._waiting.get(ticket)
            if future is not None and not future.done():
                future.set_result(response)
        for order in decision.orders:
            self._loop.call_soon(self._order, self._machine, order)  # Whoever was answered need not wait for it.

    async def _watch_replicas(self) -> None:
        partition = self.partition
        while self._unsafe and partition.role.part is Part.LEADER:  # Else nobody is to be told, or told otherwise.
            end_offset = self._unsafe[0].end_offset
            left_s = min(owed.due_s for owed in self._unsafe) - self._loop.time()
            try:
                await partition.flushed(self._stage.workers)
            except ProtocolError:
                return  # The disk has failed, and the leadership goes with it: whoever waits is told then.
            await self._stage.purgatory.until(
                lambda end_offset=end_offset: partition.is_settled(end_offset),  # type: ignore[misc]
                watching=[partition],
                timeout_ms=max(0, ceil(min(left_s, LONGEST_WATCH_S) * 1000)),  # Never before its time.
            )
            self._release()
            self._give_up()

    def _watched(self, _: Any, error: Exception | None) -> None:
        self._watch = None
        if error is not None:
            logger.error("watching %s went wrong", self.partition.topic_partition, exc_info=error)

    def _give_up(self) -> None:
        """Where the replicas take too long, whoever waits is told to ask again; what was decided stands."""
        now_s = self._loop.time()
        kept: deque[Owed] = deque()
        for owed in self._unsafe:
            if owed.due_s > now_s:
                kept.append(owed)
                continue
            for ticket, _ in owed.decision.answers:
                if (future := self._waiting.get(ticket)) is not None:
                    _refuse(future, ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the replicas lag behind"))
            if owed.decision.orders:  # These must not be lost; they wait for as long as it takes.
                kept.append(Owed(owed.end_offset, inf, Decision(orders=owed.decision.orders)))
        self._unsafe = kept

    def _order(self, machine: Machine | None, order: Any) -> None:
        """Have an order done, if it is still wanted; what needs no waiting is done in this turn."""
        if machine is None or self._machine is not machine or not machine.stands(order):
            return
        suspended: Suspended | None = None

        def done(event: Any, error: Exception | None) -> None:
            if suspended is not None:
                self._orders.discard(suspended)
            if error is not None:
                logger.error("%s: the order %s went wrong", self.partition.topic_partition, order, exc_info=error)
            elif event is not None:
                self.tell(event)

        suspended = begin(self._loop, self._stage.perform(order), done)
        if suspended is not None:
            self._orders.add(suspended)


def _refuse(future: asyncio.Future[Any], refusal: ProtocolError) -> None:
    if not future.done():
        future.set_exception(refusal)
        future.exception()  # Seen: whoever asked may have been refused already, and never look.
