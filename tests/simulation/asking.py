"""What a client asks a simulated broker, in few words."""

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from millstream.client.wire import Connection
from millstream.model.batch import HEADER_BYTES, BatchHeader, header_at
from millstream.model.errors import ErrorCode
from millstream.model.records import Record, decode_batch, encode_batch
from millstream.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.simulation.loop import EPOCH_MS, run
from tests.simulation.network import SimNetwork, Weather

T = TypeVar("T")

FETCH_VERSION = 12
PRODUCE_VERSION = 9


def simulate(scenario: Callable[[SimNetwork], Coroutine[Any, Any, T]], seed: int = 0) -> T:
    """Run on virtual time over a network that cuts messages into pieces."""
    network = SimNetwork(random.Random(seed), Weather(fragment_chance=0.3))
    return run(scenario(network), network)


async def create(connection: Connection, name: str, partitions: int = 1, **configs: str) -> None:
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    answer = await connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message


def produce_request(topic: str, *values: bytes, partition: int = 0, acks: int = -1) -> ProduceRequest:
    batch = encode_batch([Record(0, EPOCH_MS, None, value) for value in values])
    data = PartitionProduceData(index=partition, records=bytes(batch))
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


async def produce(connection: Connection, topic: str, *values: bytes, partition: int = 0) -> PartitionProduceResponse:
    answer = await connection.call(
        produce_request(topic, *values, partition=partition), ProduceResponse, version=PRODUCE_VERSION
    )
    return answer.responses[0].partition_responses[0]


def fetch_request(
    topic: str, offset: int, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1
) -> FetchRequest:
    row = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[row])],
    )


def batches_of(answer: FetchResponse) -> list[tuple[BatchHeader, list[Record]]]:
    """Every whole batch of the answer's first partition; the last may be cut, as Kafka's protocol has it."""
    records = answer.responses[0].partitions[0].records or b""
    assert isinstance(records, bytes | memoryview)
    found, at = [], 0
    while at + HEADER_BYTES <= len(records) and at + header_at(records, at).size <= len(records):
        found.append((header_at(records, at), decode_batch(records, at)))
        at += found[-1][0].size
    return found


def values_of(answer: FetchResponse) -> list[bytes | None]:
    return [record.value for _, records in batches_of(answer) for record in records]


async def read_records(connection: Connection, topic: str, partition: int = 0) -> list[Record]:
    """Everything from the start on, following offsets as a consumer does."""
    found: list[Record] = []
    offset = 0
    while True:
        answer = await connection.call(fetch_request(topic, offset, partition), FetchResponse, version=FETCH_VERSION)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
        batches = batches_of(answer)
        if not batches:
            return found
        for header, records in batches:
            found += [record for record in records if record.offset >= offset]
            offset = header.next_offset


async def read_all(connection: Connection, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in await read_records(connection, topic, partition)]
