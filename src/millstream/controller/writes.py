"""Changes as writes to the registry."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from millstream.controller.context import (
    AssignmentsChanged,
    BrokersSettled,
    Change,
    Context,
    PartitionErased,
    PartitionsAdded,
    StateDecided,
    TopicCreated,
    TopicDoomed,
    TopicErased,
    TopicIdGiven,
)
from millstream.registry.nodes import (
    CONTROLLER_EPOCH,
    DELETED_TOPIC,
    OVERRIDES,
    PARTITION,
    PARTITION_STATE,
    PARTITIONS,
    SETTLED,
    TOPIC,
    TOPICS,
    Assignment,
    TopicAssignment,
)
from millstream.registry.tree import Check, Create, Delete, Op, Set

#: How many writes go into one transaction, and how many bytes: ZooKeeper takes no request of a megabyte.
WRITES_PER_MULTI = 2_000
BYTES_PER_MULTI = 512 * 1024
#: What a write takes besides its path and its data: lengths, flags, versions and access rights.
OVERHEAD_BYTES = 128


def fence(context: Context) -> Check:
    """Fails the write of a controller that is no longer one."""
    return Check(CONTROLLER_EPOCH.path(), context.epoch_version)


def writes(context: Context, change: Change) -> list[Op]:
    """What the registry must do for ``change``, which is not replayed yet."""
    return _WRITES[type(change)](context, change)


def transactions(context: Context, changes: Iterable[Change]) -> Iterator[list[Op]]:
    """The writes for ``changes`` in transactions that the registry takes, each behind the fence.

    What one change needs stays together, whatever its size: a topic too large for its node is refused by the registry.
    """
    ops: list[Op] = []
    ops_bytes = 0
    for change in changes:
        wanted = writes(context, change)
        wanted_bytes = sum(map(_bytes, wanted))
        if ops and (len(ops) + len(wanted) > WRITES_PER_MULTI or ops_bytes + wanted_bytes > BYTES_PER_MULTI):
            yield [fence(context), *ops]
            ops, ops_bytes = [], 0
        ops += wanted
        ops_bytes += wanted_bytes
    if ops:
        yield [fence(context), *ops]


def _bytes(op: Op) -> int:
    return OVERHEAD_BYTES + len(op.path.encode()) + len(getattr(op, "data", b""))


def _topic_created(context: Context, change: TopicCreated) -> list[Op]:
    topic = TopicAssignment(change.topic_id, change.replicas)
    path, data = OVERRIDES.path(TOPICS, change.name), OVERRIDES.encode(change.configs)
    return [
        Set(path, data) if change.name in context.configured else Create(path, data),
        Create(TOPIC.path(change.name), TOPIC.encode(topic)),
        Create(PARTITIONS.path(change.name)),
    ]


def _topic_id_given(context: Context, change: TopicIdGiven) -> list[Op]:
    topic = context.topics[change.name]
    after = replace(topic.assignment(), topic_id=change.topic_id)
    return [Set(TOPIC.path(change.name), TOPIC.encode(after), topic.version)]


def _partitions_added(context: Context, change: PartitionsAdded) -> list[Op]:
    topic = context.topics[change.name]
    before = topic.assignment()
    after = replace(before, partitions={**before.partitions, **change.replicas})
    return [Set(TOPIC.path(change.name), TOPIC.encode(after), topic.version)]


def _assignments_changed(context: Context, change: AssignmentsChanged) -> list[Op]:
    topic = context.topics[change.name]
    before, changed = topic.assignment(), change.assignments

    def among(known: Mapping[int, tuple[int, ...]], part: Callable[[Assignment], tuple[int, ...]]) -> Any:
        after = {**known, **{number: part(assignment) for number, assignment in changed.items()}}
        return {number: replicas for number, replicas in sorted(after.items()) if replicas}

    after = replace(
        before,
        partitions=among(before.partitions, lambda assignment: assignment.replicas),
        adding=among(before.adding, lambda assignment: assignment.adding),
        removing=among(before.removing, lambda assignment: assignment.removing),
    )
    return [Set(TOPIC.path(change.name), TOPIC.encode(after), topic.version)]


def _state_decided(context: Context, change: StateDecided) -> list[Op]:
    path = PARTITION_STATE.path(*change.partition)
    data = PARTITION_STATE.encode(change.state)
    partition = context.partition(change.partition)
    if partition is None or partition.state is None:
        return [Create(PARTITION.path(*change.partition)), Create(path, data)]
    return [Set(path, data, partition.version)]


def _topic_doomed(context: Context, change: TopicDoomed) -> list[Op]:
    return [Create(DELETED_TOPIC.path(change.name))]


def _partition_erased(context: Context, change: PartitionErased) -> list[Op]:
    partition = context.partition(change.partition)
    if partition is None or partition.state is None:
        return []  # Nobody was ever elected, so it has no nodes.
    return [Delete(PARTITION_STATE.path(*change.partition)), Delete(PARTITION.path(*change.partition))]


def _topic_erased(context: Context, change: TopicErased) -> list[Op]:
    paths = [PARTITIONS.path(change.name), TOPIC.path(change.name), DELETED_TOPIC.path(change.name)]
    if change.name in context.configured:
        paths.append(OVERRIDES.path(TOPICS, change.name))
    return [Delete(path) for path in paths]


def _brokers_settled(context: Context, change: BrokersSettled) -> list[Op]:
    return [Set(SETTLED.path(), SETTLED.encode(change.epochs))]


_WRITES: dict[type, Callable[[Context, Any], list[Op]]] = {
    TopicCreated: _topic_created,
    TopicIdGiven: _topic_id_given,
    PartitionsAdded: _partitions_added,
    AssignmentsChanged: _assignments_changed,
    StateDecided: _state_decided,
    TopicDoomed: _topic_doomed,
    PartitionErased: _partition_erased,
    TopicErased: _topic_erased,
    BrokersSettled: _brokers_settled,
}
