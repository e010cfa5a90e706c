"""The sink's protocol under every interleaving that chance can find: each batch shows once, whole, of one attempt."""

import itertools
import random
from collections.abc import Callable, Generator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.pipelines.spark.sink.protocol import (
    EPOCH_MAX,
    NEVER,
    BatchLost,
    BatchOutdated,
    Decision,
    End,
    Fate,
    Fence,
    Plan,
    ReadDecision,
    Standing,
    Transaction,
    abort_plan,
    commit_plan,
    continued,
    fate_of,
    is_free,
    reusable,
    settle_plan,
)
from tests.properties.sink_world import Driver, Keeper, Part, Process, Worker, World, committed, served

DRIVERS_MAX = 3


class History:
    """Processes of a world, stepped, killed and started by chance."""

    def __init__(
        self, world: World, chance: random.Random, harm: Callable[[World, Transaction], None] = World.time_out
    ) -> None:
        self.world = world
        #: What befalls an open transaction now and then.
        self._harm = harm
        self.chance = chance
        self.processes: list[Process] = []
        self.idle_workers: list[Worker] = []
        self.keepers: list[Keeper] = []
        # In some histories one goes far while the others sleep: a zombie is one that wakes up late.
        self._strides = chance.choice(((1,), (1,), (1, 1, 4, 16, 40)))
        self._lone_share = chance.choice((0.0, 0.5, 1.0))

    def start_driver(self) -> Driver:
        """A new driver; it may find the workers of a session that outlived its query."""
        worker = self.idle_workers.pop() if self.idle_workers and self.chance.random() < 0.5 else Worker(self.world)
        retried = {task for task in range(self.world.tasks) if self.chance.random() < 0.2}
        driver = Driver(self.world, worker, self.processes.append, self._keeper, retried, self._is_lone)
        self.processes.append(driver)
        return driver

    def _is_lone(self) -> bool:
        """Whether a batch is one task this time."""
        return self.chance.random() < self._lone_share

    def _keeper(self) -> Keeper:
        """One that decided before, for this driver or another, or one that is new."""
        idle = [keeper for keeper in self.keepers if not keeper.is_busy]
        if idle and self.chance.random() < 0.8:
            return self.chance.choice(idle)
        self.keepers.append(Keeper())
        return self.keepers[-1]

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self._tick()

    def finish(self) -> None:
        """The drivers die; what they left goes on beside a last driver, which comes to the end of all batches."""
        self.world.last_batch += 1  # At least one more commit, which sweeps.
        for process in list(self.processes):
            if isinstance(process, Driver):
                self._over(process)
        while self.world.committed_batch < self.world.last_batch and not self.world.lost:
            last = self.start_driver()
            while last in self.processes:
                self._step(self.chance.choice(self.processes))

    def _tick(self) -> None:
        roll = self.chance.random()
        drivers = [process for process in self.processes if isinstance(process, Driver)]
        if not drivers or (roll < 0.03 and len(drivers) < DRIVERS_MAX):
            self.start_driver()
        elif roll < 0.06:
            self._over(self.chance.choice(self.processes))
        elif roll < 0.08:
            self.chance.choice(drivers).has_lost_commit = True
        elif roll < 0.10 and (found := self.world.open_ones()):
            self._harm(self.world, self.chance.choice(found))
        else:
            process = self.chance.choice(self.processes)
            for _ in range(self.chance.choice(self._strides)):
                if process in self.processes:
                    self._step(process)

    def _step(self, process: Process) -> None:
        process.step()
        if process.is_over:
            self._over(process)

    def _over(self, process: Process) -> None:
        process.kill()
        self.processes.remove(process)
        if isinstance(process, Driver):
            self.idle_workers.append(process.worker)


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 2**32), ticks=st.integers(0, 400), tasks=st.integers(1, 3), is_bumping=st.booleans())
def test_every_batch_is_visible_once_and_whole_whatever_dies(
    seed: int, ticks: int, tasks: int, is_bumping: bool
) -> None:
    history = History(World(tasks=tasks, is_bumping=is_bumping), random.Random(seed))
    history.run(ticks)
    history.finish()
    world = history.world
    for batch in range(1, world.last_batch + 1):
        world.check_committed(batch)
    assert not world.lost


def _unread(batch: int, mine: Sequence[Transaction], held: Decision | None = None) -> Plan:
    """A planted bug: a lone task fences, and does not look what was decided before."""
    if held is None:
        yield Fence()
    yield from commit_plan(batch, mine, held or Decision(batch - 1))


def test_a_lone_task_that_does_not_read_the_last_decision_is_found_out() -> None:
    with pytest.raises(AssertionError, match="mixture of attempts"):
        for seed in range(200):
            history = History(World(lone_plan=_unread), random.Random(seed))
            history.run(400)
            history.finish()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), ticks=st.integers(0, 400))
