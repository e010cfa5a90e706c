"""Finding brokers, topics and leaders, and looking again when they have moved."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from millstream.client.admin import NewTopic, Outcome, create_topics
from millstream.client.cluster import Cluster, check, error_of
from millstream.client.partitions import LATEST, FoundOffset, list_offsets, produce
from millstream.client.wire import Address, ConnectionLost, Unreachable
from millstream.client.writer import Writer
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, decode_batch
from millstream.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import Answer, Handler, HangUp, ScriptedBroker, metadata_of

METADATA = MetadataRequest.API_KEY
LIST_OFFSETS = ListOffsetsRequest.API_KEY
PRODUCE = ProduceRequest.API_KEY
NOBODY = Address("127.0.0.1", 1)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work

    asyncio.run(bounded())


def offsets_of(offset: int, *, refusals: list[ErrorCode] | None = None) -> Handler:
    """A handler for ListOffsets that refuses as often as told, then answers ``offset`` for every partition."""
    left = list(refusals or ())

    def handle(request: Request) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest)
        code = left.pop(0) if left else ErrorCode.NONE
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=row.partition_index, error_code=code, offset=offset, timestamp=5
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return handle


def produced_at(*answers: tuple[ErrorCode, int]) -> Handler:
    """A handler for Produce that gives these codes and offsets, one after the other."""
    left = list(answers)

    def handle(request: Request) -> ProduceResponse:
        assert isinstance(request, ProduceRequest)
        [topic] = request.topic_data
        code, offset = left.pop(0)
        row = PartitionProduceResponse(
            index=topic.partition_data[0].index, error_code=code, base_offset=offset, error_message="as scripted"
        )
        return ProduceResponse(
            responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[row])]
        )

    return handle


def in_turn(*handlers: Handler) -> Handler:
    """Each handler answers one request."""
    left = list(handlers)

    def handle(request: Request) -> Answer:
        return left.pop(0)(request)

    return handle


def count(broker: ScriptedBroker, kind: type[Request]) -> int:
    return sum(isinstance(request, kind) for request in broker.seen)


def test_the_first_broker_that_answers_will_do() -> None:
    async def scenario() -> None:
        handlers = {METADATA: metadata_of({1: NOBODY}, {"orders": [1]})}
        async with ScriptedBroker(handlers) as broker, Cluster([NOBODY, broker.address]) as cluster:
            assert len((await cluster.topic("orders")).partitions) == 1
            assert cluster.cluster_id == "scripted"

    run(scenario())


def test_no_broker_at_all_is_told() -> None:
    async def scenario() -> None:
        with pytest.raises(Unreachable, match="nothing listens"):
            async with Cluster([NOBODY]):
                pass

    run(scenario())


def test_each_partition_is_asked_of_its_own_leader() -> None:
    async def scenario() -> None:
        async with (
            ScriptedBroker({LIST_OFFSETS: offsets_of(1)}) as one,
            ScriptedBroker({LIST_OFFSETS: offsets_of(2)}) as two,
        ):
            brokers = {1: one.address, 2: two.address}
            one.handlers[METADATA] = two.handlers[METADATA] = metadata_of(brokers, {"orders": [1, 2, 1]})
            async with Cluster([one.address]) as cluster:
                partitions = [TopicPartition("orders", index) for index in range(3)]
                found = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
            assert [found[tp].offset for tp in partitions] == [1, 2, 1]
            assert (count(one, ListOffsetsRequest), count(two, ListOffsetsRequest)) == (1, 1)

    run(scenario())


def test_a_leader_that_moved_is_looked_up_again() -> None:
    async def scenario() -> None:
        tp = TopicPartition("orders", 0)
        moved = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        async with (
            ScriptedBroker({LIST_OFFSETS: offsets_of(1, refusals=moved)}) as old,
            ScriptedBroker({LIST_OFFSETS: offsets_of(2)}) as new,
        ):
            brokers = {1: old.address, 2: new.address}
            before, after = metadata_of(brokers, {"orders": [1]}), metadata_of(brokers, {"orders": [2]})
            old.handlers[METADATA] = in_turn(before, after)
            async with Cluster([old.address]) as cluster:
                assert await list_offsets(cluster, {tp: LATEST}) == {tp: FoundOffset(2, 5)}

    run(scenario())


def test_a_lost_connection_is_made_again_for_what_may_be_repeated() -> None:
    async def scenario() -> None:
        tp = TopicPartition("orders", 0)
        hang_ups = [HangUp()]

        def hang_up_once(request: Request) -> Any:
            if hang_ups:
                raise hang_ups.pop()
            return offsets_of(7)(request)

        async with ScriptedBroker({LIST_OFFSETS: hang_up_once}) as broker:
            broker.handlers[METADATA] = metadata_of({1: broker.address}, {"orders": [1]})
            async with Cluster([broker.address]) as cluster:
                assert (await list_offsets(cluster, {tp: LATEST}))[tp].offset == 7

    run(scenario())


def test_a_batch_is_sent_again_when_refused_but_never_when_its_fate_is_unknown() -> None:
    async def scenario() -> None:
        tp = TopicPartition("orders", 0)
        refused_once = produced_at((ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (ErrorCode.NONE, 41))
        async with ScriptedBroker({PRODUCE: refused_once}) as broker:
            broker.handlers[METADATA] = metadata_of({1: broker.address}, {"orders": [1]})
            async with Cluster([broker.address]) as cluster:
                assert (await produce(cluster, tp, b"batch")).base_offset == 41

                def hang_up(request: Request) -> None:
                    raise HangUp

                broker.handlers[PRODUCE] = hang_up
                before = count(broker, ProduceRequest)
                with pytest.raises(ConnectionLost):
                    await produce(cluster, tp, b"batch")
                assert count(broker, ProduceRequest) == before + 1

    run(scenario())


def test_a_refusal_that_will_not_pass_is_told_at_once_in_the_brokers_words() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({PRODUCE: produced_at((ErrorCode.INVALID_RECORD, -1))}) as broker:
            broker.handlers[METADATA] = metadata_of({1: broker.address}, {"orders": [1]})
            async with Cluster([broker.address]) as cluster:
                with pytest.raises(ProtocolError, match="INVALID_RECORD: as scripted"):
                    await produce(cluster, TopicPartition("orders", 0), b"batch")

    run(scenario())


def test_a_leader_that_never_comes_is_given_up_after_the_timeout() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.handlers[METADATA] = metadata_of({1: broker.address}, {"orders": [-1]})
            async with Cluster([broker.address], timeout_s=0.3) as cluster:
                with pytest.raises(ProtocolError, match="LEADER_NOT_AVAILABLE: partition orders-0 has no leader"):
                    await list_offsets(cluster, {TopicPartition("orders", 0): LATEST})

    run(scenario())


def test_a_missing_topic_or_partition_is_told_at_once() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.handlers[METADATA] = metadata_of({1: broker.address}, {"orders": [1]})
            async with Cluster([broker.address]) as cluster:
                with pytest.raises(ProtocolError, match="there is no topic 'other'"):
                    await cluster.topic("other")
                with pytest.raises(ProtocolError, match="has 1 partitions, none numbered 4"):
                    await cluster.leader(TopicPartition("orders", 4))
                assert count(broker, MetadataRequest) == 2

    run(scenario())


def test_a_topic_made_on_demand_is_waited_for() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            here = {1: broker.address}
            nothing = metadata_of(here, {})
            broker.handlers[METADATA] = in_turn(nothing, nothing, metadata_of(here, {"orders": [1]}))
            async with Cluster([broker.address]) as cluster:
                assert (await cluster.topic("orders", may_create=True)).name == "orders"
            asked = [request for request in broker.seen if isinstance(request, MetadataRequest)]
            assert [request.allow_auto_topic_creation for request in asked] == [True, True, True]

    run(scenario())


def test_topics_are_made_by_the_controller() -> None:
    async def scenario() -> None:
        result = CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name="a", error_code=36, error_message="it is there"),
                CreatableTopicResult(name="b"),
            ]
        )
        async with (
            ScriptedBroker() as other,
            ScriptedBroker({CreateTopicsRequest.API_KEY: lambda request: result}) as chief,
        ):
            brokers = {1: other.address, 2: chief.address}
            other.handlers[METADATA] = metadata_of(brokers, {}, controller=2)
            async with Cluster([other.address]) as cluster:
                outcomes = await create_topics(cluster, [NewTopic("a", 3, 1, {"retention.ms": "5"}), NewTopic("b")])
            assert outcomes == [
                Outcome("a", ErrorCode.TOPIC_ALREADY_EXISTS, "it is there"),
                Outcome("b", ErrorCode.NONE),
            ]
            [request] = [request for request in chief.seen if isinstance(request, CreateTopicsRequest)]
            assert [(topic.name, topic.num_partitions) for topic in request.topics] == [("a", 3), ("b", -1)]

    run(scenario())


def test_a_controller_that_moved_is_looked_up_again() -> None:
    async def scenario() -> None:
        def answered(code: int) -> dict[int, Handler]:
            result = CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=code)])
            return {CreateTopicsRequest.API_KEY: lambda request: result}

        moved = answered(ErrorCode.NOT_CONTROLLER)
        async with ScriptedBroker(moved) as old, ScriptedBroker(answered(ErrorCode.NONE)) as new:
            brokers = {1: old.address, 2: new.address}
            before, after = (metadata_of(brokers, {}, controller=node) for node in (1, 2))
            old.handlers[METADATA] = in_turn(before, after)
            async with Cluster([old.address]) as cluster:
                assert await create_topics(cluster, [NewTopic("a")]) == [Outcome("a", ErrorCode.NONE)]

    run(scenario())


def test_a_code_newer_than_we_know_is_an_unknown_error() -> None:
    assert error_of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
    check(0)
    with pytest.raises(ProtocolError, match="INVALID_REQUEST: why"):
        check(42, "why")


def test_a_writer_keeps_order_fills_batches_and_spreads_keyless_records() -> None:
    async def scenario() -> None:
        batches: dict[int, list[list[Record]]] = {}

        def handle(request: Request) -> Answer:
            assert isinstance(request, ProduceRequest)
            [data] = request.topic_data[0].partition_data
            assert data.records is not None
            batches.setdefault(data.index, []).append(decode_batch(data.records))
            return produced_at((ErrorCode.NONE, 100))(request)

        async with ScriptedBroker({PRODUCE: handle}) as broker:
            broker.handlers[METADATA] = metadata_of({1: broker.address}, {"orders": [1, 1, 1]})
            async with Cluster([broker.address]) as cluster:
                await cluster.topic("orders")
                writer = Writer(cluster, "orders", 3, first=1)
                for number in range(30):
                    await writer.add(Record(timestamp=number, value=b"%d" % number + b"." * 100_000), 2)
                await writer.add(Record(timestamp=0, value=b"keyless 1"))
                await writer.flush()
                await writer.add(Record(timestamp=0, value=b"keyless 2"), None)
                await writer.flush()
                assert (writer.records, writer.written[2].records) == (32, 31)
                assert (writer.written[1].first_offset, writer.written[1].last_offset) == (100, 100)
        large = [record for batch in batches[2] for record in batch]
        assert [record.timestamp for record in large] == [*range(30), 0]
        assert [len(batch) for batch in batches[2]] == [8, 8, 8, 6, 1]
        assert [record.value for batch in batches[1] for record in batch] == [b"keyless 1"]

    run(scenario())
