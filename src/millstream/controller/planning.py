"""Where partitions should be, so that every broker has its share, with as little copying as can be.

Pure.  A replica stays where it is unless its broker is to hold none, has more than its share, or shares a rack with
another replica while a rack has none.  Leaders are evened out last, for that copies nothing: those of each topic, then
all of them as far as no topic's become less even.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

#: A topic and the number of one of its partitions.
Key = tuple[str, int]

#: How many partitions are looked at for one that is better moved than the first.
LOOKED_AT_MAX = 50


def plan(
    placement: Mapping[Key, Sequence[int]], racks: Mapping[int, str | None], replication_factor: int | None = None
) -> dict[Key, tuple[int, ...]]:
    """The partitions that should change, and what to; ``racks`` names every broker that may hold any.

    Each keeps as many replicas as it has, or gets ``replication_factor``; never more than there are brokers.
    """
    plan_ = _Plan(placement, racks)
    for key in plan_.replicas:
        plan_.resize(key, replication_factor or len(placement[key]))
    for key in plan_.replicas:
        plan_.spread_over_racks(key)
    plan_.even_out()
    for _, keys in groupby(plan_.replicas, key=lambda key: key[0]):
        _Leaders({key: plan_.replicas[key] for key in keys}, racks).even_out()
    _Leaders(plan_.replicas, racks, keeps_topics=True).even_out()
    return {key: tuple(after) for key, after in plan_.replicas.items() if after != list(placement[key])}


class _Plan:
    """A placement that is being improved."""

    def __init__(self, placement: Mapping[Key, Sequence[int]], racks: Mapping[int, str | None]) -> None:
        # Racks known in part say nothing: then every broker is a rack of its own.
        is_known = all(rack is not None for rack in racks.values())
        self._racks = {broker: rack if is_known else str(broker) for broker, rack in racks.items()}
        self._rack_count = len(set(self._racks.values()))
        self._before = placement
        self.replicas = {
            key: [broker for broker in replicas if broker in racks] for key, replicas in sorted(placement.items())
        }
        self._load = Counter(dict.fromkeys(racks, 0))
        #: What each broker holds: of a topic; and of all, what it did not hold before.
        self._held: defaultdict[tuple[str, int], dict[Key, None]] = defaultdict(dict)
        self._fresh: defaultdict[int, dict[Key, None]] = defaultdict(dict)
        self._topics = sorted({topic for topic, _ in placement})
        for key, replicas in self.replicas.items():
            for broker in replicas:
                self._put(key, broker)

    def _put(self, key: Key, broker: int) -> None:
        self._load[broker] += 1
        self._held[key[0], broker][key] = None
        if broker not in self._before[key]:
            self._fresh[broker][key] = None

    def _take(self, key: Key, broker: int) -> None:
        self._load[broker] -= 1
        del self._held[key[0], broker][key]
        self._fresh[broker].pop(key, None)

    def _weight(self, key: Key, broker: int) -> tuple[int, ...]:
        """How full a broker is; of two alike, the one that had this partition before is better."""
        return self._load[broker], len(self._held[key[0], broker]), broker not in self._before[key], broker

    def _replace(self, key: Key, old: int, new: int) -> None:
        replicas = self.replicas[key]
        replicas[replicas.index(old)] = new
        self._take(key, old)
        self._put(key, new)

    # What is not negotiable.

    def resize(self, key: Key, count: int) -> None:
        """So many replicas, where there are as many brokers: lost ones are replaced, the fullest are dropped."""
        replicas = self.replicas[key]
        while len(replicas) < min(count, len(self._load)):
            taken = {self._racks[broker] for broker in replicas}
            candidates = [broker for broker in self._load if broker not in replicas]
            best = min(candidates, key=lambda broker: (self._racks[broker] in taken, self._weight(key, broker)))
            replicas.append(best)
            self._put(key, best)
        while len(replicas) > count:
            racks = Counter(self._racks[broker] for broker in replicas)
            worst = max(replicas[1:], key=lambda broker: (racks[self._racks[broker]] > 1, self._weight(key, broker)))
            replicas.remove(worst)
            self._take(key, worst)

    def spread_over_racks(self, key: Key) -> None:
        """No rack twice while another has none."""
        while True:
            replicas = self.replicas[key]
            racks = Counter(self._racks[broker] for broker in replicas)
            if len(racks) == min(len(replicas), self._rack_count):
                return
            crowded = [broker for broker in replicas if racks[self._racks[broker]] > 1]
            free = [broker for broker in self._load if self._racks[broker] not in racks]
            old = max(crowded, key=lambda broker: self._weight(key, broker))
            self._replace(key, old, min(free, key=lambda broker: self._weight(key, broker)))

    # What is better.

    def even_out(self) -> None:
        """Move replicas from brokers that have more than others, until no move helps."""
        while (step := self._next_step()) is not None:
            self._replace(*step)

    def _next_step(self) -> tuple[Key, int, int] | None:
        by_load = sorted(self._load, key=lambda broker: (self._load[broker], broker))
        for full in reversed(by_load):
            for empty in by_load:
                if self._load[full] - self._load[empty] < 2:
                    break
                key = self._movable(full, empty)
                if key is not None:
                    return key, full, empty
        return None

    def _movable(self, old: int, new: int) -> Key | None:
        """What is best moved: what is copied anyway, then what there is most too much of; followers before leaders."""
        found = self._first(self._fresh[old], old, new)
        if found is not None:
            return found
        held = self._held
        by_excess = sorted(self._topics, key=lambda topic: len(held[topic, new]) - len(held[topic, old]))
        for topic in by_excess:
            found = self._first(held[topic, old], old, new)
            if found is not None:
                return found
        return None

    def _first(self, keys: Iterable[Key], old: int, new: int) -> Key | None:
        led = []
        for key in keys:
            replicas = self.replicas[key]
            if new in replicas:
                continue
            others = {self._racks[broker] for broker in replicas if broker != old}
            if self._racks[new] in others and self._racks[old] not in others:
                continue  # A rack would be lost.
            if replicas[0] != old:
                return key
            led.append(key)
            if len(led) == LOOKED_AT_MAX:
                break
        return led[0] if led else None


class _Leaders:
    """Who leads what, and who could; where it ``keeps_topics``, no topic's leaders become less even."""

    def __init__(self, replicas: dict[Key, list[int]], brokers: Iterable[int], *, keeps_topics: bool = False) -> None:
        self._replicas = replicas
        self._keeps_topics = keeps_topics
        self._led = Counter(dict.fromkeys(brokers, 0))
        self._led_of: Counter[tuple[str, int]] = Counter()
        #: The partitions that the first leads and the second could.
        self._links: defaultdict[int, defaultdict[int, dict[Key, None]]] = defaultdict(lambda: defaultdict(dict))
        for key in replicas:
            self._link(key)

    def _link(self, key: Key) -> None:
        leader, *others = self._replicas[key]
        self._led[leader] += 1
        self._led_of[key[0], leader] += 1
        for other in others:
            self._links[leader][other][key] = None

    def _unlink(self, key: Key) -> None:
        leader, *others = self._replicas[key]
        self._led[leader] -= 1
        self._led_of[key[0], leader] -= 1
        for other in others:
            del self._links[leader][other][key]

    def even_out(self) -> None:
        """Put other replicas first, along chains of partitions from who leads too much to who leads too little."""
        while (chain := self._chain()) is not None:
            for key, broker in chain:
                self._unlink(key)
                self._replicas[key].remove(broker)
                self._replicas[key].insert(0, broker)
                self._link(key)

    def _chain(self) -> list[tuple[Key, int]] | None:
        """Partitions and who should lead each, so that one broker leads one less and another one more."""
        for start in sorted(self._led, key=lambda broker: (-self._led[broker], broker)):
            came_from: dict[int, int] = {start: start}
            queue = deque([start])
            while queue:
                broker = queue.popleft()
                if self._led[start] - self._led[broker] >= 2:
                    return self._steps(came_from, broker)
                for other in self._links[broker]:
                    if other not in came_from and self._passed_on(broker, other) is not None:
                        came_from[other] = broker
                        queue.append(other)
        return None

    def _steps(self, came_from: Mapping[int, int], end: int) -> list[tuple[Key, int]]:
        steps = []
        while came_from[end] != end:
            before = came_from[end]
            key = self._passed_on(before, end)
            assert key is not None
            steps.append((key, end))
            end = before
        return steps

    def _passed_on(self, leader: int, other: int) -> Key | None:
        """A partition that the other may lead instead."""
        led = self._led_of
        for key in self._links[leader][other]:
            if not self._keeps_topics or led[key[0], leader] > led[key[0], other]:
                return key
        return None
