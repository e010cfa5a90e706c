"""How far behind a reader is."""

import asyncio
from collections.abc import Mapping

import pytest

from millstream.client.cluster import Cluster
from millstream.client.lag import Lag, Span, lags_of
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import Handler, ScriptedBroker, metadata_of

TP = TopicPartition("orders", 0)
NOW_MS = 1_000_000
SPAN = Span(10, 20)


def batch(base_offset: int, timestamps: list[int]) -> bytes:
    records = [Record(base_offset + at, moment, None, b"v", ()) for at, moment in enumerate(timestamps)]
    return bytes(encode_batch(records, base_offset=base_offset))


def fetched(records: bytes, code: ErrorCode = ErrorCode.NONE) -> Handler:
    def handle(request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        [topic] = request.topics
        row = PartitionData(partition_index=topic.partitions[0].partition, error_code=code, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic.topic_id, partitions=[row])])

    return handle


def lag_at(position: int, fetch: Handler, spans: Mapping[TopicPartition, Span]) -> tuple[Lag | None, list[int]]:
    """The lag of a position, and the offsets that were looked at to find it."""

    async def scenario() -> tuple[Lag | None, list[int]]:
        async with ScriptedBroker({FetchRequest.API_KEY: fetch}) as broker:
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, {"orders": [1]})
            async with Cluster([broker.address]) as cluster:
                lags = await lags_of(cluster, {TP: position}, spans, NOW_MS)
            looks = [
                each.topics[0].partitions[0].fetch_offset for each in broker.seen if isinstance(each, FetchRequest)
            ]
            return lags.get(TP), looks

    return asyncio.run(scenario())


def test_a_reader_at_the_end_is_not_behind_and_nothing_is_fetched() -> None:
    assert lag_at(20, fetched(b""), {TP: SPAN}) == (Lag(0, 0), [])


def test_the_age_is_that_of_the_next_record_to_read() -> None:
    records = batch(12, [NOW_MS - 5_000, NOW_MS - 3_000, NOW_MS - 1_000])
    assert lag_at(12, fetched(records), {TP: SPAN}) == (Lag(8, 5_000), [12])
    assert lag_at(13, fetched(records), {TP: SPAN}) == (Lag(7, 3_000), [13])


def test_where_retention_has_overtaken_the_reader_the_first_record_left_counts() -> None:
    records = batch(10, [NOW_MS - 9_000])
    assert lag_at(3, fetched(records), {TP: SPAN}) == (Lag(17, 9_000), [10])


@pytest.mark.parametrize(
    "fetch",
    [
        fetched(b"", ErrorCode.NOT_LEADER_OR_FOLLOWER),
        fetched(b""),
        fetched(batch(12, [-1])),
    ],
    ids=["the leader moved", "nothing came", "no timestamp"],
)
def test_an_age_that_cannot_be_known_is_none(fetch: Handler) -> None:
    assert lag_at(12, fetch, {TP: SPAN}) == (Lag(8, None), [12])


def test_a_partition_that_is_gone_has_no_lag() -> None:
    assert lag_at(12, fetched(b""), {}) == (None, [])


def test_a_record_from_the_future_is_not_of_negative_age() -> None:
    assert lag_at(12, fetched(batch(12, [NOW_MS + 60_000])), {TP: SPAN})[0] == Lag(8, 0)