def test_no_transaction_stays_open_after_the_last_commit(seed: int, ticks: int) -> None:
    """One that nobody ends would hold back every reader of committed records for ever."""
    history = History(World(), random.Random(seed))
    history.run(ticks)
    history.processes.clear()
    history.finish()
    assert history.world.open_ones() == []


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32), ticks=st.integers(0, 400), is_bumping=st.booleans(), is_by_hand=st.booleans())
def test_with_time_outs_and_aborts_by_hand_a_batch_is_whole_or_loudly_lost(
    seed: int, ticks: int, is_bumping: bool, is_by_hand: bool
) -> None:
    """No attempts are mixed, and what was aborted between decision and end is never taken for done."""
    world = World(two_phase=is_by_hand, is_bumping=is_bumping)
    history = History(world, random.Random(seed), World.fence if is_by_hand else World.time_out)
    history.run(ticks)
    history.finish()
    for batch in range(1, world.committed_batch + 1):
        if batch not in world.lost:
            world.check_committed(batch)
    world.check_losses()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), ticks=st.integers(0, 400))
def test_a_query_that_is_settled_leaves_nothing_open_and_loses_nothing(seed: int, ticks: int) -> None:
    history = History(World(), random.Random(seed))
    history.run(ticks)
    for process in list(history.processes):
        process.kill()
    for _ in served(history.world, settle_plan()):
        pass
    assert history.world.open_ones() == []
    history.world.check()
    assert not history.world.lost


def _open(world: World, worker: Worker, batch: int) -> Transaction:
    """A task's work, done at one go."""
    world.attempts += 1
    work = worker.write(Part(batch, world.attempts, 0))
    while True:
        try:
            next(work)
        except StopIteration as done:
            transaction: Transaction = done.value
            return transaction


def _late_commit(world: World) -> list[Process]:
    """Spark gives a commit up that has not even begun, and aborts: both have the same messages."""
    mine = [_open(world, Worker(world), 1)]
    return [Process(served(world, commit_plan(1, mine))), Process(served(world, abort_plan(1, mine)))]


def _two_attempts(world: World) -> list[Process]:
    """Two drivers commit the same batch, each as it wrote it."""
    return [Process(served(world, commit_plan(1, [_open(world, Worker(world), 1)]))) for _ in range(2)]


def _one_goes_on(world: World) -> list[Process]:
    """One driver falls asleep over a batch that another brings to its end, and goes on to the next."""

    def goes_on() -> Generator[None, None, None]:
        worker = Worker(world)
        yield from served(world, commit_plan(1, [_open(world, worker, 1)]))
        yield from served(world, commit_plan(2, [_open(world, worker, 2)]))
        world.check_committed(2)

    return [Process(served(world, commit_plan(1, [_open(world, Worker(world), 1)]))), Process(goes_on())]


def _kept(world: World) -> Keeper:
    """The fence of batch 1, which is committed."""
    keeper = Keeper()
    for _ in committed(world, 1, [_open(world, Worker(world), 1)], keeper):
        pass
    return keeper


def _one_goes_on_under_its_fence(world: World) -> list[Process]:
    """One driver decides batch after batch under the same fence, and another comes in with one of them."""
    keeper = _kept(world)

    def goes_on() -> Generator[None, None, None]:
        worker = Worker(world)
        for batch in (2, 3):
            yield from committed(world, batch, [_open(world, worker, batch)], keeper)
            world.check_committed(batch)

    return [Process(goes_on()), Process(served(world, commit_plan(2, [_open(world, Worker(world), 2)])))]


def _one_takes_ids_again(world: World) -> list[Process]:
    """One driver falls asleep over a batch whose ids another's worker uses again by and by."""
    worker = Worker(world)
    mine = [_open(world, worker, 1)]

    def goes_on() -> Generator[None, None, None]:
        yield from served(world, commit_plan(1, mine))
        for batch in (2, 3):
            yield from served(world, commit_plan(batch, [_open(world, worker, batch)]))
            world.check_committed(batch)

    return [Process(served(world, commit_plan(1, mine))), Process(goes_on())]


def _given_up_under_its_fence(world: World) -> list[Process]:
    """Spark gives a commit up that was to go on under the fence of the batch before."""
    keeper, mine = _kept(world), [_open(world, Worker(world), 2)]
    return [Process(committed(world, 2, mine, keeper)), Process(served(world, abort_plan(2, mine)))]


def _lone(world: World, batch: int, keeper: Keeper | None = None) -> Process:
    """A lone task."""
    world.attempts += 1
    return Process(committed(world, batch, [], keeper or Keeper(), [Part(batch, world.attempts, 0)]))


