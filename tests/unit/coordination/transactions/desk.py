"""A machine of transactions at work, with a log and partitions in memory and time that passes when told to.

Records go through their bytes on the way to ``replay``, as they do in the broker, and each decision is carried out as
the driver would.  Markers are written at once, unless they are held to be written when a test says so.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from millstream.coordination.decision import Decision, Origin, Question
from millstream.coordination.schemas.transaction_state import decode_record, encode_record
from millstream.coordination.transactions.events import AddPartitions, MarkersWritten, VerifyPartitions, WriteMarkers
from millstream.coordination.transactions.machine import TransactionMachine
from millstream.coordination.transactions.settings import TransactionSettings
from millstream.coordination.transactions.states import State
from millstream.coordination.transactions.transaction import BUMPING, Transaction
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.end_txn import EndTxnRequest
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest

TV1, TV2 = 4, 5  # EndTxn's versions that speak of either version of transactions


@dataclass
class Replica:
    """A partition as its leader knows it: the newest epoch of each producer, and the writes that have no outcome."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[Any]] = field(default_factory=dict)
    #: (what was written, whether it was committed), in the order of the markers.
    outcomes: list[tuple[Any, bool]] = field(default_factory=list)

    def write(self, producer_id: int, producer_epoch: int, what: Any) -> ErrorCode:
        if producer_epoch < self.epochs.get(producer_id, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[producer_id] = producer_epoch
        self.open.setdefault(producer_id, []).append(what)
        return ErrorCode.NONE

    def mark(self, producer_id: int, producer_epoch: int, is_commit: bool, version: int) -> ErrorCode:
        current = self.epochs.get(producer_id, -1)
        is_late = version >= BUMPING and producer_epoch == current and producer_id in self.open
        if is_late or producer_epoch < current:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[producer_id] = producer_epoch
        self.outcomes += [(what, is_commit) for what in self.open.pop(producer_id, [])]
        return ErrorCode.NONE


class Desk:
    """Asks and tells the machine, and does what it orders."""

    def __init__(self, **settings: Any) -> None:
        self.settings = TransactionSettings(**settings)
        self.now_ms = 1_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.timers: dict[Any, tuple[int, Any]] = {}
        self.reports: list[str] = []
        self.replicas: dict[TopicPartition, Replica] = {}
        #: Orders that nobody has carried out.
        self.held: list[WriteMarkers] = []
        self.holds_markers = False
        #: What partitions answer to markers, where it is not what a healthy one would.
        self.faults: dict[TopicPartition, ErrorCode] = {}
        self.epoch = 0
        self._producer_ids = count(1000)
        self._tickets = count()
        self._answers: dict[int, Any] = {}
        self.machine = self._machine()

    def _machine(self) -> TransactionMachine:
        return TransactionMachine(
            self.epoch, lambda: self.settings, lambda: next(self._producer_ids), self.reports.append
        )

    def restart(self) -> None:
        """Another coordinator takes over with what is in the log."""
        self.epoch += 1
        self.timers.clear()
        self.machine = self._machine()
        for offset, (key, value) in enumerate(self.log):
            self.machine.replay(decode_record(key, value), Origin(offset, 0))
        self._carry_out(self.machine.loaded(self.now_ms))

    # Asking.

    def ask(self, request: Any, version: int = 0) -> Any:
        """The machine's answer, or the code of its refusal."""
        ticket = next(self._tickets)
        try:
            decision = self.machine.decide(Question(request, version, "client", "/127.0.0.1", ticket), self.now_ms)
        except ProtocolError as refusal:
            return refusal.code
        self._carry_out(decision)
        return self._answers.pop(ticket)

    def init(
        self, transactional_id: str, producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000, **options: bool
    ) -> tuple[int, int] | ErrorCode:
        """InitProducerId: the producer's id and epoch."""
        answer = self.ask(
            InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
                **options,
            ),
            6,
        )
        if isinstance(answer, ErrorCode):
            return answer
        return ErrorCode(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def made(self, transactional_id: str, **options: Any) -> tuple[int, int]:
        """InitProducerId that must succeed."""
        answer = self.init(transactional_id, **options)
        assert not isinstance(answer, ErrorCode), answer
        return answer

    def add(
        self, transactional_id: str, producer: tuple[int, int], *partitions: str, version: int = BUMPING
    ) -> ErrorCode:
        """AddPartitionsToTxn."""
        answer = self.ask(AddPartitions(transactional_id, *producer, parsed(partitions), version))
        return ErrorCode.NONE if answer is True else answer

    def verify(self, transactional_id: str, producer: tuple[int, int], *partitions: str) -> Any:
        """AddPartitionsToTxn that only asks."""
        return self.ask(VerifyPartitions(transactional_id, *producer, parsed(partitions)))

    def write(self, transactional_id: str, producer: tuple[int, int], partition: str, what: Any) -> ErrorCode:
        """Add a partition and write to it, as a produce request does."""
        code = self.add(transactional_id, producer, partition)
        if code is not ErrorCode.NONE:
            return code
        (found,) = parsed((partition,))
        return self.replicas.setdefault(found, Replica()).write(*producer, what)

    def end(
        self, transactional_id: str, producer: tuple[int, int], committed: bool, version: int = TV2
    ) -> tuple[int, int] | ErrorCode:
        """EndTxn: what the producer goes by next."""
        answer = self.ask(
            EndTxnRequest(
                transactional_id=transactional_id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                committed=committed,
            ),
            version,
        )
        return answer if isinstance(answer, ErrorCode) else (answer.producer_id, answer.producer_epoch)

    def __getitem__(self, transactional_id: str) -> Transaction:
        return self.machine.transactions[transactional_id]

    def state(self, transactional_id: str) -> State:
        return self[transactional_id].state

    # Telling.

    def tell(self, event: Any) -> None:
        self._carry_out(self.machine.decide(event, self.now_ms))

    def pass_time(self, ms: int) -> None:
        """Let time pass, and every timer that comes due go off in its turn."""
        until_ms = self.now_ms + ms
        while True:
            due = min(self.timers.items(), key=lambda item: item[1][0], default=None)
            if due is None or due[1][0] > until_ms:
                break
            key, (due_ms, event) = due
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.tell(event)
        self.now_ms = until_ms

    def write_markers(self, order: WriteMarkers) -> MarkersWritten:
        """Carry an order out; the event that tells of it."""
        results = {}
        for partition in order.partitions:
            fault = self.faults.get(partition)
            replica = self.replicas.setdefault(partition, Replica())
            results[partition] = fault or replica.mark(*order[1:4], order.version)
        return MarkersWritten(order.transactional_id, order.producer_id, order.producer_epoch, results)

    def release(self) -> None:
        """Carry out every order that was held."""
        while self.held:
            self.tell(self.write_markers(self.held.pop(0)))

    # As the driver does it.

    def _carry_out(self, decision: Decision) -> None:
        for record in decision.records:
            self.log.append(encode_record(record))
            self.machine.replay(decode_record(*self.log[-1]), Origin(len(self.log) - 1, self.now_ms))
        for key, after_ms, event in decision.timers:
            self.timers.pop(key, None)
            if after_ms is not None:
                self.timers[key] = (self.now_ms + after_ms, event)
        for ticket, response in decision.answers:
            self._answers[ticket] = response
        for order in decision.orders:
            if self.holds_markers:
                self.held.append(order)
            else:
                self.tell(self.write_markers(order))


def parsed(partitions: tuple[str, ...]) -> frozenset[TopicPartition]:
    """Partitions written as their folders are named."""
    return frozenset(
        TopicPartition(topic, int(index)) for topic, _, index in (each.rpartition("-") for each in partitions)
    )
