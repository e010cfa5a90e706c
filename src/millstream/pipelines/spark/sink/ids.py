"""The transactional ids of a worker process: whose turn it is, and which can be written under without asking."""

from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.pipelines.spark.sink.coordinator import transactional_prefix
from millstream.pipelines.spark.sink.protocol import NEVER, Transaction, reusable

#: Of so many queries the ids are kept. A worker that writes for ever more of them, each a job, would keep all.
_QUERIES_MAX = 64
#: For how long an id that was seen free is taken for free. Nobody else uses it, but coordinators forget ids.
READY_S = 60.0


class Terms(NamedTuple):
    """What a transaction was asked for with; an id goes on only under the same."""

    timeout_ms: int
    is_two_phase: bool


class Ready(NamedTuple):
    """A transaction that may be begun by writing, as its id's coordinator said at that time."""

    transaction: Transaction
    since_s: float


@dataclass
class QueryIds:
    """Those of one query."""

    #: For which batch each was used last.
    uses: dict[str, int] = field(default_factory=dict)
    #: The last transaction under each.
    last: dict[str, Transaction] = field(default_factory=dict)
    ready: dict[str, Ready] = field(default_factory=dict)
    terms: Terms | None = None

    def agree(self, terms: Terms) -> None:
        """Transactions are wanted on these terms from now on: what was begun on others is not gone on with."""
        if terms != self.terms:
            self.last.clear()
            self.ready.clear()
            self.terms = terms

    def taken(self, batch: int, now_s: float) -> Transaction | None:
        """One that is ready for this batch, if there is one; it is ready no more."""
        for name in reusable(self.uses, batch):
            ready = self.ready.pop(name, None)
            if ready is not None and now_s - ready.since_s < READY_S:
                self.begun(ready.transaction, batch)
                return ready.transaction
        return None

    def begun(self, transaction: Transaction, batch: int) -> None:
        """Something may be written in it from now on."""
        self.uses[transaction.id] = batch
        self.last[transaction.id] = transaction

    def spared(self, name: str) -> None:
        """Nothing was written under it after all: it may be had again at once."""
        self.uses[name] = NEVER

    def drop(self, name: str) -> None:
        """It is not used any more."""
        self.uses.pop(name, None)
        self.last.pop(name, None)
        self.ready.pop(name, None)


class WorkerIds:
    """Those of all queries that a process writes for. ``nonce`` is unlike that of any other process there ever was."""

    def __init__(self, nonce: str) -> None:
        self._nonce = nonce
        self._made = 0
        self._queries: dict[str, QueryIds] = {}

    def of(self, query: str) -> QueryIds:
        """A query's own; those of the query that wrote longest ago are forgotten for it."""
        found = self._queries[query] = self._queries.pop(query) if query in self._queries else QueryIds()
        if len(self._queries) > _QUERIES_MAX:
            del self._queries[next(iter(self._queries))]
        return found

    def new(self, query: str) -> str:
        """One that was never used. None is made twice, though a query be forgotten."""
        self._made += 1
        return f"{transactional_prefix(query)}{self._nonce}/{self._made}"

    def dismiss(self, query: str) -> None:
        """Nobody will write for this query any more."""
        self._queries.pop(query, None)

    def __contains__(self, query: str) -> bool:
        return query in self._queries

    def __len__(self) -> int:
        return len(self._queries)