def _two_lone_attempts(world: World) -> list[Process]:
    """A lone task is run again, or speculated on, while its first attempt goes on under the fence that was kept."""
    return [_lone(world, 2, _kept(world)), _lone(world, 2)]


def _lone_and_several(world: World) -> list[Process]:
    """A batch comes again as several tasks while a lone one of it goes on, or the other way round."""
    keeper = _kept(world)
    return [_lone(world, 2, keeper), Process(committed(world, 2, [_open(world, Worker(world), 2)], Keeper()))]


def _lone_and_aborted(world: World) -> list[Process]:
    """The batch is taken back while its lone task goes on: one of them is first, and rows show once or not at all."""
    return [_lone(world, 2, _kept(world)), Process(served(world, abort_plan(2, [])))]


def _aborted_by_another(world: World) -> list[Process]:
    """A driver that failed takes the batch back while another is about to commit it."""
    return [
        Process(served(world, commit_plan(1, [_open(world, Worker(world), 1)]))),
        Process(served(world, abort_plan(1, [_open(world, Worker(world), 1)]))),
    ]


def _settled_meanwhile(world: World) -> list[Process]:
    """Somebody takes the query for dead while its driver is only slow."""
    return [
        Process(served(world, commit_plan(1, [_open(world, Worker(world), 1)]))),
        Process(served(world, settle_plan())),
    ]


@pytest.mark.parametrize(
    "scene",
    [
        _late_commit,
        _two_attempts,
        _one_goes_on,
        _one_goes_on_under_its_fence,
        _one_takes_ids_again,
        _given_up_under_its_fence,
        _two_lone_attempts,
        _lone_and_several,
        _lone_and_aborted,
        _aborted_by_another,
        _settled_meanwhile,
    ],
)
def test_two_processes_lose_nothing_however_they_take_turns(scene: Callable[[World], list[Process]]) -> None:
    """Every way to take turns with up to three changes of turn after the first."""
    for turns in itertools.product(range(1, 24), repeat=3):
        world = World(tasks=1)
        processes = scene(world)
        for who, steps in enumerate((*turns, 100, 100)):
            process = processes[who % 2]
            for _ in range(steps):
                if not process.is_over:
                    process.step()
        assert all(process.is_over for process in processes)
        assert not any(isinstance(process.failure, BatchLost) for process in processes), turns
        world.check()


def test_a_decided_batch_that_is_written_again_is_ended_as_decided_and_the_new_one_taken_back() -> None:
    first, second = Transaction("q/a/0", 1, 0), Transaction("q/b/0", 2, 0)
    plan = commit_plan(7, [second])
    next(plan)
    plan.send(None)
    assert plan.send(Decision(7, (first,))) == End((first,), is_commit=True)
    assert plan.send({first: Fate.COMMITTED}) == End((second,), is_commit=False)


def test_a_batch_before_the_last_one_is_taken_back_and_told() -> None:
    """Its driver is behind, or its checkpoint is: what it took for new was written long ago."""
    last, late = Transaction("q/a/0", 1, 0), Transaction("q/b/0", 2, 0)
    plan = commit_plan(6, [late])
    next(plan)
    plan.send(None)
    assert plan.send(Decision(7, (last,))) == End((late,), is_commit=False)
    with pytest.raises(BatchOutdated, match=r"batch 6: batch 7 of this query is written already.*checkpointLocation"):
        plan.send({late: Fate.ABORTED})


def test_with_a_batch_is_taken_back_what_its_tasks_left_unheard() -> None:
    world = World(tasks=1)
    _open(world, Worker(world), 1)
    for _ in served(world, abort_plan(1, [_open(world, Worker(world), 1)])):
        pass
    assert world.open_ones() == []


def test_what_was_given_up_is_remembered_only_until_it_is_aborted() -> None:
    """A batch that fails again and again would be too much for one record."""
    world = World(tasks=1)
    for _ in range(3):
        mine = [_open(world, Worker(world), 1)]
        for _ in served(world, abort_plan(1, mine)):
            pass
        assert world.decision.given_up == tuple(mine)
        assert world.open_ones() == []
    crashing = abort_plan(1, [_open(world, Worker(world), 1)])
    process = Process(served(world, crashing))
    while not world.open_ones() or world.decision.given_up == tuple(mine):
        process.step()
    process.kill()  # What it gave up is open still.
    for _ in served(world, abort_plan(1, [_open(world, Worker(world), 1)])):
        pass
    assert world.open_ones() == []


