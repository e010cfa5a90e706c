"""Where records come from, as a driver sees it, and the places in it that options name."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from millstream.client.partitions import EARLIEST, LATEST
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.filters import Bounds
from millstream.pipelines.spark.options import Boundary, Selection, SourceOptions
from millstream.pipelines.spark.planning import Offsets


class Aborted(NamedTuple):
    """A transaction whose records, from ``first_offset`` to the marker at ``last_offset``, are not to be shown."""

    producer_id: int
    first_offset: int
    last_offset: int


class Origin(Protocol):
    """A cluster, or a log directory."""

    def partitions(self, selection: Selection, *, must_exist: bool) -> list[TopicPartition]:
        """The partitions selected that are there now; a SettingError for one that must exist and does not."""
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where each partition's records begin."""
        ...

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where the next record will go; for readers of committed records, where the oldest open transaction is."""
        ...

    def bounds(self, selection: Selection) -> tuple[Offsets, Offsets]:
        """``earliest`` and ``latest`` of the partitions selected that are there now, at one go."""
        ...

    def by_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        """The first record that is not older, of each partition that has one."""
        ...

    def aborted(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Sequence[Aborted]]:
        """The aborted transactions that tasks must be told of; none where they hear of them as they read."""
        ...

    def rest(self) -> None:
        """Wait a little, where what is asked again may be answered otherwise."""
        ...

    def close(self) -> None: ...


def starting(origin: Origin, options: SourceOptions, partitions: list[TopicPartition]) -> Offsets:
    """The offsets that a batch or a new stream starts at."""
    boundary = options.starting
    moments = _moments(boundary, partitions)
    if moments is None:
        return _at(origin, boundary, partitions, clamped=not options.fails_on_data_loss)
    found = origin.by_time(moments)
    missing = [tp for tp in partitions if tp not in found]
    if missing and options.strategy == "error":
        names = ", ".join(map(str, missing))
        boundary.refuse(
            f"no record is as young in {names}; startingOffsetsByTimestampStrategy=latest starts there at the latest"
        )
    return {**found, **origin.latest(missing)}


def ending(origin: Origin, options: SourceOptions, partitions: list[TopicPartition]) -> Offsets:
    """The offsets that a batch ends at."""
    boundary = options.ending
    moments = _moments(boundary, partitions)
    if moments is None:
        return _at(origin, boundary, partitions, clamped=not options.fails_on_data_loss)
    found = origin.by_time(moments)
    return {**found, **origin.latest(tp for tp in partitions if tp not in found)}


def narrowed(
    origin: Origin, bounds: Bounds, starts: Offsets, stops: Offsets, disorder_max_ms: int | None = None
) -> tuple[Offsets, Offsets]:
    """The offsets between which all lies that is within the bounds, for the partitions that may hold some of it.

    Records before the first that is young enough are too old, in whatever order they came. Where the young ones end
    is known only if disorder is bounded: then no old one comes after one that is younger by more than that.
    """
    offsets, moments = bounds.offsets, bounds.timestamps_ms
    starts = {tp: max(start, offsets.least or 0) for tp, start in starts.items() if bounds.wants(tp)}
    stops = {tp: stops[tp] if offsets.beyond is None else min(stops[tp], offsets.beyond) for tp in starts}
    starts = {tp: start for tp, start in starts.items() if start < stops[tp]}
    if moments.least is not None and moments.least >= 0:
        young = origin.by_time(dict.fromkeys(starts, moments.least))
        starts = {tp: max(starts[tp], first) for tp, first in young.items()}
    if moments.beyond is not None and disorder_max_ms is not None and moments.beyond + disorder_max_ms >= 0:
        younger = origin.by_time(dict.fromkeys(starts, moments.beyond + disorder_max_ms))
        stops |= {tp: min(stops[tp], first) for tp, first in younger.items()}
    return starts, stops


def _moments(boundary: Boundary, partitions: list[TopicPartition]) -> Offsets | None:
    if boundary.timestamp_ms is not None:
        return dict.fromkeys(partitions, boundary.timestamp_ms)
    if boundary.timestamps is not None:
        _check_named(boundary, boundary.timestamps, partitions)
        return dict(boundary.timestamps)
    return None


def _at(origin: Origin, boundary: Boundary, partitions: list[TopicPartition], *, clamped: bool) -> Offsets:
    if boundary.everywhere is not None:
        return origin.earliest(partitions) if boundary.everywhere == EARLIEST else origin.latest(partitions)
    assert boundary.offsets is not None
    _check_named(boundary, boundary.offsets, partitions)
    earliest, latest = origin.earliest(partitions), origin.latest(partitions)
    places: dict[int, Offsets] = {EARLIEST: earliest, LATEST: latest}
    found = {}
    for tp, offset in boundary.offsets.items():
        exact = places[offset][tp] if offset in places else offset
        found[tp] = min(max(exact, earliest[tp]), latest[tp])
        if found[tp] != exact and not clamped:
            boundary.refuse(f"partition {tp} has offsets from {earliest[tp]} to {latest[tp]} only, not {exact}")
    return found


def _check_named(boundary: Boundary, named: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    """Every partition must be given a place, and no other."""
    missing, strange = set(partitions) - set(named), set(named) - set(partitions)
    if missing:
        boundary.refuse(f"must name every partition; missing: {', '.join(map(str, sorted(missing)))}")
    if strange:
        boundary.refuse(f"names what is not read: {', '.join(map(str, sorted(strange)))}")
