"""A world in miniature for the sink's protocol: coordinators, drivers, workers, and every one of them mortal.

Everything proceeds in atomic steps, such as one request that is served; between any two of them anything else may
happen. Drivers follow Spark's rules: a batch begins when the one before is in the commit log, the log takes each batch
once, and a failed commit is followed by an abort. Nothing keeps a driver that was given up from going on, nor a task.
A batch is several tasks or a lone one, and when it comes again it may be the other.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from millstream.pipelines.spark.sink.protocol import (
    ONGOING,
    BatchFailed,
    BatchLost,
    BatchOutdated,
    Decide,
    Decision,
    End,
    Fate,
    Fence,
    FindOpen,
    Plan,
    Propose,
    ReadDecision,
    Standing,
    Step,
    Transaction,
    Withdraw,
    abort_plan,
    commit_plan,
    continued,
    fate_of,
    is_free,
    reusable,
)

#: How often a lone task is tried whose word does not come.
LONE_TRIES = 2
#: Work in atomic steps: each ``yield`` is a moment at which others may act, or at which this one dies.
Work = Generator[None, None, Any]


class Fenced(Exception):
    """Another driver has taken over."""


class Killed(Exception):
    """The process ended in the middle."""


@dataclass
class Part:
    """What a transaction holds: a task's share of a batch, as one attempt wrote it."""

    batch: int
    attempt: int
    task: int


@dataclass
class World:
    """What outlives every process: the coordinators' state, the decisions, and Spark's commit log."""

    tasks: int = 2
    last_batch: int = 3
    two_phase: bool = True
    #: Whether coordinators give the next epoch with each end, or leave the epoch as it is.
    is_bumping: bool = True
    standings: dict[str, Standing] = field(default_factory=dict)
    parts: dict[Transaction, Part] = field(default_factory=dict)
    visible: list[Part] = field(default_factory=list)
    epoch: int = 0
    decision: Decision = field(default_factory=Decision)
    committed_batch: int = 0
    attempts: int = 0
    workers: int = 0
    lost: set[int] = field(default_factory=set)
    #: What a lone task goes by.
    lone_plan: Callable[[int, Sequence[Transaction], Decision | None], Plan] = commit_plan

    # Coordinators.

    def end(self, transaction: Transaction, is_commit: bool) -> Fate:
        found = self.standings[transaction.id]
        transaction = transaction._replace(is_two_phase=self.two_phase)
        if (found.state, found.producer_epoch) == (ONGOING, transaction.producer_epoch):
            state = "CompleteCommit" if is_commit else "CompleteAbort"
            epoch = found.producer_epoch + self.is_bumping
            self.standings[transaction.id] = Standing(state, found.producer_id, epoch)
            if is_commit:
                self.visible.append(self.parts[transaction])
                self.check()
        return fate_of(transaction, self.standings[transaction.id])

    def open_ones(self) -> list[Transaction]:
        return [each for each in self.parts if fate_of(each, self.standings[each.id]) is Fate.OPEN]

    def time_out(self, transaction: Transaction) -> None:
        """A coordinator aborts whatever is not two-phase when its time has come."""
        if not transaction.is_two_phase:
            self.end(transaction, is_commit=False)

    def fence(self, transaction: Transaction) -> None:
        """An administrator takes the id away, with InitProducerId: no trace stays of the abort before it."""
        if fate_of(transaction, self.standings[transaction.id]) is Fate.OPEN:
            self.standings[transaction.id] = Standing("Empty", 1, transaction.producer_epoch + 2)

    # What must hold at every moment, and at the end.

    def check(self) -> None:
        for batch in {part.batch for part in self.visible}:
            shown = [(part.attempt, part.task) for part in self.visible if part.batch == batch]
            assert len({attempt for attempt, _ in shown}) == 1, f"batch {batch} is a mixture of attempts: {shown}"
            assert len(set(shown)) == len(shown), f"batch {batch} shows a part twice: {shown}"

    def check_committed(self, batch: int) -> None:
        shown = self.shown(batch)
        assert shown == set(range(self.tasks)), f"batch {batch} is taken for done and shows only {shown}"

    def check_losses(self) -> None:
        """Whatever was told to be lost is."""
        for batch in self.lost:
            assert self.shown(batch) != set(range(self.tasks)), f"batch {batch} is there and was told to be lost"

    def shown(self, batch: int) -> set[int]:
        return {part.task for part in self.visible if part.batch == batch}


