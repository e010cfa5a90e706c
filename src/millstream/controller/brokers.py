"""What follows from brokers that come, go and ask to go, and from other settings: leaders and smaller in-sync sets.

Pure: each takes the context, whose brokers are already those alive now, and gives a decision.
"""

from collections.abc import Collection, Iterable

from millstream.controller.context import BrokersSettled, Context, Partition
from millstream.controller.elections import Elected, controlled_shutdown
from millstream.controller.interface import ControllerSettings
from millstream.controller.leaders import decide, settle
from millstream.controller.partition_states import Phase
from millstream.controller.replica_states import ReplicaPhase
from millstream.controller.requests import Decision, Stop
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition


def take_over(context: Context, settings: ControllerSettings) -> Decision:
    """A new controller settles every partition, then tells every broker everything."""
    decision = Decision(is_membership_changed=True, welcomed=set(context.brokers))
    unclean = _came_back_unclean(context)
    for key, partition in context.lasting_partitions():
        settle(context, key, partition, settings, decision, unclean)
    return _settled(context, decision)


def brokers_came(context: Context, came: Collection[int], settings: ControllerSettings) -> Decision:
    """New brokers are told everything, all others of them; partitions that waited for them get a leader."""
    decision = Decision(is_membership_changed=True, welcomed=set(came))
    unclean = _came_back_unclean(context)
    for key, partition in context.lasting_partitions():
        for replica in partition.replicas:
            if replica in came and partition.state is not None:
                partition.move(replica, ReplicaPhase.ONLINE)
                decision.announced.append(key)  # It is no longer among the offline replicas.
        if partition.phase is not Phase.ONLINE or _counts_on(partition, unclean):
            settle(context, key, partition, settings, decision, unclean)
    return _settled(context, decision)


def _came_back_unclean(context: Context) -> set[int]:
    """Brokers that may have lost records, where that was not seen to yet."""
    return {
        broker_id
        for broker_id, broker in context.brokers.items()
        if context.settled.get(broker_id) != broker.epoch and not broker.registration.is_clean
    }


def _counts_on(partition: Partition, brokers: Collection[int]) -> bool:
    state = partition.state
    return state is not None and any(broker in state.isr or broker in state.eligible for broker in brokers)


def _settled(context: Context, decision: Decision) -> Decision:
    """Last of all it is written whose coming was seen to, so that whoever is controller next need not do it again."""
    epochs = {broker_id: broker.epoch for broker_id, broker in sorted(context.brokers.items())}
    if epochs != context.settled:
        decision.changes.append(BrokersSettled(epochs))
    return decision


def brokers_went(context: Context, gone: Collection[int], settings: ControllerSettings) -> Decision:
    """Partitions led by a broker that is gone get another leader; it leaves every in-sync set but its last."""
    decision = Decision(is_membership_changed=True)
    for key, partition in context.lasting_partitions():
        if any(replica in gone for replica in partition.replicas):
            _lose_replicas(context, key, partition, settings, decision)
    return decision


def replicas_failed(context: Context, failed: Iterable[TopicPartition], settings: ControllerSettings) -> Decision:
    """A log directory failed, as the context knows: for these replicas it is as if their broker were gone."""
    decision = Decision()
    for key in failed:
        partition = context.partition(key)
        if partition is not None and key.topic not in context.doomed:
            _lose_replicas(context, key, partition, settings, decision)
    return decision


def topic_changed(context: Context, name: str, settings: ControllerSettings) -> Decision:
    """Settings of a topic have changed, which may end that replicas out of sync are eligible."""
    decision = Decision()
    topic = None if name in context.doomed else context.topics.get(name)
    for number, partition in topic.partitions.items() if topic is not None else ():
        if partition.state is not None and partition.state.eligible and partition.phase is Phase.ONLINE:
            settle(context, TopicPartition(name, number), partition, settings, decision)
    return decision


def leave(context: Context, broker_id: int, broker_epoch: int, settings: ControllerSettings) -> Decision:
    """A broker asks to stop: others take over what they can; ``still_led`` tells what they cannot."""
    broker = context.brokers.get(broker_id)
    if broker is None:
        raise ProtocolError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not alive")
    if broker_epoch not in (-1, broker.epoch):
        raise ProtocolError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} has registered anew since")
    context.leaving.add(broker_id)
    decision = Decision()
    for key, partition in context.lasting_partitions():
        state = partition.state
        if state is None or broker_id not in partition.replicas or len(partition.replicas) == 1:
            continue
        live = context.live_replicas(key, partition)
        if state.leader == broker_id:
            elected = controlled_shutdown(partition.replicas, state.isr, live, context.leaving)
            if elected is not None:
                decide(context, key, partition, settings, elected, live, decision)
            continue
        decision.stops.append(Stop(key, broker_id))
        if broker_id in state.isr and len(state.isr) > 1:
            isr = tuple(replica for replica in state.isr if replica != broker_id)
            others = tuple(replica for replica in live if replica != broker_id)
            decide(context, key, partition, settings, Elected(state.leader, isr), others, decision)
    return decision


def still_led(context: Context, broker_id: int) -> list[TopicPartition]:
    """Replicated partitions that the broker still leads."""
    return [
        key
        for key, partition in context.lasting_partitions()
        if partition.leader == broker_id and len(partition.replicas) > 1
    ]


def _lose_replicas(
    context: Context, key: TopicPartition, partition: Partition, settings: ControllerSettings, decision: Decision
) -> None:
    live = context.live_replicas(key, partition)
    for replica in partition.replicas:
        if replica not in live:
            partition.move(replica, ReplicaPhase.OFFLINE)
    decision.announced.append(key)
    settle(context, key, partition, settings, decision)
