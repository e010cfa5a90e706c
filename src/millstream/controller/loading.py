"""Reading the cluster out of the registry, for a controller that was just elected."""

from millstream.controller.context import Context, LiveBroker, Partition, Topic
from millstream.controller.partition_states import Phase
from millstream.controller.replica_states import ReplicaPhase
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import (
    BROKER,
    BROKER_IDS,
    DELETED_TOPICS,
    PARTITION_STATE,
    SETTLED,
    TOPIC,
    TOPIC_NAMES,
)
from millstream.registry.tree import Node, Registry


async def load_brokers(registry: Registry) -> dict[int, LiveBroker]:
    """The brokers that are registered now."""
    ids = sorted(int(name) for name in await registry.children(BROKER_IDS.path()))
    nodes = await registry.get_many([BROKER.path(broker_id) for broker_id in ids])
    return {
        broker_id: LiveBroker(broker_id, node.czxid, BROKER.decode(node.data, broker_id))
        for broker_id, node in zip(ids, nodes, strict=True)
        if node is not None
    }


async def load(registry: Registry, context: Context) -> None:
    """Fill an empty context with all brokers, topics and partitions, each in the phase it is found in."""
    context.brokers = await load_brokers(registry)
    (settled,) = await registry.get_many([SETTLED.path()])
    context.settled = SETTLED.decode(settled.data) if settled is not None else {}
    doomed = set(await registry.children(DELETED_TOPICS.path()))
    names = await registry.children(TOPIC_NAMES.path())
    nodes = await registry.get_many([TOPIC.path(name) for name in names])
    for name, node in zip(names, nodes, strict=True):
        if node is not None:
            context.add_topic(_topic(name, node, name in doomed))
    keys = [key for key, _ in context.partitions()]
    states = await registry.get_many([PARTITION_STATE.path(*key) for key in keys])
    for (key, partition), node in zip(list(context.partitions()), states, strict=True):
        _enter(context, key, partition, node)


def _topic(name: str, node: Node, is_doomed: bool) -> Topic:
    assignment = TOPIC.decode(node.data, name)
    partitions = {
        number: Partition(replicas, assignment.adding.get(number, ()), assignment.removing.get(number, ()))
        for number, replicas in assignment.partitions.items()
    }
    return Topic(name, assignment.topic_id, node.version, is_doomed, partitions)


def _enter(context: Context, key: TopicPartition, partition: Partition, node: Node | None) -> None:
    partition.enter(Phase.NEW)
    live = () if key.topic in context.doomed else context.live_replicas(key, partition)
    for replica in partition.replicas:
        partition.move(replica, ReplicaPhase.NEW)
        if node is not None or key.topic in context.doomed:
            partition.move(replica, ReplicaPhase.ONLINE if replica in live else ReplicaPhase.OFFLINE)
    if node is None:
        return
    partition.version = node.version
    partition.state = PARTITION_STATE.decode(node.data, *key)
    leader = partition.state.leader
    # A leader that registered after it was elected has restarted, and may have lost its unflushed tail: it must lead
    # under a new epoch, or offsets that it gives out again could not be told from those that were lost.
    is_led = leader in live and context.brokers[leader].epoch == context.settled.get(leader)
    partition.enter(Phase.ONLINE if is_led else Phase.OFFLINE)
