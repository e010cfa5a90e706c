"""Which offset of a source's partition became which of the target's, and where a group goes on therefore. Pure.

**Invariant: no translation points behind a record that the group has not read.** Where less is known, it points before
some that it has: those are read again.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from millstream.model.ids import TopicPartition

#: Of one partition; beyond it every second of the older half is forgotten, so that what is recent stays exact.
RUNS_MAX = 4096


class Run(NamedTuple):
    """Records that followed each other on both sides: ``upstream + k`` became ``downstream + k``."""

    upstream: int
    downstream: int
    length: int

    @property
    def last(self) -> tuple[int, int]:
        """The offsets of its last record."""
        return self.upstream + self.length - 1, self.downstream + self.length - 1


class Translation:
    """The runs of one partition, in order."""

    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        self._runs: list[Run] = []
        self._runs_max = runs_max

    def learn(self, run: Run) -> None:
        """Take another run. One that is not behind all that are known begins anew: a topic was made again."""
        runs = self._runs
        if runs and not _is_behind(runs[-1], run):
            if _is_within(runs[-1], run):
                return
            runs.clear()
        if runs and _continues(runs[-1], run):
            runs[-1] = runs[-1]._replace(length=runs[-1].length + run.length)
        else:
            runs.append(run)
        if len(runs) > self._runs_max:
            half = len(runs) // 2
            runs[:half] = runs[:half:2]

    def downstream(self, upstream: int) -> int | None:
        """Where whoever is at ``upstream`` goes on; None for a place before all that is known."""
        at = bisect_right(self._runs, upstream, key=lambda run: run.upstream) - 1
        if at < 0:
            return None
        run = self._runs[at]
        return run.downstream + min(upstream - run.upstream, run.length)


def _is_behind(before: Run, run: Run) -> bool:
    return run.upstream >= before.upstream + before.length and run.downstream >= before.downstream + before.length


def _is_within(known: Run, run: Run) -> bool:
    is_like_it = run.downstream - run.upstream == known.downstream - known.upstream
    return is_like_it and run.upstream >= known.upstream and run.last <= known.last


def _continues(before: Run, run: Run) -> bool:
    return (before.upstream + before.length, before.downstream + before.length) == (run.upstream, run.downstream)


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same runs with those in one that follow each other."""
    found: list[Run] = []
    for run in runs:
        if found and _continues(found[-1], run):
            found[-1] = found[-1]._replace(length=found[-1].length + run.length)
        else:
            found.append(run)
    return found


class Translations:
    """All partitions of a flow."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, Translation] = {}

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether anything is known of the partition."""
        return tp in self._partitions

    def learn(self, tp: TopicPartition, runs: Iterable[Run]) -> None:
        for run in runs:
            self._partitions.setdefault(tp, Translation()).learn(run)

    def downstream(self, tp: TopicPartition, upstream: int) -> int | None:
        known = self._partitions.get(tp)
        return None if known is None else known.downstream(upstream)
