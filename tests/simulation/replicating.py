"""Topics with replicas in a simulated cluster: who leads, what each replica holds, and clients that try again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from millstream.broker.broker import Broker
from millstream.client.wire import ConnectionLost
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.produce import ProduceResponse
from millstream.replication.partition import Partition
from millstream.replication.role import Part
from tests.simulation.asking import PRODUCE_VERSION, produce_request
from tests.simulation.brokers import SimulatedCluster
from tests.unit.storage.ground import headers_of

TOPIC = "orders"
#: How long a client waits before it asks again.
RETRY_S = 0.05


def controller_second(cluster: SimulatedCluster) -> list[int]:
    """Three brokers for a partition: the controller leads it when the first is gone, whoever else can be reached."""
    controller = cluster.controller
    assert controller is not None
    first, last, *_ = (broker.id for broker in cluster.running if broker is not controller)
    return [first, controller.id, last]


async def create(cluster: SimulatedCluster, partitions: int = 1, replicas: int = 3, **configs: str) -> None:
    """Make the topic, and return when every replica has its part."""
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=replicas)
    await _create(cluster, topic, replicas, configs)


async def create_on(cluster: SimulatedCluster, brokers: Sequence[int], **configs: str) -> None:
    """The same, with one partition on these brokers."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(brokers))
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment])
    await _create(cluster, topic, len(brokers), configs)


async def _create(cluster: SimulatedCluster, topic: CreatableTopic, replicas: int, configs: Mapping[str, str]) -> None:
    topic.configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    connection = await cluster.connect(cluster.running[0].id)
    answer = await connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]
    connection.close()
    await cluster.until(lambda: len(replicas_of(cluster)) == min(replicas, len(cluster.running)))


def replicas_of(cluster: SimulatedCluster, index: int = 0) -> dict[int, Partition]:
    """The partition on each broker that runs and holds it."""
    return {
        broker.id: partition
        for broker in cluster.running
        for partition in broker.replicas.of_topic(TOPIC)
        if partition.topic_partition.partition == index and partition.role.part is not Part.IDLE
    }


def leader_of(cluster: SimulatedCluster, index: int = 0) -> Partition | None:
    """The partition where it is led, by the greatest epoch if two brokers believe to lead it."""
    led = [each for each in replicas_of(cluster, index).values() if each.role.part is Part.LEADER]
    return max(led, key=lambda each: each.role.leadership.leader_epoch, default=None)


def leader_id(cluster: SimulatedCluster, index: int = 0) -> int:
    leader = leader_of(cluster, index)
    return -1 if leader is None else leader.role.broker_id


def in_sync(cluster: SimulatedCluster, index: int = 0) -> set[int]:
    leader = leader_of(cluster, index)
    return set() if leader is None else set(leader.role.leadership.isr)


async def until_in_sync(cluster: SimulatedCluster, *broker_ids: int, index: int = 0) -> None:
    await cluster.until(lambda: in_sync(cluster, index) == set(broker_ids), timeout_s=120)


def bytes_of(partition: Partition, upper: int | None = None) -> bytes:
    """Every byte of the log below ``upper``, or the high watermark."""
    log = partition.log
    assert log is not None
    upper = partition.high_watermark if upper is None else upper
    found = b""
    offset = log.start_offset
    while offset < upper:
        piece = log.read(offset, 1 << 20, upper)
        if piece is None:
            break
        data = piece.read()
        found += data
        offset = headers_of(data)[-1].next_offset
    return found


async def write(cluster: SimulatedCluster, *values: bytes, index: int = 0, acks: int = -1, within_s: float = 60) -> int:
    """Have the records written by whoever leads, trying again as clients do; the first one's offset."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while True:
        leader = leader_id(cluster, index)
        if leader >= 0:
            try:
                connection = await cluster.connect(leader)
                request = produce_request(TOPIC, *values, partition=index, acks=acks)
                answer = await connection.call(request, ProduceResponse, version=PRODUCE_VERSION, timeout_s=5)
                connection.close()
                row = answer.responses[0].partition_responses[0]
                if row.error_code == ErrorCode.NONE:
                    return row.base_offset
            except (OSError, TimeoutError, ConnectionLost):
                pass
        assert loop.time() < deadline_s, "nobody took the records"
        await asyncio.sleep(RETRY_S)


def other_than(cluster: SimulatedCluster, *broker_ids: int) -> Broker:
    return next(broker for broker in cluster.running if broker.id not in broker_ids)


def all_hold(cluster: SimulatedCluster, end: int, index: int = 0) -> Callable[[], bool]:
    """Whether every replica has everything below ``end``, and knows that it is committed."""
    return lambda: all(each.high_watermark >= end for each in replicas_of(cluster, index).values())
