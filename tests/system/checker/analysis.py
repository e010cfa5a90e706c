"""What must never be found in a history, after Jepsen's workload for Kafka.

Values are unique, so a value that lies at two offsets was written twice, and an offset with two values was read
wrongly.  Everything is judged by what clients were told and what consumers of committed records saw.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.system.checker.history import Ended, Event, Polled, Sent

#: Partition and offset.
Place = tuple[int, int]


class Anomaly(NamedTuple):
    """Something that must not be, and where it was seen."""

    name: str
    detail: str


class History:
    """A history, indexed."""

    def __init__(self, events: Iterable[Event], final: Polled) -> None:
        """``final`` is the whole topic, read committed, after everything has ended."""
        everything = list(events)
        self.sent = [event for event in everything if isinstance(event, Sent)]
        self.fates = {event.transaction: event.fate for event in everything if isinstance(event, Ended)}
        self.final = final
        self.polls = [event for event in everything if isinstance(event, Polled)]
        self.values: dict[Place, set[str]] = defaultdict(set)
        self.places: dict[str, set[Place]] = defaultdict(set)
        for poll in (*self.polls, final):
            for partition, offset, value in poll.records:
                self._lies(value, (partition, offset))
        for sent in self.sent:
            if sent.fate == "ok" and sent.offset >= 0:
                self._lies(sent.value, (sent.partition, sent.offset))
        self.in_the_end = {value for _, _, value in final.records}
        self.seen = {value for poll in self.polls for _, _, value in poll.records}
        #: Every offset at which a committed record lies, by partition, in order.
        self.committed: dict[int, list[int]] = defaultdict(list)
        for partition, offset, _ in sorted(final.records):
            self.committed[partition].append(offset)

    def fate_of(self, sent: Sent) -> str:
        """Whether the value must be read, must not be, or may be."""
        if sent.fate != "ok" or sent.transaction is None:
            return sent.fate
        return self.fates.get(sent.transaction, "unknown")

    def sessions(self) -> Iterator[tuple[str, dict[int, list[int]]]]:
        """For each session of each consumer, the offsets it was given, by partition, in the order they came."""
        found: dict[tuple[str, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for poll in self.polls:
            for partition, offset, _ in poll.records:
                found[poll.consumer, poll.session][partition].append(offset)
        for (consumer, session), offsets in found.items():
            yield f"{consumer} in session {session}", offsets

    def _lies(self, value: str, place: Place) -> None:
        self.values[place].add(value)
        self.places[value].add(place)


def lost_writes(history: History) -> Iterator[str]:
    """Acknowledged, and not in the log."""
    for sent in history.sent:
        if history.fate_of(sent) == "ok" and sent.value not in history.in_the_end:
            yield f"{sent.value} was acknowledged at offset {sent.offset} of partition {sent.partition}"


def duplicates(history: History) -> Iterator[str]:
    """Sent once, and in the log twice."""
    for value, places in history.places.items():
        if len(places) > 1:
            yield f"{value} lies at {sorted(places)}"


def inconsistent_offsets(history: History) -> Iterator[str]:
    """Two values at one offset."""
    for place, values in history.values.items():
        if len(values) > 1:
            yield f"at {place} lie {sorted(values)}"


def aborted_reads(history: History) -> Iterator[str]:
    """Read by a consumer of committed records, and never committed."""
    for sent in history.sent:
        if history.fate_of(sent) == "failed" and (sent.value in history.seen or sent.value in history.in_the_end):
            yield f"{sent.value} of {sent.transaction or 'no transaction'} was read"


def poll_skips(history: History) -> Iterator[str]:
    """A consumer went from one record to a later one over a committed record between them."""
    for who, by_partition in history.sessions():
        for partition, offsets in by_partition.items():
            order = {offset: at for at, offset in enumerate(history.committed[partition])}
            for before, after in pairwise(offsets):
                if before in order and after in order and order[after] > order[before] + 1:
                    yield f"{who} went from {before} to {after} of partition {partition}"


def nonmonotonic_polls(history: History) -> Iterator[str]:
    """A consumer went back."""
    for who, by_partition in history.sessions():
        for partition, offsets in by_partition.items():
            for before, after in pairwise(offsets):
                if after <= before:
                    yield f"{who} went from {before} back to {after} of partition {partition}"


def unseen(history: History) -> Iterator[str]:
    """Committed, and given to no member of the group though it read to the end."""
    for _, _, value in history.final.records:
        if value not in history.seen:
            yield value


CHECKS: dict[str, Callable[[History], Iterator[str]]] = {
    "lost write": lost_writes,
    "duplicate": duplicates,
    "inconsistent offset": inconsistent_offsets,
    "aborted read": aborted_reads,
    "poll skip": poll_skips,
    "non-monotonic poll": nonmonotonic_polls,
    "unseen": unseen,
}


def anomalies(history: History) -> list[Anomaly]:
    """Everything that is wrong with it."""
    return [Anomaly(name, detail) for name, check in CHECKS.items() for detail in check(history)]
