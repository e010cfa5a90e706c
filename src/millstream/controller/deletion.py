"""Deleting topics: marked first, so that it survives a failover; then each replica; then the nodes.

Pure.  A topic with a replica on a broker that is away stays marked, and unseen, until that broker is back.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from millstream.controller.context import Context, Partition, PartitionErased, Topic, TopicDoomed, TopicErased
from millstream.controller.interface import ControllerSettings, TopicResult
from millstream.controller.partition_states import Phase
from millstream.controller.replica_states import ReplicaPhase
from millstream.controller.requests import Decision, Stop
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition, Uuid, uuid_text

_DELETION = {ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL}


def doom_topics(
    context: Context, asked: Sequence[str | Uuid], settings: ControllerSettings
) -> tuple[Decision, list[TopicResult]]:
    """Mark topics, named by name or by id, for deletion; one that is named twice, in either way, is refused twice."""
    decision, results = Decision(), []
    known_as = [context.names_by_id.get(each, each) if isinstance(each, bytes) else each for each in asked]
    counts = Counter(known_as)
    for name_or_id, known in zip(asked, known_as, strict=True):
        try:
            if counts[known] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
            name = _name(context, name_or_id)
            if not settings.delete_topic_enable:
                raise ProtocolError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        except ProtocolError as error:
            is_id = isinstance(name_or_id, bytes)
            results.append(
                TopicResult(
                    name=None if is_id else name_or_id,  # type: ignore[arg-type]
                    topic_id=name_or_id if is_id else bytes(16),  # type: ignore[arg-type]
                    error_code=error.code,
                    error_message=error.detail,
                )
            )
            continue
        topic = context.topics[name]
        decision.changes.append(TopicDoomed(name))
        decision.announced += (TopicPartition(name, number) for number in topic.partitions)
        results.append(TopicResult(name, topic.topic_id, num_partitions=len(topic.partitions)))
    return decision, results


def _name(context: Context, name_or_id: str | Uuid) -> str:
    if isinstance(name_or_id, bytes):
        name = context.names_by_id.get(name_or_id)
        if name is None or name in context.doomed:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {uuid_text(name_or_id)}")
        return name
    if name_or_id not in context.topics or name_or_id in context.doomed:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name_or_id!r}")
    return name_or_id


def pursue(context: Context, names: Iterable[str]) -> Decision:
    """Tell brokers to delete the replicas they have of doomed topics, wherever that was not done yet."""
    decision = Decision()
    for name in sorted(names):
        for number, partition in context.topics[name].partitions.items():
            key = TopicPartition(name, number)
            if partition.phase is not Phase.OFFLINE:
                partition.enter(Phase.OFFLINE)
            live = context.live_replicas(key, partition)
            for replica, phase in partition.replica_phases.items():
                if phase in _DELETION:
                    continue
                partition.move(replica, ReplicaPhase.OFFLINE)
                if replica in live:
                    partition.move(replica, ReplicaPhase.DELETION_STARTED)
                    decision.stops.append(Stop(key, replica, is_deleted=True))
                else:
                    partition.move(replica, ReplicaPhase.DELETION_INELIGIBLE)
    return decision


def interrupt(context: Context, gone: Iterable[int]) -> None:
    """Brokers went before they had deleted their replicas; it must be asked again when they are back."""
    lost = set(gone)
    for name in context.doomed:
        for partition in context.topics[name].partitions.values():
            for replica in lost & partition.replica_phases.keys():
                if partition.replica_phases[replica] is ReplicaPhase.DELETION_STARTED:
                    partition.move(replica, ReplicaPhase.DELETION_INELIGIBLE)


def replicas_deleted(context: Context, broker_id: int, errors: Mapping[TopicPartition, int]) -> Decision:
    """A broker answered; a topic whose last replica is gone is erased."""
    decision = Decision()
    for key, error_code in errors.items():
        partition = context.partition(key)
        if partition is None or partition.replica_phases.get(broker_id) is not ReplicaPhase.DELETION_STARTED:
            continue  # An answer to a question asked before the broker went and came.
        is_done = error_code == ErrorCode.NONE
        partition.move(broker_id, ReplicaPhase.DELETION_SUCCESSFUL if is_done else ReplicaPhase.DELETION_INELIGIBLE)
    for name in sorted({key.topic for key in errors} & context.doomed):
        topic = context.topics[name]
        if all(_is_deleted(partition) for partition in topic.partitions.values()):
            for number, partition in topic.partitions.items():
                for replica in list(partition.replica_phases):
                    partition.move(replica, ReplicaPhase.NON_EXISTENT)
                decision.changes.append(PartitionErased(TopicPartition(name, number)))
            decision.changes.append(TopicErased(name))
    return decision


def is_halted(topic: Topic) -> bool:
    """Whether nothing more will happen to a doomed topic until a broker comes back."""
    phases = {phase for partition in topic.partitions.values() for phase in partition.replica_phases.values()}
    return ReplicaPhase.DELETION_INELIGIBLE in phases and ReplicaPhase.DELETION_STARTED not in phases


def _is_deleted(partition: Partition) -> bool:
    return all(phase is ReplicaPhase.DELETION_SUCCESSFUL for phase in partition.replica_phases.values())
