"""Where a group's offsets are to go, partition by partition, before anything is moved."""

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from millstream.cli.failure import CommandFailed
from millstream.cli.reading import partitions_of
from millstream.client.cluster import Cluster
from millstream.client.lag import Span, spans_of
from millstream.client.partitions import list_offsets
from millstream.model.ids import TopicPartition

Offsets = dict[TopicPartition, int]


class Place(Enum):
    """What a new offset is counted from."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    MOMENT = "moment"
    #: Where the group is; the number shifts it, None leaves it.
    CURRENT = "current"
    GIVEN = "given"


class Wish(NamedTuple):
    """Where to, and for which topics; None for all that the group has offsets of."""

    place: Place
    number: int | None = None
    topics: Sequence[tuple[str, list[int] | None]] | None = None
    given: Mapping[TopicPartition, int] | None = None


class Move(NamedTuple):
    """One partition's offset before and after."""

    topic: str
    partition: int
    current_offset: int | None
    new_offset: int
    note: str = ""


async def plan(cluster: Cluster, wish: Wish, current: Mapping[TopicPartition, int]) -> list[Move]:
    """The new offset of each partition wished for, within what it holds."""
    partitions = await _partitions(cluster, wish, current)
    spans = await spans_of(cluster, partitions)
    for tp in partitions:
        if tp not in spans:
            advice = "choose others with --topic" if wish.given is None else "take its line out of the file"
            raise CommandFailed(f"partition {tp} is not there, or has no leader now; {advice}")
    moments = {}
    if wish.place is Place.MOMENT:
        assert wish.number is not None
        found = await list_offsets(cluster, dict.fromkeys(partitions, wish.number))
        moments = {tp: at.offset for tp, at in found.items() if at.offset >= 0}
    return [_move(tp, wish, current.get(tp), spans[tp], moments) for tp in partitions]


async def _partitions(cluster: Cluster, wish: Wish, current: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    if wish.given is not None:
        return sorted(wish.given)
    if wish.topics is None:
        if not current:
            raise CommandFailed("the group has no offsets; say which topics with --topic")
        return sorted(current)
    chosen = {tp for name, numbers in wish.topics for tp in await partitions_of(cluster, [name], numbers)}
    return sorted(chosen)


def _move(
    tp: TopicPartition, wish: Wish, current: int | None, span: Span, moments: Mapping[TopicPartition, int]
) -> Move:
    number = wish.number or 0
    note = ""
    if wish.place is Place.CURRENT and current is None:
        if wish.number is not None:
            raise CommandFailed(
                f"partition {tp} was never committed, so there is nothing to shift; choose with --topic"
            )
        wanted, note = span.end, "never committed"
    elif wish.place is Place.MOMENT:
        wanted = moments.get(tp, span.end)
        note = "" if tp in moments else "nothing so late"
    else:
        given = wish.given or {}
        bases = {Place.START: span.start, Place.END: span.end, Place.OFFSET: 0, Place.CURRENT: current or 0}
        wanted = given[tp] if wish.place is Place.GIVEN else bases[wish.place] + number
    if wanted < span.start:
        note = f"{wanted} is before the start"
    elif wanted > span.end:
        note = f"{wanted} is past the end"
    return Move(tp.topic, tp.partition, current, min(max(wanted, span.start), span.end), note)


def read_file(path: str, group: str) -> Offsets:
    """Offsets from a file: rows as this command prints them in JSON, or lines of [group,]topic,partition,offset."""
    text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")
    rows = _json_rows(text, path) if text.lstrip().startswith(("[", "{")) else _csv_rows(text, path)
    offsets = {tp: offset for owner, tp, offset in rows if owner in (None, group)}
    if not offsets:
        raise CommandFailed(f"{path} has no offsets for group {group!r}")
    return offsets


def _csv_rows(text: str, path: str) -> Iterable[tuple[str | None, TopicPartition, int]]:
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if not row or row[0].startswith("#"):
            continue
        fields = [each.strip() for each in row]
        if len(fields) not in (3, 4) or not fields[-1].isdigit() or not fields[-2].isdigit():
            raise CommandFailed(
                f"{path}, line {number}: {','.join(row)!r} is not topic,partition,offset, as in orders,0,1000"
            )
        yield fields[0] if len(fields) == 4 else None, TopicPartition(fields[-3], int(fields[-2])), int(fields[-1])


def _json_rows(text: str, path: str) -> Iterable[tuple[str | None, TopicPartition, int]]:
    try:
        rows = json.loads(text)
        for row in rows if isinstance(rows, list) else [rows]:
            offset = row["new_offset"] if "new_offset" in row else row["offset"]
            yield row.get("group"), TopicPartition(str(row["topic"]), int(row["partition"])), int(offset)
    except (ValueError, KeyError, TypeError, AttributeError):
        wanted = '[{"topic": "orders", "partition": 0, "new_offset": 1000}]'
        raise CommandFailed(f"{path} is not a list of offsets such as {wanted}") from None
