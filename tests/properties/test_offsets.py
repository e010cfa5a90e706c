"""Whatever is committed, ended, deleted or let expire: the machine keeps what a table by record offset would."""

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from tests.unit.coordination.groups.offsets import BY_NAME, commit, committed, delete, group_stage, txn_commit
from tests.unit.coordination.stage import START_MS, Stage, Topics

RETENTION_MS = 1_000
CHECK_MS = 100
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=CHECK_MS)
GROUPS = ["g", "h"]
TOPICS = ["orders", "audit"]
PARTITIONS = 1

Place = tuple[str, int]
Key = tuple[str, Place]

groups = st.sampled_from(["g", "g", "g", "h"])
places = st.tuples(st.sampled_from(TOPICS), st.integers(0, PARTITIONS - 1))
rows = st.dictionaries(places, st.integers(0, 1_000), min_size=1, max_size=2)
producers = st.integers(1, 2)
writes = st.one_of(
    st.tuples(st.just("commit"), groups, rows),
    st.tuples(st.just("pend"), groups, rows, producers),
    st.tuples(st.just("end"), producers, st.sampled_from([True, True, False])),
)
others = st.one_of(
    st.tuples(st.just("delete"), groups, st.lists(places, min_size=1, max_size=2, unique=True)),
    st.tuples(st.just("wait"), st.sampled_from([10, 400, 1_500])),
    st.tuples(st.just("drop"), st.sampled_from(TOPICS)),
    st.tuples(st.just("restart")),
)
#: Mostly writes to few places, so that they meet.
steps = st.integers(0, 9).flatmap(lambda chance: writes if chance else others)


class Model:
    """Kafka's rule, word for word: a pending offset counts if its record lies behind that of what holds."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._record = 0
        #: Key -> offset, number of its record, when it was committed.
        self.held: dict[Key, tuple[int, int, int]] = {}
        self.pending: dict[int, dict[Key, tuple[int, int, int]]] = defaultdict(dict)

    def _next(self, offset: int) -> tuple[int, int, int]:
        self._record += 1
        return offset, self._record, self.now_ms

    def commit(self, group: str, rows: dict[Place, int]) -> None:
        for place, offset in rows.items():
            self.held[group, place] = self._next(offset)

    def pend(self, group: str, rows: dict[Place, int], producer: int) -> None:
        for place, offset in rows.items():
            self.pending[producer][group, place] = self._next(offset)

    def end(self, producer: int, is_commit: bool) -> None:
        for key, entry in self.pending.pop(producer, {}).items():
            if is_commit and (key not in self.held or entry[1] > self.held[key][1]):
                self.held[key] = entry

    def delete(self, group: str, places: list[Place]) -> None:
        for place in places:
            self._forget((group, place))

    def drop(self, topic: str) -> None:
        for group in GROUPS:
            for partition in range(PARTITIONS):
                self._forget((group, (topic, partition)))

    def wait(self, by_ms: int) -> None:
        """Rounds come at multiples of the interval since the last start."""
        self.now_ms += by_ms

    def expire(self, at_ms: int) -> None:
        for key, (_, _, committed_ms) in list(self.held.items()):
            if at_ms - committed_ms >= RETENTION_MS and not self.is_pending(key):
                del self.held[key]

    def is_pending(self, key: Key) -> bool:
        return any(key in entries for entries in self.pending.values())

    def shown(self, group: str) -> dict[str, int]:
        return {
            f"{topic}-{partition}": entry[0]
            for (owner, (topic, partition)), entry in self.held.items()
            if owner == group
        }

    def _forget(self, key: Key) -> None:
        self.held.pop(key, None)
        for entries in self.pending.values():
            entries.pop(key, None)


class Play:
    """The machine and the model, told the same."""

    def __init__(self) -> None:
        self.topics = Topics(**dict.fromkeys(TOPICS, PARTITIONS))
        self.stage = group_stage(self.topics, SETTINGS)
        self.model = Model()
        self._round_ms = START_MS + CHECK_MS

    def perform(self, name: str, *given: Any) -> None:
        getattr(self, name)(*given)

    def commit(self, group: str, rows: dict[Place, int]) -> None:
        self.stage.ask(commit(group, rows), BY_NAME)
        self.model.commit(group, rows)

    def pend(self, group: str, rows: dict[Place, int], producer: int) -> None:
        self.stage.ask(txn_commit(group, rows, producer))
        self.model.pend(group, rows, producer)

    def end(self, producer: int, is_commit: bool) -> None:
        self.stage.end_transaction(producer, is_commit=is_commit)
        self.model.end(producer, is_commit)

    def delete(self, group: str, places: list[Place]) -> None:
        assert isinstance(self.stage.machine, GroupMachine)
        if group in self.stage.machine.groups:
            self.stage.ask(delete(group, *places))
            self.model.delete(group, places)

    def drop(self, topic: str) -> None:
        self.topics.delete(topic)
        self.stage.topics_changed(topic)
        self.topics.make(topic, PARTITIONS)
        self.model.drop(topic)

    def wait(self, by_ms: int) -> None:
        until_ms = self.model.now_ms + by_ms
        while self._round_ms <= until_ms:
            self.model.expire(self._round_ms)
            self._round_ms += CHECK_MS
        self.model.wait(by_ms)
        self.stage.advance(by_ms)

    def restart(self) -> None:
        self.stage.restart()
        self._round_ms = self.model.now_ms + CHECK_MS


def check(stage: Stage, model: Model) -> None:
    everything = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    for group in GROUPS:
        assert committed(stage, group) == model.shown(group)
        stable = committed(stage, group, *everything, is_stable=True)
        for topic, partition in everything:
            is_unstable = stable[f"{topic}-{partition}"] == "UNSTABLE_OFFSET_COMMIT"
            assert is_unstable == model.is_pending((group, (topic, partition)))


@given(st.lists(steps, min_size=10, max_size=40))
@settings(max_examples=200, deadline=None)
def test_a_history_ends_as_the_table_says_and_loads_the_same(history: list[tuple[Any, ...]]) -> None:
    play = Play()
    for step in history:
        play.perform(*step)
        check(play.stage, play.model)
    before = play.stage.machine
    play.restart()
    check(play.stage, play.model)
    after = play.stage.machine
    assert isinstance(before, GroupMachine)
    assert isinstance(after, GroupMachine)
    assert before.groups.keys() == after.groups.keys()
    for group in GROUPS:
        assert before.offsets.store.of_group(group) == after.offsets.store.of_group(group)
