"""Batches in and out of partitions, raw: nothing here looks inside a record."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from millstream.client.cluster import Cluster, check, check_partition, error_of
from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.net.eager import together
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

ACKS_NONE = 0
ACKS_LEADER = 1
ACKS_ALL = -1

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

#: Timestamps that ListOffsets takes for places in the log.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

NO_OFFSET = -1
#: From this version on, topics are named by their ids alone.
PRODUCE_BY_ID_FROM = 13
FETCH_BY_ID_FROM = 13


class Produced(NamedTuple):
    """Where a batch went; -1 where the broker did not say (acks 0)."""

    base_offset: int
    append_time_ms: int = -1


class FoundOffset(NamedTuple):
    """An answer of ListOffsets; the offset is -1 when no record is as young as asked."""

    offset: int
    timestamp: int


@dataclass(slots=True)
class Fetched:
    """What a fetch gave of one partition; ``records`` are whole batches, the last maybe cut short."""

    partition: TopicPartition
    error_code: ErrorCode
    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    #: Producer id and first offset of each aborted transaction in the range; only for read_committed.
    aborted: list[tuple[int, int]]


def version_by_name_or_id(connection: Connection, request: type[ProduceRequest | FetchRequest], topic_id: Uuid) -> int:
    """The newest version, or the last that names topics when the topic's id is not known."""
    version = connection.version_for(request)
    by_id_from = PRODUCE_BY_ID_FROM if request is ProduceRequest else FETCH_BY_ID_FROM
    return min(version, by_id_from - 1) if topic_id == ZERO_UUID else version


async def produce(
    cluster: Cluster, tp: TopicPartition, records: bytes | bytearray, *, acks: int = ACKS_LEADER
) -> Produced:
    """Append batches to a partition. A batch whose connection was lost is not sent again: it may be there already."""

    async def attempt() -> Produced:
        connection = await cluster.leader(tp)
        topic = await cluster.topic(tp.topic)
        request = produce_request(tp, topic.id, records, acks, int(cluster.timeout_s * 1000))
        version = version_by_name_or_id(connection, ProduceRequest, topic.id)
        frame = connection.frame_of(request, version)
        if acks == ACKS_NONE:
            connection.send_frame(frame, None)
            return Produced(NO_OFFSET)
        answer = connection.answer_of(ProduceResponse, await connection.exchange(frame, cluster.timeout_s), version)
        return produced_row(answer, tp)

    return await cluster.retrying([tp.topic], attempt, again_if_lost=False)


def produced_row(answer: ProduceResponse, tp: TopicPartition) -> Produced:
    """The one row of an answer to a produce of one partition; the broker's refusal as it explains it."""
    row = answer.responses[0].partition_responses[0]
    details = [row.error_message, *(fault.batch_index_error_message for fault in row.record_errors)]
    check_partition(row.error_code, "; ".join(filter(None, details)) or f"partition {tp}")
    return Produced(row.base_offset, row.log_append_time_ms)


def produce_request(
    tp: TopicPartition, topic_id: Uuid, records: bytes | bytearray, acks: int, timeout_ms: int
) -> ProduceRequest:
    """A request for one partition."""
    data = PartitionProduceData(index=tp.partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=tp.topic, topic_id=topic_id, partition_data=[data])],
    )


async def fetch(
    cluster: Cluster,
    connection: Connection,
    offsets: Mapping[TopicPartition, int],
    *,
    bytes_max: int = 50 * 1024 * 1024,
    partition_bytes_max: int = 1024 * 1024,
    bytes_min: int = 1,
    wait_ms: int = 500,
    isolation: int = READ_UNCOMMITTED,
) -> list[Fetched]:
    """One fetch, without a session, of partitions that ``connection``'s broker leads, from the offsets given.

    A partition's refusal is a row of the answer, not an exception. A broker that has had enough of us for now answers
    nothing but how long to wait; then it is asked again.
    """
    ids = {tp.topic: (await cluster.topic(tp.topic)).id for tp in offsets}
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        isolation_level=isolation,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=ids[name],
                partitions=[
                    FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=partition_bytes_max)
                    for tp, offset in offsets.items()
                    if tp.topic == name
                ],
            )
            for name in ids
        ],
    )
    version = min(version_by_name_or_id(connection, FetchRequest, topic_id) for topic_id in ids.values())
    timeout_s = cluster.timeout_s + wait_ms / 1000
    answer = await connection.call(request, FetchResponse, version=version, timeout_s=timeout_s)
    while offsets and not answer.responses and answer.throttle_time_ms and not answer.error_code:
        await asyncio.sleep(answer.throttle_time_ms / 1000)
        answer = await connection.call(request, FetchResponse, version=version, timeout_s=timeout_s)
    check(answer.error_code)
    return fetched_rows(answer, {topic_id: name for name, topic_id in ids.items()})


def fetched_rows(answer: FetchResponse, names: Mapping[Uuid, str]) -> list[Fetched]:
    """The partitions of a fetch's answer; topics named by id are looked up in ``names``."""
    return [
        Fetched(
            partition=TopicPartition(topic.topic or names[topic.topic_id], row.partition_index),
            error_code=error_of(row.error_code),
            records=memoryview(row.records) if row.records is not None else memoryview(b""),
            high_watermark=row.high_watermark,
            last_stable_offset=row.last_stable_offset,
            log_start_offset=row.log_start_offset,
            aborted=[(aborted.producer_id, aborted.first_offset) for aborted in row.aborted_transactions or ()],
        )
        for topic in answer.responses
        for row in topic.partitions
    ]


async def by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[Connection, list[TopicPartition]]:
    """The partitions, under the connection of the broker that leads each."""
    grouped: dict[Connection, list[TopicPartition]] = {}
    for tp in partitions:
        grouped.setdefault(await cluster.leader(tp), []).append(tp)
    return grouped


async def list_offsets(
    cluster: Cluster, asked: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the first record at or after a timestamp, or at EARLIEST, LATEST or MAX_TIMESTAMP."""

    async def attempt() -> dict[TopicPartition, FoundOffset]:
        found: dict[TopicPartition, FoundOffset] = {}
        leaders = await by_leader(cluster, asked)
        answers = await together(
            connection.call(
                _list_offsets_request(partitions, asked, isolation, cluster.timeout_s),
                ListOffsetsResponse,
                timeout_s=cluster.timeout_s,
            )
            for connection, partitions in leaders.items()
        )
        for answer in answers:
            for topic in answer.topics:
                for row in topic.partitions:
                    tp = TopicPartition(topic.name, row.partition_index)
                    check_partition(row.error_code, f"partition {tp}")
                    found[tp] = FoundOffset(row.offset, row.timestamp)
        return found

    return await cluster.retrying({tp.topic for tp in asked}, attempt)


def _list_offsets_request(
    partitions: Sequence[TopicPartition], asked: Mapping[TopicPartition, int], isolation: int, timeout_s: float
) -> ListOffsetsRequest:
    names = dict.fromkeys(tp.topic for tp in partitions)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        timeout_ms=int(timeout_s * 1000),
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=tp.partition, timestamp=asked[tp])
                    for tp in partitions
                    if tp.topic == name
                ],
            )
            for name in names
        ],
    )