@dataclass
class Keeper:
    """A process that decides, as far as it remembers from one batch to the next; it does one thing at a time."""

    epoch: int = 0
    held: Decision | None = None
    is_busy: bool = False


def committed(world: World, batch: int, mine: list[Transaction], keeper: Keeper, cargo: Sequence[Part] = ()) -> Work:
    """A batch under the fence of the one before, if it is still there and still this keeper's; else under a new one.

    ``cargo`` is what a lone task writes in the decision's own transaction.
    """
    plan = world.lone_plan if cargo else commit_plan
    if keeper.held is not None and keeper.held.batch == batch - 1:
        try:
            yield from served(world, plan(batch, mine, keeper.held), keeper, cargo)
            return
        except Fenced:
            pass
    yield from served(world, plan(batch, mine, None), keeper, cargo)


def released(keeper: Keeper, work: Work) -> Work:
    """Work after which the keeper is idle again."""
    try:
        yield from work
    finally:
        keeper.is_busy = False


def served(world: World, plan: Plan, keeper: Keeper | None = None, cargo: Sequence[Part] = ()) -> Work:
    """Carry a plan out, one atomic step at a time."""
    keeper = keeper or Keeper()
    answer: Any = None
    decided: Decision | None = None
    while True:
        yield
        try:
            step: Step = plan.send(answer)
        except StopIteration:
            keeper.held = decided
            return
        match step:
            case Fence():
                world.epoch += 1
                keeper.epoch, keeper.held, answer = world.epoch, None, None
            case ReadDecision():
                answer = world.decision
            case FindOpen(of):
                answer = yield from _found(world, of)
            case Propose(decision, of):
                keeper.held = None
                is_written_first = bool(world.epoch % 3)
                if is_written_first:
                    _check_fence(world, keeper)
                    yield
                answer = yield from _found_beside(world, decision.transactions, of)
                if not is_written_first:
                    yield
                    _check_fence(world, keeper)
            case Decide(decision):
                keeper.held = None
                answer = yield from _decided(world, keeper, decision, cargo)
                decided = decision
            case Withdraw():
                answer = None
            case End(transactions, is_commit):
                answer = {}
                for each in transactions:
                    yield
                    answer[each] = world.end(each, is_commit)


def _found(world: World, of: tuple[Transaction, ...]) -> Work:
    """Listed, and described one by one; those asked for by name before the list or after it, as it happens."""
    listed: list[Transaction] = []
    if is_listed_first := bool(world.epoch % 2):
        listed = world.open_ones()
    found = []
    for name in dict.fromkeys(each.id for each in of):
        yield
        found += _open_under(world, name, of)
    if not is_listed_first:
        yield
        listed = world.open_ones()
    for name in dict.fromkeys(each.id for each in listed):
        if all(each.id != name for each in of):
            yield
            found += _open_under(world, name, of)
    return tuple(found)


def _found_beside(world: World, own: tuple[Transaction, ...], of: tuple[Transaction, ...]) -> Work:
    """A list tells ids and not epochs; where it names just those that are proposed, nothing more is asked."""
    if not of and {each.id for each in world.open_ones()} == {each.id for each in own}:
        return own
    yield
    return (yield from _found(world, (*own, *of)))


def _open_under(world: World, name: str, of: tuple[Transaction, ...]) -> list[Transaction]:
    """What is open under an id; of one that is not ours its coordinator does not tell whether it is two-phase."""
    ongoing = [each for each in world.open_ones() if each.id == name]
    return [each if each in of else each._replace(is_two_phase=False) for each in ongoing]


def _decided(world: World, keeper: Keeper, decision: Decision, cargo: Sequence[Part]) -> Work:
    """A transaction: the record is written, then it counts, if nobody has initialised the same id meanwhile. What else
    was written in it counts at the same moment.

    What was proposed is written already; to write it once more changes nothing.
    """
    _check_fence(world, keeper)
    yield
    _check_fence(world, keeper)
    world.decision = decision
    world.visible += cargo
    world.check()
    yield


def _check_fence(world: World, keeper: Keeper) -> None:
    if world.epoch != keeper.epoch:
        raise Fenced


