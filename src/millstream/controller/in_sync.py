"""Leaders ask for another in-sync set; the controller grants it to the leader of the day, for replicas that may join.

Pure.  What is refused is told partition by partition; what is granted keeps the leader and its epoch.
"""

from millstream.controller.context import Context, Partition, StateDecided
from millstream.controller.elections import eligible_after
from millstream.controller.interface import ControllerSettings
from millstream.controller.leaders import min_in_sync
from millstream.controller.requests import Decision, Lead
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

#: The broker epoch of a replica that its leader has not heard from.
UNKNOWN_EPOCH = -1


def alter_partitions(
    context: Context, request: AlterPartitionRequest, settings: ControllerSettings
) -> tuple[Decision, AlterPartitionResponse]:
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
                answers.partitions.append(_alter(context, request.broker_id, key, asked, settings, decision))
            except ProtocolError as error:
                refusal = AlterPartitionPartitionResult(partition_index=asked.partition_index, error_code=error.code)
                answers.partitions.append(refusal)
    return decision, response


def _alter(
    context: Context,
    broker_id: int,
    key: TopicPartition,
    asked: AlterPartitionPartition,
    settings: ControllerSettings,
    decision: Decision,
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
    epochs = epochs or dict.fromkeys(asked.new_isr, UNKNOWN_EPOCH)
    isr = tuple(epochs)
    everyone = dict.fromkeys((*before.isr, *before.eligible))
    # The leader may not have heard yet that more must be in sync, and commits with fewer until it has.
    least = min(asked.min_in_sync, min_in_sync(context, settings, key, partition.replicas))
    after = PartitionState(
        before.leader,
        before.leader_epoch,
        isr,
        context.epoch,
        is_recovering=bool(asked.leader_recovery_state),
        eligible=eligible_after(everyone, isr, least),
    )
    is_same = (after.isr, after.is_recovering) == (before.isr, before.is_recovering)
    if not is_same and asked.partition_epoch < version:
        decision.leads.append(Lead(key, (broker_id,)))  # The grant of an earlier request was lost on its way.
        raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION)
    if not is_same:
        _check(context, key, partition, before, after, epochs)
    eligible = before.eligible
    if asked.partition_epoch == version:  # Else it is an earlier request, sent again: granted already.
        # The same set is written too: an earlier request that is still on its way then comes too late.
        decision.changes.append(StateDecided(key, after))
        decision.announced.append(key)
        version, eligible = version + 1, after.eligible
    return AlterPartitionPartitionResult(
        partition_index=key.partition,
        leader_id=after.leader,
        leader_epoch=after.leader_epoch,
        isr=list(after.isr),
        leader_recovery_state=int(after.is_recovering),
        partition_epoch=version,
        eligible_replicas=list(eligible),
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
        if replica == before.leader:
            continue
        # One that is away (KIP-841), that leaves, or that the leader saw in an earlier life (KIP-903) must not be
        # counted on.  Where the leader saw nothing of it yet, it may stay, but not join.
        is_there = replica in live and replica not in context.leaving
        is_of_today = is_there and epoch == context.brokers[replica].epoch
        is_staying = is_there and epoch == UNKNOWN_EPOCH and replica in before.isr
        if not (is_of_today or is_staying):
            raise ProtocolError(ErrorCode.INELIGIBLE_REPLICA)
