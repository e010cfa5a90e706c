import asyncio
from uuid import UUID

import pytest

from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.partitioner import partition_of
from millstream.client.producing import ProducerId
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, decode_batch, encode_batch
from millstream.pipelines.spark.sink.coordinator import (
    DECISION_PARTITIONS,
    Decisions,
    batch_of,
    decoded,
    encoded,
    new_topic,
    transactional_prefix,
)
from millstream.pipelines.spark.sink.protocol import Decision, Transaction
from millstream.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from millstream.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import Handler, ScriptedBroker, metadata_of


def test_a_decision_is_read_as_it_was_written() -> None:
    one, other = Transaction("q/a/1", 5, 3, True), Transaction("q/b/1", 6, 0)
    decision = Decision(12, (one, other), (other,))
    assert decoded(encoded(decision)) == decision
    assert decoded(encoded(Decision())) == Decision()


def test_no_query_is_taken_for_part_of_another() -> None:
    """The sweep of one query must not end the transactions of another whose id begins alike."""
    assert not transactional_prefix("app-10").startswith(transactional_prefix("app-1"))


def test_the_decision_for_a_batch_of_many_tasks_fits_a_topic() -> None:
    ids = (f"{transactional_prefix(str(UUID(int=1)))}{number % 40:012x}/{number}" for number in range(20_000))
    decision = Decision(7, tuple(Transaction(each, 1_000 + at, 3, True) for at, each in enumerate(ids)))
    batch = batch_of(Record(key=b"q", value=encoded(decision)), ProducerId(1, 0))
    assert len(batch) < 1024 * 1024
    [record] = decode_batch(batch)
    assert record.value is not None and decoded(record.value) == decision


def test_decisions_are_on_three_brokers_where_there_are_as_many() -> None:
    assert [new_topic("decisions", brokers).replicas for brokers in (1, 2, 3, 9)] == [1, 2, 3, 3]
    assert "min.insync.replicas" not in new_topic("decisions", 2).settings
    assert new_topic("decisions", 3).settings["min.insync.replicas"] == "2"


def test_a_leader_that_does_not_know_yet_how_far_readers_have_seen_hides_no_decision() -> None:
    """Elected a moment ago, it has the record, and its watermark lies before it until its followers are there."""
    topic, decision = "decisions", Decision(7, (Transaction("q/a/1", 5, 3),))
    place = partition_of(b"q", DECISION_PARTITIONS)
    log = encode_batch([Record(key=b"q", value=encoded(decision))])
    is_new = [True, True]  # As often as it is asked for the end.

    def end(request: Request) -> ListOffsetsResponse:
        row = ListOffsetsPartitionResponse(partition_index=place, error_code=ErrorCode.NONE, offset=1)
        if is_new:
            is_new.pop()
            row = ListOffsetsPartitionResponse(partition_index=place, error_code=ErrorCode.OFFSET_NOT_AVAILABLE)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic, partitions=[row])])

    def fetch(request: Request) -> FetchResponse:
        assert isinstance(request, FetchRequest)
        [asked] = request.topics
        is_seen = not is_new and not asked.partitions[0].fetch_offset
        row = PartitionData(partition_index=place, high_watermark=0 if is_new else 1, records=log if is_seen else b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=asked.topic_id, partitions=[row])])

    async def scenario() -> Decision:
        async with ScriptedBroker() as broker:
            broker.handlers |= {
                MetadataRequest.API_KEY: metadata_of({1: broker.address}, {topic: [1] * DECISION_PARTITIONS}),
                DescribeConfigsRequest.API_KEY: _settings("compact"),
                ListOffsetsRequest.API_KEY: end,
                FetchRequest.API_KEY: fetch,
            }
            async with Cluster([broker.address]) as cluster, asyncio.timeout(20):
                return await Decisions(Coordinators(cluster), topic).read("q")

    assert asyncio.run(scenario()) == decision


def _settings(policy: str) -> Handler:
    """A handler for DescribeConfigs: a topic with this policy."""

    def handle(request: Request) -> DescribeConfigsResponse:
        assert isinstance(request, DescribeConfigsRequest)
        setting = DescribeConfigsResourceResult(name="cleanup.policy", value=policy, config_source=1)
        row = DescribeConfigsResult(
            resource_type=2, resource_name=request.resources[0].resource_name, configs=[setting]
        )
        return DescribeConfigsResponse(results=[row])

    return handle


def _place(policy: str, partitions: int) -> tuple[TopicPartition, int]:
    """Where the decisions of a query are in a topic that was there, and how often its settings were asked for."""

    async def scenario() -> tuple[TopicPartition, int]:
        async with ScriptedBroker() as broker:
            broker.handlers |= {
                MetadataRequest.API_KEY: metadata_of({1: broker.address}, {"decisions": [1] * partitions}),
                DescribeConfigsRequest.API_KEY: _settings(policy),
            }
            async with Cluster([broker.address]) as cluster, asyncio.timeout(20):
                decisions = Decisions(Coordinators(cluster), "decisions")
                places = {await decisions.partition("q7") for _ in range(3)}
                return places.pop(), sum(isinstance(each, DescribeConfigsRequest) for each in broker.seen)

    return asyncio.run(scenario())


def test_a_decision_is_found_where_it_was_though_partitions_were_added() -> None:
    """Else a batch that comes again would not be known, and written twice."""
    before, asked = _place("compact", 4)
    assert {_place("compact", partitions)[0] for partitions in (5, 6, 7, 9)} == {before}
    assert asked == 1, "once for all"


@pytest.mark.parametrize(
    ("policy", "partitions", "said"),
    [
        ("delete", 4, "cleanup.policy is delete: .* millstream topic alter decisions -c cleanup.policy=compact$"),
        ("compact,delete", 4, "cleanup.policy is compact,delete"),
        ("compact", 1, "1 partitions, and decisions need 4: .* millstream topic add-partitions decisions --total 4$"),
    ],
)
def test_a_topic_that_would_lose_decisions_is_refused(policy: str, partitions: int, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        _place(policy, partitions)
