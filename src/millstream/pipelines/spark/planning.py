"""What a batch or micro-batch reads: offsets in, ranges and new offsets out. No I/O, no clock."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from millstream.model.ids import TopicPartition

Offsets = dict[TopicPartition, int]
#: Offsets as Spark keeps them in a checkpoint: {"orders": {"0": 23}}, as its own Kafka source does.
Document = dict[str, dict[str, int]]


#: A micro-batch's task of fewer records takes longer to start than to run.
PACK_RECORDS = 2_000


class DataLost(Exception):
    """Records are gone that should have been read."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"failOnDataLoss=true: {what}. Records may have been deleted by retention or with their topic "
            "before they were read; with failOnDataLoss=false the query goes on with what is there."
        )


class IncompatibleCheckpoint(Exception):
    """A checkpoint's offsets that this source did not write."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition, from ``start`` up to and without ``stop``."""

    partition: TopicPartition
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def to_document(offsets: Mapping[TopicPartition, int]) -> Document:
    """The one way these offsets are written: Spark compares their text."""
    document: Document = {}
    for tp in sorted(offsets):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return document


def from_document(document: Any) -> Offsets:
    """What ``to_document`` wrote; IncompatibleCheckpoint when it cannot have been it."""
    try:
        return {
            TopicPartition(topic, int(index)): _whole(offset)
            for topic, offsets in document.items()
            for index, offset in offsets.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise IncompatibleCheckpoint(
            f"checkpointLocation: its offsets {document!r} were written by another source, "
            "where millstream's are like {'orders': {'0': 23}}; give this query a checkpoint of its own"
        ) from None


def _whole(number: object) -> int:
    if type(number) is not int or number < 0:
        raise ValueError
    return number


def admit(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], records_max: int) -> Offsets:
    """How far to read when no more than about ``records_max`` records are wanted: from each partition its share.

    A share below one is taken for one, or a small partition beside a large one would never be read.
    """
    sizes = {tp: max(end - starts.get(tp, end), 0) for tp, end in ends.items()}
    total = sum(sizes.values())
    if total <= records_max:
        return dict(ends)
    admitted = {}
    for tp, end in ends.items():
        share = records_max * sizes[tp] / total
        step = ceil(share) if share < 1 else floor(share)
        admitted[tp] = min(starts.get(tp, end) + step, end)
    return admitted


def ranges(starts: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]) -> list[Range]:
    """What lies between, in order; nothing of a partition that stops where it starts, or before."""
    return [Range(tp, starts[tp], stops[tp]) for tp in sorted(stops) if tp in starts and starts[tp] < stops[tp]]


def split(whole: Iterable[Range], tasks_min: int = 0, records_max: int = 0) -> list[Range]:
    """The ranges cut so that there are at least ``tasks_min`` and none is longer than ``records_max``.

    Each is cut into as many parts as its share of the records; 0 stands for no such wish.
    """
    pieces = list(whole)
    if records_max:
        pieces = [part for piece in pieces for part in _cut(piece, ceil(len(piece) / records_max))]
    if not pieces or tasks_min <= len(pieces):
        return pieces
    total = sum(map(len, pieces))
    parts = {piece: max(floor(tasks_min * len(piece) / total), 1) for piece in pieces}
    # Rounding down leaves a few over: the ranges whose parts are the largest get them.
    while sum(parts.values()) < tasks_min:
        widest = max(parts, key=lambda piece: len(piece) / parts[piece])
        if len(widest) <= parts[widest]:
            break
        parts[widest] += 1
    return [part for piece in pieces for part in _cut(piece, parts[piece])]


def _cut(piece: Range, parts: int) -> Iterator[Range]:
    parts = min(parts, len(piece))
    for number in range(parts):
        start = piece.start + len(piece) * number // parts
        stop = piece.start + len(piece) * (number + 1) // parts
        yield Range(piece.partition, start, stop)


def packed(pieces: Iterable[Range], records_max: int) -> list[list[Range]]:
    """The ranges, in order, put together as long as there are no more than so many records in a pack."""
    packs: list[list[Range]] = []
    room = 0
    for piece in pieces:
        if not packs or len(piece) > room:
            packs.append([])
            room = records_max
        packs[-1].append(piece)
        room -= len(piece)
    return packs


def losses(
    starts: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Iterator[str]:
    """What can no longer be read of what comes after ``starts``: a sentence for each partition that lost something."""
    for tp, start in sorted(starts.items()):
        if tp not in latest:
            yield f"partition {tp} is gone, and was read up to offset {start} only"
        elif start < earliest[tp]:
            yield f"partition {tp} starts at offset {earliest[tp]}, and was read up to offset {start} only"
        elif start > latest[tp]:
            yield f"partition {tp} ends at offset {latest[tp]}, and was read up to offset {start} before"
    for tp in sorted(latest.keys() - starts.keys()):
        if earliest[tp] > 0:
            yield f"partition {tp} is new and starts at offset {earliest[tp]}, not 0"


def resumed(
    starts: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Offsets:
    """Where to go on in each partition that is there now: where reading stopped, else where its records begin."""
    return {
        tp: starts[tp] if tp in starts and earliest[tp] <= starts[tp] <= latest[tp] else earliest[tp] for tp in latest
    }
