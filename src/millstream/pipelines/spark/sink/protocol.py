"""Which transactions a batch is made of, decided once, whoever is killed when. Pure: docs/exactly_once.md says why.

A plan is a generator: it yields the steps that are to be taken, one after the other, and is sent what each brought.
It can be dropped between any two of them, as a killed driver drops it, and another may be carried out meanwhile.

**Invariant: nothing that was decided is ever aborted.** What is aborted here was open before a decision that this very
plan made and that does not name it, or belongs to a batch which, behind the fence, is decided otherwise or not at all.
"""

from collections.abc import Generator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

#: A worker's id under which nothing was written yet.
NEVER = -1
#: A transactional id is not used again beyond this, for one that has had all its epochs goes on under another
#: producer id, and what became of its transactions could not be told any more.
EPOCH_MAX = 30_000

#: Where Kafka's coordinators say a transaction stands.
ONGOING = "Ongoing"
_COMMITTED = "CompleteCommit"
_COMMITS = frozenset({"PrepareCommit", _COMMITTED})
_FREE = frozenset({"Empty", _COMMITTED})
#: By how much a commit may raise its transaction's epoch: older coordinators leave it, newer ones give the next.
_EPOCHS_OF_A_COMMIT = range(2)


class Transaction(NamedTuple):
    """One task's part of a batch: records that are acknowledged and that nobody sees before it is committed."""

    id: str
    producer_id: int
    producer_epoch: int
    #: It ends by our word alone; any other may be aborted by its time-out.
    is_two_phase: bool = False


class Decision(NamedTuple):
    """The batch is these transactions, exactly; what was given up since then belongs to no batch."""

    batch: int = -1
    transactions: tuple[Transaction, ...] = ()
    given_up: tuple[Transaction, ...] = ()


class Standing(NamedTuple):
    """Where a transactional id stands, as its coordinator tells."""

    state: str
    producer_id: int
    producer_epoch: int


class Fate(Enum):
    """What became of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class BatchFailed(Exception):
    """The batch was not decided and is to be written again."""


class BatchOutdated(Exception):
    """A later batch is decided already: whoever comes with this one is behind what was written."""


class BatchLost(Exception):
    """The batch was decided, and a part of it is gone: nothing can repair it, and nobody may take it for done."""


# The steps of a plan, and what each brings.


class Fence(NamedTuple):
    """Take the query's decisions over: what another driver has not decided by now it never will. Brings nothing."""


class ReadDecision(NamedTuple):
    """Brings the query's last Decision; the empty one when it has none."""


class FindOpen(NamedTuple):
    """Brings every open transaction of the query that can be found, and surely those ``of`` which are open."""

    of: tuple[Transaction, ...]


class Propose(NamedTuple):
    """Write a decision down that does not count yet, and find meanwhile what ``FindOpen`` does: of its transactions,
    and ``of`` others that may be open. Brings that.
    """

    decision: Decision
    of: tuple[Transaction, ...]


class Decide(NamedTuple):
    """Let the decision count; what was not proposed is written down first. Brings nothing, and fails when another
    driver has taken over since the fence.
    """

    decision: Decision


class Withdraw(NamedTuple):
    """Take back what was proposed. Brings nothing."""


class End(NamedTuple):
    """Commit or abort these. Brings the Fate of each, which is another when it had ended before."""

    transactions: tuple[Transaction, ...]
    is_commit: bool


Step = Fence | ReadDecision | FindOpen | Propose | Decide | Withdraw | End
Plan = Generator[Step, Any, None]


def commit_plan(batch: int, mine: Sequence[Transaction], held: Decision | None = None) -> Plan:
    """Have the batch committed: with my transactions, or with those that were decided before.

    ``held`` is a decision for an earlier batch that was made under the fence which this plan decides under, too, and
    was carried out. Then it is the last there is; or else somebody has fenced since, and what is decided here is
    refused.
    """
    own = tuple(mine)
    last = held
    if last is None:
        yield Fence()
        last = yield ReadDecision()
    if last.batch >= batch:
        yield from _as_decided(last, batch, own)
        if last.batch > batch:
            raise _outdated(batch, last)
        return
    # By name and epoch: whoever gave one up that was not its own did not know whether it is two-phase.
    if not {each[:3] for each in own}.isdisjoint(each[:3] for each in last.given_up):
        raise BatchFailed(f"batch {batch}: its transactions were given up before they were to be committed")
    # Found before the decision, aborted after it: what is open now and not named by it never will be by any other.
    decision = Decision(batch, own)
    found: tuple[Transaction, ...] = yield Propose(decision, last.transactions if held is None else ())
    missing = set(own) - set(found)
    if missing:
        yield Withdraw()
        raise BatchFailed(
            f"batch {batch}: {len(missing)} of its {len(own)} transactions are no longer open ({_named(missing)}); "
            "they took longer than their time-out, or somebody aborted them"
        )
    # Whoever went on from a decided batch without seeing its end left some of it open.
    yield from _carry_out(last._replace(transactions=tuple(each for each in last.transactions if each in found)))
    yield Decide(decision)
    yield from _carry_out(decision)
    named = {*own, *last.transactions}
    strays = tuple(each for each in found if each not in named)
    if strays:
        yield End(strays, is_commit=False)


