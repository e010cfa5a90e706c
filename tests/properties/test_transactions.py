"""Random clients of one transactional id: crashes, zombies, lost answers, late requests, coordinators that restart.

Markers are delayed, reordered, lost and written twice.  Whatever happens, each transaction ends once and one way, an
answered commit is never aborted, epochs never go back, and a fenced producer never succeeds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.coordination.schemas.transaction_state import encode_record
from millstream.coordination.transactions.events import WriteMarkers
from millstream.coordination.transactions.states import IDLE
from millstream.coordination.transactions.transaction import BUMPING, EPOCH_LAST
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from tests.unit.coordination.transactions.desk import TV1, TV2, Desk

ID = "t"
TIMEOUT_MS = 1_000
PARTITIONS = ("a-0", "a-1", "b-0")

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS

numbers = st.integers(0, 1_000)


@dataclass
class Client:
    """One instance of the producer, with what it knows."""

    producer: tuple[int, int]
    speaks: int
    #: The transaction it believes to be in, by a number nobody else has.
    transaction: int | None = None
    #: Another instance was initialised since.
    is_fenced: bool = False
    #: Whether it may go on: what it was told since leaves no doubt about where it stands.
    is_sure: bool = True
    #: Ends it asked for: under what, which transaction, how.
    ends: list[tuple[tuple[int, int], int, bool]] = field(default_factory=list)


class Transactions(RuleBasedStateMachine):
    """The history of one transactional id."""

    @initialize(epoch=st.sampled_from([0, 0, EPOCH_LAST - 2]))
    def begin(self, epoch: int) -> None:
        self.desk = Desk(transaction_two_phase_commit_enable=True)
        self.desk.holds_markers = True
        self.clients: list[Client] = []
        self.delivered: list[WriteMarkers] = []
        self.answered: dict[int, bool] = {}
        self.written: list[tuple[str, int, int]] = []
        self.newest = (-1, -1)
        self.count = 0
        self.start(TV2)
        transactions = self.desk.machine.transactions
        transactions[ID] = transactions[ID]._replace(producer_epoch=epoch)
        self.clients[0].producer = (1000, epoch)
        self.desk.log.clear()
        self.desk.log.append(encode_record(self.desk[ID].record()))

    # Clients.

    @rule(speaks=st.sampled_from([TV1, TV2]), keeps=st.booleans(), has_two_phases=st.booleans())
    def start(self, speaks: int, keeps: bool = False, has_two_phases: bool = False) -> None:
        """A new instance comes up; the others are zombies from the moment it is told its epoch."""
        if speaks == TV1:
            keeps = has_two_phases = False
        found = self.desk.init(ID, timeout_ms=TIMEOUT_MS, keep_prepared_txn=keeps, enable_2pc=has_two_phases)
        if isinstance(found, ErrorCode):
            assert found is CONCURRENT
            return
        for client in self.clients:
            client.is_fenced = True
        self.clients.append(Client(found, speaks))

    @rule(pick=numbers, is_lost=st.booleans())
    def come_back(self, pick: int, is_lost: bool) -> None:
        """An instance that met an error claims its id and epoch."""
        with self._client(pick) as client:
            found = self.desk.init(ID, client.producer, timeout_ms=TIMEOUT_MS)
            if isinstance(found, ErrorCode):
                assert found in (ErrorCode.PRODUCER_FENCED, CONCURRENT)
                return
            assert not client.is_fenced
            client.transaction = None
            if not is_lost:
                client.producer, client.is_sure = found, True

    @rule(pick=numbers, partition=st.sampled_from(PARTITIONS))
    def write(self, pick: int, partition: str) -> None:
        with self._client(pick) as client:
            if client.speaks == TV1 and not client.is_sure:
                return  # It waits for its end first.
            if client.transaction is None:
                self.count += 1
                client.transaction = self.count
            number = len(self.written)
            version = 0 if client.speaks == TV1 else BUMPING
            code = self.desk.add(ID, client.producer, partition, version=version)
            if code is ErrorCode.NONE:
                code = self.desk.write(ID, client.producer, partition, number)
            if code is ErrorCode.NONE:
                assert not client.is_fenced
                self.written.append((partition, number, client.transaction))

    @rule(pick=numbers, committed=st.booleans(), is_lost=st.booleans())
    def end(self, pick: int, committed: bool, is_lost: bool) -> None:
        """Ask for an end; the answer may get lost, and then it is asked for again."""
        with self._client(pick) as client:
            if client.speaks == TV1 and not client.is_sure:
                return  # It cannot tell its own end from another, and must come back.
            number = client.transaction
            if number is None:
                self.count += 1
                number = self.count
            client.ends.append((client.producer, number, committed))
            answer = self.desk.end(ID, client.producer, committed, client.speaks)
            if isinstance(answer, ErrorCode):
                if answer is ErrorCode.INVALID_TXN_STATE:
                    client.transaction = None
                return
            assert not client.is_fenced
            if is_lost:
                client.is_sure = False
                client.transaction = number
                return
            assert self.answered.setdefault(number, committed) is committed
            client.producer, client.transaction, client.is_sure = answer, None, True

    @rule(pick=numbers, which=numbers)
    def end_late(self, pick: int, which: int) -> None:
        """An end that was under way for long, and may have been asked for again since, arrives."""
        with self._client(pick) as client:
            if client.speaks == TV1 or not client.ends:
                return  # Version 1 cannot tell: that is why there is version 2.
            producer, number, committed = client.ends[which % len(client.ends)]
            answer = self.desk.end(ID, producer, committed)
            if not isinstance(answer, ErrorCode):
                assert self.answered.setdefault(number, committed) is committed

    # What happens beside them.

    @precondition(lambda self: self.desk.held)
    @rule(pick=numbers)
    def deliver(self, pick: int) -> None:
        order = self.desk.held.pop(pick % len(self.desk.held))
        self.delivered.append(order)
        self.desk.tell(self.desk.write_markers(order))

    @precondition(lambda self: self.desk.held)
    @rule(pick=numbers, partition=st.sampled_from(PARTITIONS))
    def deliver_in_part(self, pick: int, partition: str) -> None:
        topic, _, index = partition.rpartition("-")
        self.desk.faults[TopicPartition(topic, int(index))] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.deliver(pick)
        self.desk.faults.clear()

    @precondition(lambda self: any(order.version >= BUMPING for order in self.delivered))
    @rule(pick=numbers)
    def deliver_again(self, pick: int) -> None:
        """Markers arrive twice, however late; version 1 has no means against that."""
        orders = [order for order in self.delivered if order.version >= BUMPING]
        self.desk.tell(self.desk.write_markers(orders[pick % len(orders)]))

    @precondition(lambda self: self.desk.held)
    @rule(pick=numbers)
    def lose(self, pick: int) -> None:
        self.desk.held.pop(pick % len(self.desk.held))

    @rule()
    def restart(self) -> None:
        before = dict(self.desk.machine.transactions)
        self._forget_orders_of_version_1()
        self.desk.restart()
        assert self.desk.machine.transactions == before

    @rule(ms=st.sampled_from([10, 100, TIMEOUT_MS, 11_000]))
    def pass_time(self, ms: int) -> None:
        self._forget_orders_of_version_1()
        self.desk.pass_time(ms)

    def _forget_orders_of_version_1(self) -> None:
        """They may be given again now, and then must not be under way twice."""
        self.desk.held = [order for order in self.desk.held if order.version >= BUMPING]

    # What must hold.

    @invariant()
    def epochs_never_go_back(self) -> None:
        if hasattr(self, "desk"):
            client = self.desk[ID].client
            assert tuple(client) >= self.newest
            assert client.producer_epoch <= EPOCH_LAST
            self.newest = client

    @invariant()
    def each_transaction_ends_one_way(self) -> None:
        if hasattr(self, "desk"):
            self._check_outcomes()

    def teardown(self) -> None:
        """In the end everything has ended."""
        if not hasattr(self, "desk"):
            return
        self.desk.holds_markers = False
        self.desk.release()
        self.desk.pass_time(60_000)
        self.desk.init(ID)  # What has no time-out goes on until somebody comes.
        assert self.desk[ID].state in IDLE
        outcomes = self._check_outcomes()
        assert outcomes.keys() == {number for _, number, _ in self.written}, "nothing stays open"

    def _check_outcomes(self) -> dict[int, bool]:
        """How each write ended so far."""
        outcomes: dict[int, bool] = {}
        for replica in self.desk.replicas.values():
            for number, is_commit in replica.outcomes:
                assert number not in outcomes, "a write ends once"
                outcomes[number] = is_commit
        ways: dict[int, bool] = {}
        for _, number, transaction in self.written:
            if number in outcomes:
                assert ways.setdefault(transaction, outcomes[number]) is outcomes[number]
        for transaction, committed in self.answered.items():
            assert ways.get(transaction, committed) is committed
        return outcomes

    @contextmanager
    def _client(self, pick: int) -> Iterator[Client]:
        """An instance that does something, most often the newest; one that is fenced changes nothing."""
        client = self.clients[-1 - (pick % 10) // 7 % len(self.clients)]
        before = len(self.desk.log)
        yield client
        assert not client.is_fenced or len(self.desk.log) == before


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
