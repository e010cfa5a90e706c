"""Producers of one transactional id, driven by hand; it prints what they are told, what is written down, what ends how.

    init A [claims [as=id/epoch]] [2pc] [keep] [timeout=...]     claims: with the id and epoch it has
    write A a-0 [as=id/epoch]                       as a produce request of version 2 does
    add A a-0 [a-1 ...] [as=...]                    AddPartitionsToTxn of version 1, and a write to each
    commit A [v1] [as=...], abort A [v1] [as=...]
    hold, release, lose, duplicate                  what happens to markers: not yet, now, never, the last ones again
    fault a-0 CODE, heal
    wait <ms>, restart, age <epoch>, show

A producer keeps the id and epoch it was told last; ``as=`` says otherwise for once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from millstream.coordination.schemas.transaction_state import decode_record
from millstream.coordination.transactions.events import WriteMarkers
from millstream.coordination.transactions.states import NAMES, State
from millstream.coordination.transactions.transaction import Transaction, recorded
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.scenarios.script import Command
from tests.unit.coordination.transactions.desk import TV1, TV2, Desk, Replica, parsed

ID = "t"
Edge = tuple[State, State]


@contextmanager
def transitions() -> Iterator[set[Edge]]:
    """Every step from one state to the next that is taken meanwhile."""
    seen: set[Edge] = set()
    moved = Transaction.moved

    def noting(transaction: Transaction, state: State, now_ms: int, **changes: Any) -> Transaction:
        after = moved(transaction, state, now_ms, **changes)
        seen.add((transaction.state, state))
        return after

    with patch.object(Transaction, "moved", noting):
        yield seen


class Clients:
    """Producers by name, and the coordinator they talk to."""

    def __init__(self) -> None:
        self.desk = Desk(transactional_id_expiration_ms=1_000_000)
        self.desk.restart()
        self._known: dict[str, tuple[int, int]] = {}
        self._printed_records = 0
        self._printed_outcomes: dict[Any, int] = {}
        self._written: list[WriteMarkers] = []
        write = self.desk.write_markers

        def noting(order: WriteMarkers) -> Any:
            self._written.append(order)
            return write(order)

        self.desk.write_markers = noting  # type: ignore[method-assign]

    async def perform(self, command: Command) -> list[str]:
        lines = getattr(self, f"_{command.name}")(command)
        return [*lines, *self._new_records(), *self._new_outcomes()]

    # Requests.

    def _init(self, command: Command) -> list[str]:
        name, *words = command.arguments
        claimed = self._producer(command) if "claims" in words else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=ID,
            transaction_timeout_ms=int(command.options.get("timeout", 60_000)),
            producer_id=claimed[0],
            producer_epoch=claimed[1],
            enable_2pc="2pc" in words,
            keep_prepared_txn="keep" in words,
        )
        answer = self.desk.ask(request, 6)
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if code is not ErrorCode.NONE:
            return [code.name]
        self._known[name] = (answer.producer_id, answer.producer_epoch)
        going_on = (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        return [_shown(self._known[name]) + ("" if going_on == (-1, -1) else f" keeps {_shown(going_on)}")]

    def _write(self, command: Command) -> list[str]:
        name, partition = command.arguments
        return [self.desk.write(ID, self._producer(command), partition, name).name]

    def _add(self, command: Command) -> list[str]:
        name, *partitions = command.arguments
        producer = self._producer(command)
        code = self.desk.add(ID, producer, *partitions, version=0)
        if code is ErrorCode.NONE:
            for partition in parsed(tuple(partitions)):
                self.desk.replicas.setdefault(partition, Replica()).write(*producer, name)
        return [code.name]

    def _commit(self, command: Command) -> list[str]:
        return self._end(command, True)

    def _abort(self, command: Command) -> list[str]:
        return self._end(command, False)

    def _end(self, command: Command, committed: bool) -> list[str]:
        name, *words = command.arguments
        answer = self.desk.end(ID, self._producer(command), committed, TV1 if "v1" in words else TV2)
        if isinstance(answer, ErrorCode):
            return [answer.name]
        self._known[name] = answer
        return [_shown(answer)]

    def _producer(self, command: Command) -> tuple[int, int]:
        if "as" in command.options:
            producer_id, _, epoch = command.options["as"].partition("/")
            return int(producer_id), int(epoch)
        return self._known[command.arguments[0]]

    # What happens beside them.

    def _hold(self, command: Command) -> list[str]:
        self.desk.holds_markers = True
        return []

    def _release(self, command: Command) -> list[str]:
        self.desk.holds_markers = False
        self.desk.release()
        return []

    def _lose(self, command: Command) -> list[str]:
        self.desk.held.clear()
        return []

    def _duplicate(self, command: Command) -> list[str]:
        event = self.desk.write_markers(self._written[-1])
        self.desk.tell(event)
        return [f"{topic}-{index} {code.name}" for (topic, index), code in sorted(event.results.items())]

    def _fault(self, command: Command) -> list[str]:
        partition, code = command.arguments
        for each in parsed((partition,)):
            self.desk.faults[each] = ErrorCode[code]
        return []

    def _heal(self, command: Command) -> list[str]:
        self.desk.faults.clear()
        return []

    def _wait(self, command: Command) -> list[str]:
        self.desk.pass_time(int(command.arguments[0]))
        return []

    def _restart(self, command: Command) -> list[str]:
        self.desk.restart()
        return []

    def _age(self, command: Command) -> list[str]:
        """Years of transactions go by."""
        transactions = self.desk.machine.transactions
        transactions[ID] = transactions[ID]._replace(producer_epoch=int(command.arguments[0]))
        for name in self._known:
            self._known[name] = transactions[ID].client
        return []

    def _show(self, command: Command) -> list[str]:
        transaction = self.desk.machine.transactions.get(ID)
        if transaction is None:
            return ["unknown"]
        waits = [f"{order.producer_id}/{order.producer_epoch}" for order in self.desk.held]
        return [_line(transaction), *(f"marker {each} waits" for each in waits)]

    # What came of it.

    def _new_records(self) -> list[str]:
        lines = []
        for key, value in self.desk.log[self._printed_records :]:
            record = decode_record(key, value)
            lines.append("  forgotten" if record.value is None else f"  {_line(recorded(ID, record.value))}")
        self._printed_records = len(self.desk.log)
        return lines

    def _new_outcomes(self) -> list[str]:
        lines = []
        for (topic, index), replica in sorted(self.desk.replicas.items()):
            known = self._printed_outcomes.get((topic, index), 0)
            for name, is_commit in replica.outcomes[known:]:
                lines.append(f"  {topic}-{index}: {name}'s write {'committed' if is_commit else 'aborted'}")
            self._printed_outcomes[topic, index] = len(replica.outcomes)
        return lines


def _shown(producer: tuple[int, int]) -> str:
    return f"{producer[0]}/{producer[1]}"


def _line(transaction: Transaction) -> str:
    own = (transaction.producer_id, transaction.producer_epoch)
    parts = [NAMES[transaction.state], _shown(own)]
    if transaction.client != own:
        parts.append(f"then {_shown(transaction.client)}")
    parts += [f"{topic}-{index}" for topic, index in sorted(transaction.partitions)]
    return " ".join(parts)
