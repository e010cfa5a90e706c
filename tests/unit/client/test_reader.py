"""What a reader shows of fetched batches."""

import asyncio
from contextlib import aclosing

from millstream.client.cluster import Cluster
from millstream.client.partitions import fetch as fetch_once
from millstream.client.reader import Read, Reader, visible_batches, whole_batches
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, COMMIT, Record, encode_batch, encode_marker
from millstream.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import ScriptedBroker, metadata_of


def batch(offset: int, *values: bytes, producer_id: int = -1) -> bytes:
    records = [Record(timestamp=0, value=value) for value in values]
    is_transactional = producer_id >= 0
    return bytes(
        encode_batch(
            records,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            transactional=is_transactional,
        )
    )


def marker(offset: int, kind: int, producer_id: int) -> bytes:
    return bytes(encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset))


def shown(fetched: bytes, aborted: list[tuple[int, int]]) -> list[bytes | None]:
    return [record.value for _, records in visible_batches(memoryview(fetched), aborted) for record in records]


def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch() -> None:
    first, second = batch(0, b"a", b"b"), batch(2, b"c")
    for cut in range(len(second)):
        fetched = memoryview(first + second[:cut])
        assert [(at, header.next_offset) for at, header in whole_batches(fetched)] == [(0, 2)]
    assert [at for at, _ in whole_batches(memoryview(first + second))] == [0, len(first)]


def test_markers_are_not_shown_but_passed() -> None:
    fetched = batch(0, b"a", producer_id=5) + marker(1, COMMIT, 5) + batch(2, b"b")
    assert shown(fetched, []) == [b"a", b"b"]
    assert [header.next_offset for header, _ in visible_batches(memoryview(fetched), [])] == [1, 2, 3]


def test_aborted_transactions_are_left_out_and_others_of_the_same_producer_are_not() -> None:
    fetched = b"".join(
        [
            batch(0, b"good", producer_id=5),
            marker(1, COMMIT, 5),
            batch(2, b"bad", producer_id=5),
            batch(3, b"other", producer_id=6),
            batch(4, b"plain"),
            marker(5, ABORT, 5),
            batch(6, b"good again", producer_id=5),
            marker(7, COMMIT, 6),
        ]
    )
    assert shown(fetched, [(5, 2)]) == [b"good", b"other", b"plain", b"good again"]


def test_a_transaction_that_began_before_the_fetch_is_left_out() -> None:
    fetched = batch(10, b"bad", producer_id=5) + marker(11, ABORT, 5)
    assert shown(fetched, [(5, 3)]) == []


def test_a_partition_that_nobody_leads_does_not_hold_up_the_others() -> None:
    def answer(request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        (topic,) = request.topics
        assert [partition.partition for partition in topic.partitions] == [1]
        row = PartitionData(partition_index=1, high_watermark=1, records=batch(0, b"a"))
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[row])])

    async def scenario() -> Read:
        async with ScriptedBroker() as broker:
            leaders = {"orders": [-1, 1]}
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, leaders)
            broker.handlers[FetchRequest.API_KEY] = answer
            async with Cluster([broker.address]) as cluster:
                starts = {TopicPartition("orders", number): 0 for number in range(2)}
                async with aclosing(Reader(cluster, starts).read()) as reads:
                    return await asyncio.wait_for(anext(reads), 10)

    read = asyncio.run(scenario())
    assert read.partition == TopicPartition("orders", 1)
    assert [record.value for record in read.records] == [b"a"]


def test_a_broker_that_throttles_a_fetch_is_asked_again() -> None:
    """It answers without a single partition, and says how long to wait."""
    tp = TopicPartition("t", 0)
    answers = [FetchResponse(throttle_time_ms=1), FetchResponse(throttle_time_ms=1)]

    def fetch(request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        if answers:
            return answers.pop()
        row = PartitionData(partition_index=0, high_watermark=1, records=batch(0, b"a"))
        [topic] = request.topics
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[row])])

    async def scenario() -> int:
        async with ScriptedBroker({FetchRequest.API_KEY: fetch}) as broker:
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, {"t": [1]})
            async with Cluster([broker.address]) as cluster:
                [row] = await fetch_once(cluster, await cluster.leader(tp), {tp: 0})
                return row.high_watermark

    assert asyncio.run(scenario()) == 1