def test_a_decided_part_that_was_aborted_is_an_error_that_names_the_batch() -> None:
    first = Transaction("q/a/0", 1, 0)
    plan = commit_plan(7, [])
    next(plan)
    plan.send(None)
    plan.send(Decision(7, (first,)))
    assert plan.send({first: Fate.ABORTED}) == ReadDecision()
    with pytest.raises(BatchLost, match=r"batch 7 .*q/a/0"):
        plan.send(Decision(7, (first,)))


def test_whoever_was_left_behind_is_told_of_that_and_not_of_a_loss() -> None:
    """It fell asleep before the end of a batch; the ids were used again since, after another had committed it."""
    first = Transaction("q/a/0", 1, 0)
    plan = commit_plan(7, [])
    next(plan)
    plan.send(None)
    plan.send(Decision(7, (first,)))
    plan.send({first: Fate.ABORTED})
    with pytest.raises(BatchOutdated, match="batch 7: batch 9 of this query is written already"):
        plan.send(Decision(9))


def test_what_a_coordinator_tells_of_a_transaction() -> None:
    transaction = Transaction("q/a/0", 5, 3)
    table = {
        Standing("Ongoing", 5, 3): Fate.OPEN,
        Standing("PrepareCommit", 5, 4): Fate.COMMITTED,
        Standing("CompleteCommit", 5, 4): Fate.COMMITTED,
        Standing("CompleteCommit", 5, 3): Fate.COMMITTED,  # Ended by an older version, which leaves the epoch.
        Standing("CompleteAbort", 5, 4): Fate.ABORTED,
        Standing("PrepareEpochFence", 5, 4): Fate.ABORTED,
        Standing("Empty", 5, 5): Fate.ABORTED,  # An administrator took the id away.
        Standing("Ongoing", 5, 5): Fate.ABORTED,  # It was used again, as is never done with one that may be decided.
        Standing("CompleteCommit", 5, 6): Fate.ABORTED,
        Standing("Empty", 5, 3): Fate.ABORTED,  # It never began.
        Standing("CompleteCommit", 5, 2): Fate.ABORTED,
        Standing("CompleteCommit", 6, 0): Fate.ABORTED,  # Somebody else's; better an error than a loss.
    }
    assert {found: fate_of(transaction, found) for found in table} == table
    assert fate_of(transaction, None) is Fate.ABORTED
    assert fate_of(transaction._replace(is_two_phase=True), None) is Fate.COMMITTED


@pytest.mark.parametrize(
    ("uses", "batch", "expected"),
    [
        ({"a": 5}, 5, []),  # It comes again, and may be decided.
        ({"a": 5}, 6, []),  # It was the last to be decided, and may come again.
        ({"a": 5, "b": 6}, 6, []),
        ({"a": 5, "b": 6}, 7, ["a"]),
        ({"a": 5, "b": 6}, 5, []),  # As it goes where each batch has several versions.
        ({"a": 50}, 70, []),  # Nobody knows of one in between, and versions may leave numbers out.
        ({"a": 50, "b": 60}, 70, ["a"]),
        ({"a": 5, "b": 6, "c": 7}, 3, []),
        ({"a": NEVER, "b": 0}, 0, ["a"]),
        ({"a": 0, "b": NEVER}, 1, ["b"]),
    ],
)
def test_an_id_is_taken_again_only_when_the_last_decision_does_not_name_it(
    uses: dict[str, int], batch: int, expected: list[str]
) -> None:
    assert reusable(uses, batch) == expected


def test_an_id_is_taken_again_only_after_a_commit() -> None:
    assert is_free(None)
    assert is_free(Standing("CompleteCommit", 1, 4))
    assert is_free(Standing("Empty", 1, 4))
    assert not any(is_free(Standing(state, 1, 4)) for state in ("Ongoing", "PrepareCommit", "CompleteAbort"))
    assert not is_free(Standing("CompleteCommit", 1, 30_000))


def test_an_id_goes_on_without_being_initialised_only_where_its_commit_gave_the_next_epoch() -> None:
    last = Transaction("a", 1, 4, True)
    assert continued(last, Standing("CompleteCommit", 1, 5)) == Transaction("a", 1, 5, True)
    assert continued(None, Standing("CompleteCommit", 1, 5)) is None
    assert continued(last, None) is None, "its coordinator has forgotten it"
    assert continued(last, Standing("CompleteCommit", 1, 4)) is None, "sequence numbers would go on there"
    assert continued(last, Standing("CompleteCommit", 1, 6)) is None, "somebody was here"
    assert continued(last, Standing("CompleteCommit", 2, 5)) is None
    for state in ("Empty", "Ongoing", "PrepareCommit", "CompleteAbort"):
        assert continued(last, Standing(state, 1, 5)) is None
    exhausted = Transaction("a", 1, EPOCH_MAX - 1)
    assert continued(exhausted, Standing("CompleteCommit", 1, EPOCH_MAX)) is None
