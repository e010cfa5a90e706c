"""What follows from brokers coming, going and asking to go: new leaders and smaller in-sync sets.

Pure: each takes the context, whose brokers are already those alive now, and gives a decision.
"""

from collections.abc import Collection, Iterable

from millstream.controller.context import Context, Partition, StateDecided
from millstream.controller.elections import Elected, controlled_shutdown, initial, offline, preferred
from millstream.controller.interface import NO_LEADER, ControllerSettings
from millstream.controller.partition_states import Phase
from millstream.controller.replica_states import ReplicaPhase
from millstream.controller.requests import Decision, Lead, Stop
from millstream.controller.topics import first_state
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import PartitionState


def take_over(context: Context, settings: ControllerSettings) -> Decision:
    """A new controller settles every partition, then tells every broker everything."""
    decision = Decision(is_membership_changed=True, welcomed=set(context.brokers))
    for key, partition in context.lasting_partitions():
        _settle(context, key, partition, settings, decision)
    return decision


def brokers_came(context: Context, came: Collection[int], settings: ControllerSettings) -> Decision:
    """New brokers are told everything, all others of them; partitions that waited for them get a leader."""
    decision = Decision(is_membership_changed=True, welcomed=set(came))
    for key, partition in context.lasting_partitions():
        for replica in partition.replicas:
            if replica in came and partition.state is not None:
                partition.move(replica, ReplicaPhase.ONLINE)
                decision.announced.append(key)  # It is no longer among the offline replicas.
        if partition.phase is not Phase.ONLINE:
            _settle(context, key, partition, settings, decision)
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


def leave(context: Context, broker_id: int, broker_epoch: int) -> Decision:
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
                _decide(context, key, state, elected, live, decision)
            continue
        decision.stops.append(Stop(key, broker_id))
        if broker_id in state.isr and len(state.isr) > 1:
            isr = tuple(replica for replica in state.isr if replica != broker_id)
            others = tuple(replica for replica in live if replica != broker_id)
            _decide(context, key, state, Elected(state.leader, isr), others, decision)
    return decision


def still_led(context: Context, broker_id: int) -> list[TopicPartition]:
    """Replicated partitions that the broker still leads."""
    return [
        key
        for key, partition in context.lasting_partitions()
        if partition.leader == broker_id and len(partition.replicas) > 1
    ]


def elect_preferred(context: Context, keys: Iterable[TopicPartition]) -> Decision:
    """Lead again by the first replica of the assignment where it is in sync; others stay as they are."""
    decision = Decision()
    for key in keys:
        partition = None if key.topic in context.doomed else context.partition(key)
        if partition is None or partition.state is None or partition.leader == partition.replicas[0]:
            continue
        live = context.live_replicas(key, partition)
        elected = preferred(partition.replicas, partition.state.isr, live)
        if elected is not None:
            _decide(context, key, partition.state, elected, live, decision)
    return decision


def _lose_replicas(
    context: Context, key: TopicPartition, partition: Partition, settings: ControllerSettings, decision: Decision
) -> None:
    live = context.live_replicas(key, partition)
    for replica in partition.replicas:
        if replica not in live:
            partition.move(replica, ReplicaPhase.OFFLINE)
    decision.announced.append(key)
    _settle(context, key, partition, settings, decision)


def _settle(
    context: Context, key: TopicPartition, partition: Partition, settings: ControllerSettings, decision: Decision
) -> None:
    """Give the partition the leader and the in-sync set that the live brokers allow; nothing if it has them."""
    live, state = context.live_replicas(key, partition), partition.state
    if state is None:
        first = initial(partition.replicas, live)
        if first is not None:
            decision.changes.append(first_state(context, key, first.leader, first.isr))
            decision.leads.append(Lead(key, live, is_new=True))
            decision.announced.append(key)
        return
    if partition.phase is Phase.ONLINE and state.leader in live:
        isr = tuple(replica for replica in state.isr if replica in live)
        if isr != state.isr:
            _decide(context, key, state, Elected(state.leader, isr), live, decision)
        return
    elected = _elect(key, partition, state, live, settings)
    if elected is None and state.leader != NO_LEADER:
        # Whoever of them comes back first has all that was committed, so the in-sync set stays.
        elected = Elected(NO_LEADER, state.isr)
    if elected is not None:
        _decide(context, key, state, elected, live, decision)


def _elect(
    key: TopicPartition,
    partition: Partition,
    state: PartitionState,
    live: tuple[int, ...],
    settings: ControllerSettings,
) -> Elected | None:
    elected = offline(partition.replicas, state.isr, live)
    if elected is None and live and settings.unclean_allowed(key.topic):
        elected = offline(partition.replicas, state.isr, live, is_unclean_allowed=True)
    return elected


def _decide(
    context: Context,
    key: TopicPartition,
    before: PartitionState,
    elected: Elected,
    told: tuple[int, ...],
    decision: Decision,
) -> None:
    """Write a new state, one leader epoch further, and tell those replicas and everyone."""
    state = PartitionState(
        elected.leader,
        before.leader_epoch + 1,
        elected.isr,
        context.epoch,
        is_recovering=elected.is_unclean or (before.is_recovering and elected.leader == NO_LEADER),
    )
    decision.changes.append(StateDecided(key, state))
    decision.leads.append(Lead(key, told))
    decision.announced.append(key)
