"""Which records a table of a query has: fixed before Spark begins, so that all its scans see the same ones."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from millstream.config.setting import SettingError
from millstream.model.ids import TopicPartition
from millstream.pipelines.history.calls import Call
from millstream.pipelines.history.errors import QueryError
from millstream.pipelines.spark.options import SUBSCRIBE, SourceOptions, batch_options
from millstream.pipelines.spark.origin import Origin, ending, starting
from millstream.pipelines.spark.planning import Offsets, to_document

#: A moment as people write it, in milliseconds; ValueError says how to write one.
Moments = Callable[[str], int]
OriginOf = Callable[[SourceOptions], Origin]
Options = Mapping[str, str]

#: Arguments that are options of the source.
_OPTIONS = {
    "isolation": "kafka.isolation.level",
    "headers": "includeHeaders",
    "disorder": "maxTimestampDisorder",
}


class Snapshot(NamedTuple):
    """The options that read exactly these records, and how many offsets they span."""

    options: dict[str, str]
    offsets: int


def take(call: Call, given: Options, origin_of: OriginOf, moments: Moments) -> Snapshot:
    """What the call's table is now; QueryError for a topic that is not there or an argument that cannot be."""
    options = {**given, SUBSCRIBE.name: call.topic, "startingOffsetsByTimestampStrategy": "latest"}
    options |= {_OPTIONS[name]: str(value).lower() for name, value in call.arguments if name in _OPTIONS}
    times = _times(call, moments)
    try:
        parsed = batch_options({**options, **times})
        origin = origin_of(parsed)
        try:
            partitions = origin.partitions(parsed.selection, must_exist=True)
            starts, stops = starting(origin, parsed, partitions), ending(origin, parsed, partitions)
            starts, stops = _between(call, origin, starts, stops)
        finally:
            origin.close()
    except SettingError as error:
        raise _in_words_of(call, str(error)) from None
    places = {"startingOffsets": json.dumps(to_document(starts)), "endingOffsets": json.dumps(to_document(stops))}
    return Snapshot({**options, **places}, sum(stops[tp] - starts[tp] for tp in stops))


def _in_words_of(call: Call, sentence: str) -> QueryError:
    """A refusal of the source, with the argument in place of the option that it became."""
    for name, option in _OPTIONS.items():
        if sentence.startswith(f"{option}="):
            return call.wrong(name, sentence.partition(": ")[2])
    return QueryError(sentence.removeprefix(f"{SUBSCRIBE.name}={call.topic}: "))


def _times(call: Call, moments: Moments) -> dict[str, str]:
    """The options that bound a table in time. A table as of a moment has the records of that very moment."""
    found = {}
    for name, option, later in (
        ("from_time", "startingTimestamp", 0),
        ("to_time", "endingTimestamp", 0),
        ("as_of", "endingTimestamp", 1),
    ):
        value = call.get(name)
        if value is None:
            continue
        if option in found:
            raise call.wrong(name, "to_time says already where the table ends")
        try:
            found[option] = str((value if isinstance(value, int) else moments(value)) + later)
        except ValueError as error:
            raise call.wrong(name, str(error)) from None
        if int(found[option]) < 0:
            raise call.wrong(name, "must be a time after 1970, in milliseconds or such as '2026-01-31T12:00:00Z'")
    return found


def _between(call: Call, origin: Origin, starts: Offsets, stops: Offsets) -> tuple[Offsets, Offsets]:
    """The range with its bounds by offset. Bounds beyond what is there bound nothing, as in a WHERE."""
    froms, tos = _places(call, "from_offset", stops), _places(call, "to_offset", stops)
    version = call.get("version")
    if version is not None:
        if tos:
            raise call.wrong("version", "to_offset says already where the table ends")
        tos = dict.fromkeys(stops, int(version))
    ends = origin.latest(stops) if min([*froms.values(), *tos.values()], default=0) < 0 else stops

    def exact(tp: TopicPartition, offset: int) -> int:
        return ends[tp] + offset if offset < 0 else offset

    stops = {tp: min(stop, exact(tp, tos.get(tp, stop))) for tp, stop in stops.items()}
    starts = {tp: max(start, exact(tp, froms.get(tp, start))) for tp, start in starts.items()}
    stops = {tp: max(stops[tp], first) for tp, first in origin.earliest(stops).items()} if froms or tos else stops
    return {tp: min(start, stops[tp]) for tp, start in starts.items()}, stops


def _places(call: Call, name: str, partitions: Offsets) -> Offsets:
    """The offsets that an argument gives: one for all partitions, or JSON with one for each that it names."""
    value = call.get(name)
    if value is None:
        return {}
    if isinstance(value, int):
        return dict.fromkeys(partitions, value)
    try:
        document = json.loads(value)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not all(
        number.isdigit() and type(offset) is int for number, offset in document.items()
    ):
        raise call.wrong(name, 'must be an offset, or offsets by partition such as \'{"0": 23, "1": -100}\'')
    found = {tp: document[str(tp.partition)] for tp in partitions if str(tp.partition) in document}
    strange = document.keys() - {str(tp.partition) for tp in partitions}
    if strange:
        raise call.wrong(name, f"there is no partition {', '.join(sorted(strange))} of {call.topic}")
    return found