class Process:
    """Something that takes steps until it is done, fails or is killed."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.is_over = False
        self.failure: Exception | None = None

    def step(self) -> None:
        try:
            next(self._work)
        except StopIteration:
            self.is_over = True
        except (Fenced, BatchFailed, BatchLost, BatchOutdated) as failure:
            self.is_over, self.failure = True, failure

    def kill(self) -> None:
        if not self.is_over:
            self._work.close()
            self.is_over, self.failure = True, Killed()


class Worker:
    """A Python worker: one task at a time, transactional ids of its own."""

    def __init__(self, world: World) -> None:
        world.workers += 1
        self._world = world
        self._name = f"worker-{world.workers}"
        self._uses: dict[str, int] = {}
        self._last: dict[str, Transaction] = {}

    def write(self, part: Part) -> Generator[None, None, Transaction]:
        """Begin a transaction under a free id, write to it and leave it open."""
        world = self._world
        following = None
        for name in reusable(self._uses, part.batch):
            yield
            if is_free(found := world.standings.get(name)):
                following = continued(self._last.get(name), found)
                break
        else:
            name = f"{self._name}/{len(self._uses)}"
        self._uses[name] = part.batch
        transaction = following or (yield from self._initialised(name))
        yield
        world.standings[name] = Standing(ONGOING, 1, transaction.producer_epoch)
        world.parts[transaction] = part
        self._last[name] = transaction
        return transaction

    def _initialised(self, name: str) -> Generator[None, None, Transaction]:
        world = self._world
        yield
        before = world.standings.get(name)
        if before is not None and before.state == ONGOING:  # As InitProducerId does.
            for each in world.open_ones():
                if each.id == name:
                    world.end(each, is_commit=False)
        epoch = 0 if before is None else world.standings[name].producer_epoch + 1
        world.standings[name] = Standing("Empty", 1, epoch)
        return Transaction(name, 1, epoch, world.two_phase)


class Driver(Process):
    """Spark's loop over batches; ``start`` begins processes that may outlive it, ``keeper`` gives one that is idle."""

    def __init__(
        self,
        world: World,
        worker: Worker,
        start: Callable[[Process], None],
        keeper: Callable[[], Keeper],
        retried: set[int],
        is_lone: Callable[[], bool],
    ) -> None:
        self._world = world
        self.worker = worker
        self._start = start
        self._keeper = keeper
        self._retried = retried
        self._is_lone = is_lone
        #: Set from outside: the process that commits is taken for dead, though it may go on.
        self.has_lost_commit = False
        super().__init__(self._run())

    def _run(self) -> Work:
        world = self._world
        while world.committed_batch < world.last_batch:
            batch = world.committed_batch + 1
            if self._is_lone():
                mine, is_done = [], (yield from self._settled(batch))
            else:
                mine = yield from self._written(batch)
                is_done = yield from self._hears(partial(committed, world, batch, mine))
            if not is_done:
                yield from self._hears(partial(served, world, abort_plan(batch, mine)))
                return
            world.check_committed(batch)
            yield
            if world.committed_batch >= batch:
                return  # Another driver wrote this entry of the log.
            world.committed_batch = batch

    def _written(self, batch: int) -> Generator[None, None, list[Transaction]]:
        """The batch by several tasks."""
        self._world.attempts += 1
        attempt, mine = self._world.attempts, []
        for task in range(self._world.tasks):
            if task in self._retried:  # This one writes, and its word is lost: it is run again.
                yield from self.worker.write(Part(batch, -attempt, task))
            mine.append((yield from self.worker.write(Part(batch, attempt, task))))
        return mine

    def _settled(self, batch: int) -> Work:
        """The batch by a lone task, which is run again when its word is lost, though it may go on."""
        for _ in range(LONE_TRIES):
            self._world.attempts += 1
            parts = [Part(batch, self._world.attempts, task) for task in range(self._world.tasks)]
            if (yield from self._hears(partial(committed, self._world, batch, [], cargo=parts))):
                return True
        return False

    def _hears(self, work: Callable[[Keeper], Work]) -> Work:
        """Whether it was done, as far as this driver is told."""
        keeper = self._keeper()
        keeper.is_busy = True
        process = Process(released(keeper, work(keeper)))
        self._start(process)
        self.has_lost_commit = False
        while not process.is_over:
            yield
            if self.has_lost_commit:
                return False
        if isinstance(process.failure, BatchLost):
            self._world.lost.add(self._world.decision.batch)
        return process.failure is None
