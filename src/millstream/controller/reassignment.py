"""Moving partitions to other brokers while they are in use.

A move is written into the topic's node first: the partition's replicas are those it had and those it gets.  The new
ones copy; once all that shall stay are in sync, the others leave.  So a move survives its controller, and until its
last step it can be taken back.

Pure.  A decision writes a partition's state before its replicas: whichever of the two is read after a crash, the move
goes on from there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from millstream.controller.context import AssignmentsChanged, Context, Partition
from millstream.controller.elections import Elected, reassigned
from millstream.controller.interface import NO_LEADER, ControllerSettings, PartitionOutcome
from millstream.controller.leaders import decide, settle
from millstream.controller.requests import Decision, Stop
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import Assignment


class Move(NamedTuple):
    """Where a partition shall be: on these brokers, the preferred leader first; None to stop moving it."""

    partition: TopicPartition
    target: Sequence[int] | None


def reassign(
    context: Context, moves: Sequence[Move], settings: ControllerSettings, *, may_change_factor: bool = True
) -> tuple[Decision, list[PartitionOutcome]]:
    """Begin, replace or take back moves; one partition's refusal never spoils another's move."""
    decision, outcomes = Decision(), []
    counts = Counter(move.partition for move in moves)
    changed: dict[TopicPartition, Assignment] = {}
    for move in moves:
        key = move.partition
        try:
            partition = None if key.topic in context.doomed else context.partition(key)
            if partition is None:
                raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition")
            if counts[key] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"partition {key} is named more than once")
            wanted = _wanted(context, partition, move.target, may_change_factor)
            if wanted != partition.assignment:
                changed[key] = _moved(context, key, partition, wanted, settings, decision)
        except ProtocolError as error:
            outcomes.append(PartitionOutcome(key, error.code, error.detail))
        else:
            outcomes.append(PartitionOutcome(key))
    return _with_assignments(changed, decision), outcomes


def finish(context: Context, keys: Iterable[TopicPartition], settings: ControllerSettings) -> Decision:
    """End the moves of those partitions whose replicas that shall stay are all in sync.

    A partition that nobody ever led had nothing to copy: it is led by one of its new replicas.
    """
    decision = Decision()
    changed: dict[TopicPartition, Assignment] = {}
    for key in dict.fromkeys(keys):
        partition = None if key.topic in context.doomed else context.partition(key)
        if partition is not None and partition.state is None:
            settle(context, key, partition, settings, decision)
        if partition is None or not partition.is_moving or not _is_copied(partition, partition.assignment):
            continue
        try:
            changed[key] = _moved(context, key, partition, partition.assignment, settings, decision)
        except ProtocolError:
            continue  # Nobody of those that stay is there to lead it: once one is back.
    return _with_assignments(changed, decision)


def moving(context: Context) -> list[TopicPartition]:
    """The partitions that are being moved."""
    return [key for key, partition in context.lasting_partitions() if partition.is_moving]


def _wanted(
    context: Context, partition: Partition, target: Sequence[int] | None, may_change_factor: bool
) -> Assignment:
    before = partition.assignment
    if target is None:
        if not partition.is_moving:
            raise ProtocolError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition is not being moved")
        return before.towards(before.origin)
    wanted = before.towards(tuple(target))
    fault = None
    if not target:
        fault = "a partition needs at least one replica"
    elif len(set(target)) != len(target):
        fault = f"replicas {list(target)} name a broker twice"
    else:
        fault = context.absence(wanted.adding)
    if fault is not None:
        raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    if not may_change_factor and len(target) != len(before.target):
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"the partition has {len(before.target)} replicas, and shall keep them",
        )
    return wanted


def _is_copied(partition: Partition, wanted: Assignment) -> bool:
    state = partition.state
    return state is None or set(wanted.target) <= set(state.isr)


def _moved(
    context: Context,
    key: TopicPartition,
    partition: Partition,
    wanted: Assignment,
    settings: ControllerSettings,
    decision: Decision,
) -> Assignment:
    """What the partition's replicas become: as wanted, or already the last of it where nothing is left to copy."""
    after = Assignment(wanted.target) if _is_copied(partition, wanted) else wanted
    live = context.live_among(key, after.replicas)
    if partition.state is not None:
        elected = _leader(partition, after, live)
        decide(context, key, partition, settings, elected, live, decision, replicas=after.replicas)
    dropped = [replica for replica in partition.replicas if replica not in after.replicas]
    decision.stops += (Stop(key, replica, is_deleted=True) for replica in dropped if replica in context.brokers)
    return after


def _leader(partition: Partition, after: Assignment, live: tuple[int, ...]) -> Elected:
    """Whoever leads goes on if it stays; else the first of those that stay and are in sync.

    Where nobody leads, somebody of those that are waited for must stay: one that is known to have everything, or where
    there is none any more, whoever led last.
    """
    state = partition.state
    assert state is not None
    isr = tuple(replica for replica in state.isr if replica in after.replicas)
    if state.leader in isr:
        return Elected(state.leader, isr)
    awaited = {*state.isr, *state.eligible} or {state.last_known}
    if state.leader == NO_LEADER and awaited & set(after.replicas):
        return Elected(NO_LEADER, isr)
    elected = reassigned(after.target, isr, live)
    if elected is None:
        raise ProtocolError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"none of the replicas {list(after.target)} is there and in sync, so nobody could lead",
        )
    return elected


def _with_assignments(changed: Mapping[TopicPartition, Assignment], decision: Decision) -> Decision:
    """One write for each topic, after the states of its partitions."""
    topics: dict[str, dict[int, Assignment]] = {}
    for key, assignment in changed.items():
        topics.setdefault(key.topic, {})[key.partition] = assignment
        decision.announced.append(key)
    decision.changes += (AssignmentsChanged(name, assignments) for name, assignments in topics.items())
    return decision
