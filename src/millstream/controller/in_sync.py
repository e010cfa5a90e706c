"""Leaders ask for another in-sync set; the controller grants it to the leader of the day, for replicas that may join.

Pure.  What is refused is told partition by partition; what is granted keeps the leader and its epoch.
"""

from millstream.controller.context import Context, Partition, StateDecided
from millstream.controller.requests import Decision
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)
from millstream.registry.nodes import PartitionState


def alter_partitions(context: Context, request: AlterPartitionRequest) -> tuple[Decision, AlterPartitionResponse]:
    """The response holds once the decision is carried out."""
    decision, response = Decision(), AlterPartitionResponse()
    broker = context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        response.error_code = ErrorCode.STALE_BROKER_EPOCH
        return decision, response
    for topic in request.topics:
        name = context.names_by_id.get(topic.topic_id)
        answers = AlterPartitionTopicResult(topic_id=topic.topic_id)
        response.topics.append(answers)
        for asked in topic.partitions:
            try:
                if name is None or name in context.doomed:
                    raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
                key = TopicPartition(name, asked.partition_index)
                answers.partitions.append(_alter(context, request.broker_id, key, asked, decision))
            except ProtocolError as error:
                refusal = AlterPartitionPartitionResult(partition_index=asked.partition_index, error_code=error.code)
                answers.partitions.append(refusal)
    return decision, response


def _alter(
    context: Context, broker_id: int, key: TopicPartition, asked: AlterPartitionPartition, decision: Decision
) -> AlterPartitionPartitionResult:
    partition = context.partition(key)
    if partition is None or partition.state is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before, version = partition.state, partition.version
    if asked.leader_epoch > before.leader_epoch or asked.partition_epoch > version:
        raise ProtocolError(ErrorCode.NOT_CONTROLLER)  # It has heard of a newer controller than us.
    if asked.leader_epoch < before.leader_epoch:
        raise ProtocolError(ErrorCode.FENCED_LEADER_EPOCH)
    if before.leader != broker_id:
        raise ProtocolError(ErrorCode.INVALID_REQUEST)
    epochs = {state.broker_id: state.broker_epoch for state in asked.new_isr_with_epochs}
    epochs = epochs or dict.fromkeys(asked.new_isr, -1)
    after = PartitionState(
        before.leader,
        before.leader_epoch,
        tuple(epochs),
        context.epoch,
        is_recovering=bool(asked.leader_recovery_state),
    )
    is_same = (after.isr, after.is_recovering) == (before.isr, before.is_recovering)
    if not is_same:  # Else it is an earlier request, sent again: granted already.
        if asked.partition_epoch < version:
            raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION)
        _check(context, key, partition, before, after, epochs)
        decision.changes.append(StateDecided(key, after))
        decision.announced.append(key)
        version += 1
    return AlterPartitionPartitionResult(
        partition_index=key.partition,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=int(after.is_recovering),
        partition_epoch=version,
    )


def _check(
    context: Context,
    key: TopicPartition,
    partition: Partition,
    before: PartitionState,
    after: PartitionState,
    epochs: dict[int, int],
) -> None:
    is_sound = before.leader in after.isr and set(after.isr) <= set(partition.replicas)
    is_recovering_alone = not after.is_recovering or (before.is_recovering and len(after.isr) == 1)
    if not (is_sound and is_recovering_alone):
        raise ProtocolError(ErrorCode.INVALID_REQUEST)
    live = context.live_replicas(key, partition)
    for replica, epoch in epochs.items():
        # One that leaves, or that the leader saw in an earlier life, must not be counted on.
        is_eligible = replica in live and replica not in context.leaving
        if replica != before.leader and not (is_eligible and epoch in (-1, context.brokers[replica].epoch)):
            raise ProtocolError(ErrorCode.INELIGIBLE_REPLICA)
