"""Leaders elected because somebody asks for it, or because brokers lead too little of what they should.

Pure.
"""

from collections.abc import Iterable
from enum import IntEnum

from millstream.controller.context import Context, Partition
from millstream.controller.elections import Elected, offline, preferred
from millstream.controller.interface import ControllerSettings, PartitionOutcome
from millstream.controller.leaders import decide
from millstream.controller.requests import Decision
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition


class Kind(IntEnum):
    """Who shall lead, as ElectLeaders numbers it."""

    PREFERRED = 0  #: the first replica, if it is in sync
    UNCLEAN = 1  #: where nobody leads, any live replica: it may lack records that were committed


def elect_leaders(
    context: Context, kind: Kind, keys: Iterable[TopicPartition] | None, settings: ControllerSettings
) -> tuple[Decision, list[PartitionOutcome]]:
    """Elect leaders of these partitions, or of all; what needs no election is told only where it was named."""
    decision, outcomes = Decision(), []
    named = [key for key, _ in context.lasting_partitions()] if keys is None else keys
    for key in dict.fromkeys(named):
        try:
            partition = None if key.topic in context.doomed else context.partition(key)
            if partition is None or partition.state is None:
                raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
            live = context.live_replicas(key, partition)
            elected = _ELECT[kind](partition, live)
            decide(context, key, partition, settings, elected, live, decision)
        except ProtocolError as error:
            if keys is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.append(PartitionOutcome(key, error.code, error.detail))
        else:
            outcomes.append(PartitionOutcome(key))
    return decision, outcomes


def _elect_preferred(partition: Partition, live: tuple[int, ...]) -> Elected:
    first, state = partition.replicas[0], partition.state
    assert state is not None
    if state.leader == first:
        raise ProtocolError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {first} leads it already")
    elected = preferred(partition.replicas, state.isr, live)
    if elected is None:
        raise ProtocolError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"broker {first} is not there or not in sync")
    return elected


def _elect_unclean(partition: Partition, live: tuple[int, ...]) -> Elected:
    state = partition.state
    assert state is not None
    if state.leader in live:
        raise ProtocolError(ErrorCode.ELECTION_NOT_NEEDED, f"broker {state.leader} leads it")
    elected = offline(partition.replicas, state.isr, live, eligible=state.eligible, is_unclean_allowed=True)
    if elected is None:
        raise ProtocolError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none of its replicas is there")
    return elected


_ELECT = {Kind.PREFERRED: _elect_preferred, Kind.UNCLEAN: _elect_unclean}


def misled(context: Context, percentage: int) -> list[TopicPartition]:
    """Partitions to be given back to their first replicas, for brokers that lead too little of what they should.

    Too little is when others lead more than ``percentage`` of it.  What is being moved is left alone.
    """
    shares: dict[int, int] = {}
    led_by_others: dict[int, list[tuple[TopicPartition, Partition]]] = {}
    for key, partition in context.lasting_partitions():
        first = partition.replicas[0]
        shares[first] = shares.get(first, 0) + 1
        if partition.leader != first:
            led_by_others.setdefault(first, []).append((key, partition))
    return [
        key
        for first, others in sorted(led_by_others.items())
        if len(others) * 100 > shares[first] * percentage
        for key, partition in others
        if _can_lead_again(context, key, partition, first)
    ]


def _can_lead_again(context: Context, key: TopicPartition, partition: Partition, first: int) -> bool:
    is_there = first in context.live_among(key, (first,)) and first not in context.leaving
    return is_there and partition.state is not None and first in partition.state.isr and not partition.is_moving
