"""What brokers are told after a decision: at most one request of each kind to a broker.

All of it is read off the context after the decision's changes were replayed, so brokers hear what the registry holds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from millstream.controller.context import Change, Context, LiveBroker
from millstream.controller.interface import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_LEADER
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from millstream.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from millstream.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

INCREMENTAL = 1
FULL = 2

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class Lead(NamedTuple):
    """These brokers must hear who leads the partition; it is new, or new to some of them."""

    partition: TopicPartition
    brokers: tuple[int, ...]
    is_new: bool = False
    newcomers: tuple[int, ...] = ()


class Stop(NamedTuple):
    """This broker must stop its replica."""

    partition: TopicPartition
    broker: int
    is_deleted: bool = False


@dataclass(slots=True)
class Decision:
    """What the controller has decided: changes owed to the registry, then requests owed to brokers."""

    changes: list[Change] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    #: Partitions that every broker must hear of.
    announced: list[TopicPartition] = field(default_factory=list)
    #: Every broker must hear who is alive.
    is_membership_changed: bool = False
    #: Brokers that know nothing yet and are told everything.
    welcomed: set[int] = field(default_factory=set)


class BrokerRequest(NamedTuple):
    """A request, and the broker it is for."""

    broker_id: int
    request: Any


def requests(context: Context, decision: Decision, listener: str | None) -> list[BrokerRequest]:
    """The requests in the order each broker must get them: roles, then metadata, then what to stop."""
    return [
        *_leader_and_isr(context, decision, listener),
        *_update_metadata(context, decision),
        *_stop_replica(context, decision),
    ]


def _leader_and_isr(context: Context, decision: Decision, listener: str | None) -> Iterable[BrokerRequest]:
    roles: dict[tuple[TopicPartition, bool], LeaderAndIsrPartitionState] = {}
    for broker_id, keys in _wanted_roles(context, decision).items():
        broker = context.brokers.get(broker_id)
        if broker is None:
            continue
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: set[int] = set()
        for key, is_new in keys.items():
            role = roles.get((key, is_new))
            if role is None:
                role = roles[key, is_new] = _role(context, key, is_new)
            leaders.add(role.leader)
            topic = topics.get(key.topic)
            if topic is None:
                topic_id = context.topics[key.topic].topic_id
                topic = topics[key.topic] = LeaderAndIsrTopicState(topic_name=key.topic, topic_id=topic_id)
            topic.partition_states.append(role)
        yield BrokerRequest(
            broker_id,
            LeaderAndIsrRequest(
                controller_id=context.controller_id,
                controller_epoch=context.epoch,
                broker_epoch=broker.epoch,
                type=FULL if broker_id in decision.welcomed else INCREMENTAL,
                topic_states=list(topics.values()),
                live_leaders=[
                    _live_leader(context.brokers[leader], listener)
                    for leader in sorted(leaders & context.brokers.keys())
                ],
            ),
        )


def _wanted_roles(context: Context, decision: Decision) -> dict[int, dict[TopicPartition, bool]]:
    """Which partitions each broker must hear of, in order and each once, and whether they are new to it.

    Only those that have a state to tell.
    """
    wanted: dict[int, dict[TopicPartition, bool]] = {broker: {} for broker in sorted(decision.welcomed)}
    for lead in decision.leads:
        partition = context.partition(lead.partition)
        if partition is not None and partition.state is not None:
            for broker in lead.brokers:
                is_new = lead.is_new or broker in lead.newcomers
                wanted.setdefault(broker, {})[lead.partition] = is_new
    if decision.welcomed:
        for key, partition in context.lasting_partitions():
            for replica in partition.replicas if partition.state is not None else ():
                if replica in decision.welcomed:
                    wanted[replica].setdefault(key, False)
    return wanted


def _role(context: Context, key: TopicPartition, is_new: bool) -> LeaderAndIsrPartitionState:
    partition = context.topics[key.topic].partitions[key.partition]
    state = partition.state
    assert state is not None
    return LeaderAndIsrPartitionState(
        partition_index=key.partition,
        controller_epoch=state.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=partition.version,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding),
        removing_replicas=list(partition.removing),
        is_new=is_new,
        leader_recovery_state=int(state.is_recovering),
        eligible_replicas=list(state.eligible),
    )


def _live_leader(broker: LiveBroker, listener: str | None) -> LeaderAndIsrLiveLeader:
    endpoint = broker.registration.endpoint(listener)
    return LeaderAndIsrLiveLeader(broker_id=broker.broker_id, host_name=endpoint.host, port=endpoint.port)


def _update_metadata(context: Context, decision: Decision) -> Iterable[BrokerRequest]:
    if not (decision.announced or decision.is_membership_changed or decision.welcomed):
        return
    live = [_live_broker(context.brokers[broker_id]) for broker_id in sorted(context.brokers)]
    everything = _metadata(context, [key for key, _ in context.partitions()]) if decision.welcomed else []
    is_anyone_else = not context.brokers.keys() <= decision.welcomed
    changed = _metadata(context, decision.announced) if is_anyone_else else []
    for broker_id, broker in sorted(context.brokers.items()):
        is_full = broker_id in decision.welcomed
        if not (is_full or decision.announced or decision.is_membership_changed):
            continue
        yield BrokerRequest(
            broker_id,
            UpdateMetadataRequest(
                controller_id=context.controller_id,
                type=FULL if is_full else INCREMENTAL,
                controller_epoch=context.epoch,
                broker_epoch=broker.epoch,
                topic_states=everything if is_full else changed,
                live_brokers=live,
            ),
        )


def _metadata(context: Context, keys: Iterable[TopicPartition]) -> list[UpdateMetadataTopicState]:
    topics: dict[str, UpdateMetadataTopicState] = {}
    for key in dict.fromkeys(keys):
        partition = context.partition(key)
        if partition is None:
            continue
        topic = topics.get(key.topic)
        if topic is None:
            topic_id = context.topics[key.topic].topic_id
            topic = topics[key.topic] = UpdateMetadataTopicState(topic_name=key.topic, topic_id=topic_id)
        state = partition.state
        live = context.live_replicas(key, partition)
        leader = NO_LEADER if state is None else state.leader
        topic.partition_states.append(
            UpdateMetadataPartitionState(
                partition_index=key.partition,
                controller_epoch=context.epoch if state is None else state.controller_epoch,
                leader=LEADER_DURING_DELETE if key.topic in context.doomed else leader,
                leader_epoch=0 if state is None else state.leader_epoch,
                isr=[] if state is None else list(state.isr),
                zk_version=max(partition.version, 0),
                replicas=list(partition.replicas),
                offline_replicas=[replica for replica in partition.replicas if replica not in live],
            )
        )
    return list(topics.values())


def _live_broker(broker: LiveBroker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOLS.get(endpoint.security_protocol, 0),
            )
            for endpoint in broker.registration.endpoints
        ],
        rack=broker.registration.rack,
    )


def _stop_replica(context: Context, decision: Decision) -> Iterable[BrokerRequest]:
    wanted: dict[int, dict[str, StopReplicaTopicState]] = {}
    for key, broker_id, is_deleted in decision.stops:
        topics = wanted.setdefault(broker_id, {})
        topic = topics.get(key.topic)
        if topic is None:
            topic_id = context.topics[key.topic].topic_id
            topic = topics[key.topic] = StopReplicaTopicState(topic_name=key.topic, topic_id=topic_id)
        partition = context.partition(key)
        state = None if partition is None else partition.state
        epoch = -1 if state is None else state.leader_epoch
        topic.partition_states.append(
            StopReplicaPartitionState(
                partition_index=key.partition,
                leader_epoch=EPOCH_DURING_DELETE if key.topic in context.doomed else epoch,
                delete_partition=is_deleted,
            )
        )
    for broker_id, topics in sorted(wanted.items()):
        broker = context.brokers.get(broker_id)
        if broker is not None:
            yield BrokerRequest(
                broker_id,
                StopReplicaRequest(
                    controller_id=context.controller_id,
                    controller_epoch=context.epoch,
                    broker_epoch=broker.epoch,
                    topic_states=list(topics.values()),
                ),
            )
