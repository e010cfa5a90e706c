"""What commands that print records share: which partitions, from where to where, and how."""

import argparse
import sys
from collections.abc import Sequence

from millstream.cli.failure import CommandFailed
from millstream.cli.formats import Printer, compile_format, json_printer
from millstream.cli.positions import Base, Position, Range
from millstream.client.cluster import Cluster
from millstream.client.partitions import EARLIEST, LATEST, list_offsets
from millstream.client.reader import Read
from millstream.model.ids import TopicPartition

Offsets = dict[TopicPartition, int]


def printer_of(args: argparse.Namespace) -> Printer:
    """What prints a record as the options say."""
    if args.output == "json":
        return json_printer
    try:
        return compile_format(
            args.format, key_format=args.key_format, value_format=args.value_format, null=args.null.encode()
        )
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=2) from None


def print_read(read: Read, printer: Printer) -> None:
    """Print the records and let them be seen at once."""
    topic, partition = read.partition
    sys.stdout.buffer.write(b"".join([printer(topic, partition, record) for record in read.records]))
    sys.stdout.buffer.flush()


async def partitions_of(cluster: Cluster, names: Sequence[str], numbers: Sequence[int] | None) -> list[TopicPartition]:
    """The partitions of the topics named, or those of the numbers given."""
    chosen = []
    for name in names:
        topic = await cluster.topic(name)
        known = [partition.index for partition in topic.partitions]
        for number in known if numbers is None else numbers:
            if number not in known:
                raise CommandFailed(f"topic {name!r} has {len(known)} partitions, none numbered {number}")
            chosen.append(TopicPartition(name, number))
    return chosen


async def resolve(
    cluster: Cluster, partitions: Sequence[TopicPartition], wanted: Range, isolation: int, *, until_end: bool = False
) -> tuple[Offsets, Offsets]:
    """Where to start, and where to stop, in each partition; a partition without a stop is followed for ever."""
    firsts = {
        tp: found.offset for tp, found in (await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))).items()
    }
    ends = await end_offsets(cluster, partitions, isolation)
    starts = await _offsets_of(cluster, wanted.start, firsts, ends)
    stops = dict(ends) if until_end else {}
    if wanted.stop is not None:
        named = await _offsets_of(cluster, wanted.stop, firsts, ends, bounded=False)
        stops = {tp: min(named[tp], stops.get(tp, named[tp])) for tp in partitions}
    return starts, stops


async def end_offsets(cluster: Cluster, partitions: Sequence[TopicPartition], isolation: int) -> Offsets:
    """The offset that the next visible record of each partition will have."""
    found = await list_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation=isolation)
    return {tp: found[tp].offset for tp in partitions}


async def _offsets_of(
    cluster: Cluster, position: Position, firsts: Offsets, ends: Offsets, *, bounded: bool = True
) -> Offsets:
    """The offset of a position in each partition, within what is there now if ``bounded``."""
    if position.base is Base.MOMENT:
        found = await list_offsets(cluster, dict.fromkeys(firsts, position.number))
        return {tp: ends[tp] if found[tp].offset < 0 else found[tp].offset for tp in firsts}
    bases = {Base.OFFSET: dict.fromkeys(firsts, 0), Base.START: firsts, Base.END: ends}[position.base]
    offsets = {tp: base + position.number for tp, base in bases.items()}
    if position.base is Base.OFFSET and bounded:
        return {tp: max(firsts[tp], offset) for tp, offset in offsets.items()}
    return {tp: max(firsts[tp], min(offset, ends[tp]) if bounded else offset) for tp, offset in offsets.items()}
