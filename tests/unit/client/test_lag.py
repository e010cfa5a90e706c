"""How far behind a reader is."""

import asyncio
from collections.abc import Mapping

import pytest

from millstream.client.cluster import Cluster
from millstream.client.lag import Lag, Span, lags_of
from millstream.client.partitions import READ_COMMITTED
from millstream.model.batch import header_at
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, COMMIT, Record, encode_batch, encode_marker
from millstream.protocol.messages.fetch import (
    AbortedTransaction,
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


def marker(offset: int, kind: int) -> bytes:
    return bytes(encode_marker(kind, producer_id=7, producer_epoch=0, timestamp=NOW_MS - 9_000, base_offset=offset))


def in_transaction(base_offset: int, age_ms: int) -> bytes:
    record = Record(base_offset, NOW_MS - age_ms, None, b"v", ())
    return bytes(encode_batch([record], base_offset=base_offset, producer_id=7, producer_epoch=0, transactional=True))


def log_of(*batches: bytes, aborted: list[int] | None = None, stable: int = 20) -> Handler:
    """Gives the next batch from the offset asked for on; to readers of committed records only what is stable."""

    def handle(request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        asked = request.topics[0].partitions[0].fetch_offset
        left = [each for each in batches if header_at(each, 0).next_offset > asked]
        if request.isolation_level == READ_COMMITTED:
            left = [each for each in left if header_at(each, 0).next_offset <= stable]
        gone = [AbortedTransaction(producer_id=7, first_offset=offset) for offset in aborted or ()]
        row = PartitionData(partition_index=0, records=left[0] if left else b"", aborted_transactions=gone)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=request.topics[0].topic_id, partitions=[row])])

    return handle


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
    assert lag_at(12, fetch, {TP: SPAN})[0] == Lag(8, None)


def test_a_partition_that_is_gone_has_no_lag() -> None:
    assert lag_at(12, fetched(b""), {}) == (None, [])


def test_a_record_from_the_future_is_not_of_negative_age() -> None:
    assert lag_at(12, fetched(batch(12, [NOW_MS + 60_000])), {TP: SPAN})[0] == Lag(8, 0)


def test_a_reader_with_only_a_marker_before_it_has_read_everything() -> None:
    log = log_of(in_transaction(18, 9_000), marker(19, COMMIT))
    assert lag_at(19, log, {TP: SPAN})[0] == Lag(0, 0)
    assert lag_at(18, log, {TP: SPAN})[0] == Lag(2, 9_000)


def test_what_was_aborted_is_not_waited_for() -> None:
    log = log_of(in_transaction(18, 9_000), marker(19, ABORT), aborted=[18])
    assert lag_at(18, log, {TP: SPAN})[0] == Lag(0, 0)


def test_the_age_is_that_of_the_first_record_behind_the_markers() -> None:
    log = log_of(marker(17, COMMIT), marker(18, COMMIT), batch(19, [NOW_MS - 2_000]))
    assert lag_at(17, log, {TP: SPAN})[0] == Lag(1, 2_000)


def test_a_record_of_an_open_transaction_is_still_to_be_read() -> None:
    log = log_of(marker(18, COMMIT), in_transaction(19, 4_000), stable=19)
    assert lag_at(18, log, {TP: SPAN})[0] == Lag(1, 4_000)
