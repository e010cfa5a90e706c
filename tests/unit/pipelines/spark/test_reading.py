"""Ranges that are read together where one of their leaders fails: scripted brokers, on real sockets."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa
import pytest

from millstream.client.cluster import Cluster
from millstream.client.wire import Address, Connection, Unreachable
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.pipelines.spark import reading
from millstream.pipelines.spark.options import batch_options
from millstream.pipelines.spark.planning import Range
from millstream.pipelines.spark.reading import read_together
from millstream.pipelines.spark.task import Task
from millstream.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import Answer, Handler, HangUp, ScriptedBroker, metadata_of

TOPIC = "orders"
SHORT_MS = 200


@contextmanager
def brokers(*fetches: Handler, others: tuple[Address, ...] = ()) -> Iterator[list[ScriptedBroker]]:
    """A broker for each handler of its fetches, and the others; each leads the partition of its number."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    made = [ScriptedBroker({FetchRequest.API_KEY: fetch}) for fetch in fetches]
    try:
        for each in made:
            asyncio.run_coroutine_threadsafe(each.__aenter__(), loop).result(10)
        addresses = dict(enumerate(chain((each.address for each in made), others)))
        for each in made:
            each.handlers[MetadataRequest.API_KEY] = metadata_of(addresses, {TOPIC: list(addresses)})
        yield made
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_end(made))
        loop.close()


async def _end(made: list[ScriptedBroker]) -> None:
    serving = asyncio.all_tasks() - {asyncio.current_task()}
    for task in serving:
        task.cancel()
    await asyncio.gather(*serving, return_exceptions=True)
    for each in made:
        await each.__aexit__(None, None, None)


@pytest.fixture(autouse=True)
def worker() -> Iterator[None]:
    """A process that reads: what it keeps for the next task ends with it."""
    yield
    while reading._clusters:
        reading._clusters.popitem()[1].close()


def records(request: Request) -> FetchResponse:
    """One record of each partition that is asked for."""
    assert isinstance(request, FetchRequest)
    data = bytes(encode_batch([Record(value=b"v", timestamp=1)]))
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=row.partition, high_watermark=1, records=data)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def first(answer: Callable[[], Answer]) -> Handler:
    """Gives this answer once, and what there is from then on."""
    left = [answer]

    def handle(request: Request) -> Answer:
        return left.pop()() if left else records(request)

    return handle


def hang_up() -> Answer:
    raise HangUp


def silence(request: Request) -> None:
    """No answer at all."""


def read(broker: ScriptedBroker, count: int, timeout_ms: int = 10_000) -> list[pa.RecordBatch]:
    """The first record of so many partitions."""
    given = {
        "kafka.bootstrap.servers": str(broker.address),
        "subscribe": TOPIC,
        "kafka.request.timeout.ms": str(timeout_ms),
    }
    options = batch_options(given)
    return list(read_together([Task(Range(TopicPartition(TOPIC, at), 0, 1), options) for at in range(count)]))


def fetches(broker: ScriptedBroker) -> int:
    return sum(isinstance(request, FetchRequest) for request in broker.seen)


@pytest.mark.parametrize(
    "answer",
    [hang_up, lambda: FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)],
    ids=["hangs up", "refuses"],
)
def test_what_one_leader_fails_to_give_is_asked_for_again_and_of_no_other(answer: Callable[[], Answer]) -> None:
    with brokers(records, first(answer)) as (sound, failing):
        batches = read(sound, 2)
        assert sorted(at for batch in batches for at in batch["partition"].to_pylist()) == [0, 1]
        assert (fetches(sound), fetches(failing)) == (1, 2)


def test_a_leader_that_gives_no_answer_is_waited_for_once() -> None:
    with brokers(records, silence) as (sound, hung):
        with pytest.raises(TimeoutError):
            read(sound, 2, SHORT_MS)
        assert fetches(hung) == 1


def test_a_leader_that_cannot_be_connected_to_in_time_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Address] = []
    connect = Cluster.new_connection

    async def noted(cluster: Cluster, address: Address) -> Connection:
        tried.append(address)
        return await connect(cluster, address)

    monkeypatch.setattr(Cluster, "new_connection", noted)
    with busy() as address, brokers(records, others=(address,)) as (sound,), pytest.raises(Unreachable):
        read(sound, 2, SHORT_MS)
    assert tried.count(address) == 1


@contextmanager
def busy() -> Iterator[Address]:
    """Where connections are neither made nor refused: as many wait to be taken as may."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        try:
            for _ in range(2):
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(server.getsockname())
            yield Address(*server.getsockname()[:2])
        finally:
            for each in waiting:
                each.close()


def test_an_answer_that_only_a_mistake_can_explain_is_told_at_once() -> None:
    stranger = FetchResponse(responses=[FetchableTopicResponse(topic_id=b"?" * 16, partitions=[PartitionData()])])
    with brokers(records, first(lambda: stranger)) as (sound, _), pytest.raises(KeyError):
        read(sound, 2)