def abort_plan(batch: int, mine: Sequence[Transaction]) -> Plan:
    """Take back what there is of the batch, mine and of tasks whose word was lost, unless it was decided: then it is
    carried out.
    """
    own = tuple(mine)
    yield Fence()
    last: Decision = yield ReadDecision()
    if last.batch >= batch:
        yield from _as_decided(last, batch, own)
    else:
        yield from _take_back(last, own)


def settle_plan() -> Plan:
    """End what drivers that are gone have left: what was decided is committed, whatever else is open is taken back.

    For a query that nobody will run again, or not before this is done.
    """
    yield Fence()
    last: Decision = yield ReadDecision()
    yield from _take_back(last, ())


def _take_back(last: Decision, own: tuple[Transaction, ...]) -> Plan:
    """Abort my transactions and whatever else is open, but for what was decided last, which is carried out.

    That they are given up is written down first, for a process that was to commit them and is only late may still come.
    What was given up before is open still, and given up again, or nobody can commit it, and it need not be remembered:
    or a batch that fails again and again would be too much for one record.
    """
    found: tuple[Transaction, ...] = yield FindOpen((*own, *last.transactions, *last.given_up))
    yield from _carry_out(last._replace(transactions=tuple(each for each in last.transactions if each in found)))
    given_up = tuple(dict.fromkeys([*own, *(each for each in found if each not in last.transactions)]))
    if given_up:
        yield Decide(last._replace(given_up=given_up))
        yield End(given_up, is_commit=False)


def _as_decided(last: Decision, batch: int, own: tuple[Transaction, ...]) -> Plan:
    """The batch is decided: bring it to its end, and take back what I wrote for it in vain."""
    if last.batch == batch:
        yield from _carry_out(last)
    vain = tuple(each for each in own if each not in last.transactions)
    if vain:
        yield End(vain, is_commit=False)


def _carry_out(decision: Decision) -> Plan:
    """Commit what was decided; BatchLost where it is the last decision, and a part of it was not committed."""
    if not decision.transactions:
        return
    fates: Mapping[Transaction, Fate] = yield End(decision.transactions, is_commit=True)
    lost = {each for each in decision.transactions if fates[each] is not Fate.COMMITTED}
    if not lost:
        return
    # Once a later batch is decided, workers take these ids again, and what became of this one is not to be seen.
    last: Decision = yield ReadDecision()
    if last.batch > decision.batch:
        raise _outdated(decision.batch, last)
    raise BatchLost(
        f"batch {decision.batch} was decided, and {len(lost)} of its {len(decision.transactions)} transactions "
        f"were aborted before they could be committed ({_named(lost)}): their records are lost. "
        "docs/exactly_once.md tells how to have the batch written again"
    )


def _outdated(batch: int, last: Decision) -> BatchOutdated:
    return BatchOutdated(
        f"batch {batch}: batch {last.batch} of this query is written already. Its checkpointLocation was "
        "deleted or is an old copy, or another driver of the same query is ahead of this one"
    )


def _named(transactions: set[Transaction]) -> str:
    names = sorted(each.id for each in transactions)
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


# What coordinators tell.


def fate_of(transaction: Transaction, found: Standing | None) -> Fate:
    """What became of a transaction whose id stands as ``found``; None when its coordinator has forgotten the id.

    Of one that the last decision names, its id is not used again (``reusable``): it stands as its own end left it, or
    as somebody did who ended it by hand. So nothing but a commit is one, and whatever is in doubt counts as aborted:
    that is an error to somebody, and never a silent loss. Only what was two-phase and is forgotten counts as
    committed, for it does not end by itself, and an open one is never forgotten.
    """
    if found is None:
        return Fate.COMMITTED if transaction.is_two_phase else Fate.ABORTED
    if found.producer_id != transaction.producer_id:
        return Fate.ABORTED
    beyond = found.producer_epoch - transaction.producer_epoch
    if found.state == ONGOING and not beyond:
        return Fate.OPEN
    return Fate.COMMITTED if found.state in _COMMITS and beyond in _EPOCHS_OF_A_COMMIT else Fate.ABORTED


def reusable(uses: Mapping[str, int], batch: int) -> list[str]:
    """Which of a worker's ids no decision names that anybody may still have to carry out, while it writes ``batch``.

    ``uses`` tells for which batch it last used each. A batch begins when the one before it is decided, whatever
    number that has. So if the worker wrote for another one since, a later decision than that of the id's last use
    was made. (A batch that comes again is not another: what it was made of may be decided.)
    """
    before = max((use for use in uses.values() if use < batch), default=NEVER)
    return [name for name, use in uses.items() if use < before or use == NEVER]


def is_free(found: Standing | None) -> bool:
    """Whether a worker may begin another transaction under an id of its own that is reusable.

    Not while one is open, for it would be aborted, decided or not; and not after one was aborted, for that must stay
    to be seen.
    """
    return found is None or (found.state in _FREE and found.producer_epoch < EPOCH_MAX)


def continued(last: Transaction | None, found: Standing | None) -> Transaction | None:
    """The next transaction under an id whose ``last`` was committed, by a coordinator that gave its epoch with that.

    None where the id has to be initialised before it is used again: after anything else, and where the epoch stayed,
    for then sequence numbers would have to go on from those of the last.
    """
    if last is None or found is None or not is_free(found):
        return None
    following = last._replace(producer_epoch=last.producer_epoch + 1)
    stands = (found.state, found.producer_id, found.producer_epoch)
    return following if stands == (_COMMITTED, following.producer_id, following.producer_epoch) else None
