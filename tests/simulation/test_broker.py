"""The production broker on virtual time: what it promises when the disk, the network and the power do not."""

import asyncio
import random

import pytest

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.model.records import Record, encode_batch
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.simulation.asking import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    create,
    fetch_request,
    produce,
    produce_request,
    read_all,
    read_records,
    simulate,
    values_of,
)
from tests.simulation.broker import SimBroker
from tests.simulation.loop import EPOCH_MS
from tests.simulation.network import SimNetwork


def test_a_fetch_with_nothing_to_read_answers_at_its_deadline() -> None:
    async def scenario(network: SimNetwork) -> float:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        before_s = machine.loop.time()
        answer = await connection.call(
            fetch_request("orders", 0, max_wait_ms=5_000), FetchResponse, version=FETCH_VERSION
        )
        took_s = machine.loop.time() - before_s
        assert values_of(answer) == []
        await machine.stop()
        return took_s

    assert simulate(scenario) == pytest.approx(5.0, abs=0.01)


def test_a_waiting_fetch_is_answered_by_the_append_it_waits_for() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        reader, writer = await machine.connect(), await machine.connect()
        await create(writer, "orders")
        waiting = asyncio.create_task(
            reader.call(fetch_request("orders", 0, max_wait_ms=60_000), FetchResponse, version=FETCH_VERSION)
        )
        await asyncio.sleep(1)
        assert not waiting.done()
        await produce(writer, "orders", b"one")
        assert values_of(await waiting) == [b"one"]
        assert machine.loop.time() < 2
        await machine.stop()

    simulate(scenario)


def test_answers_leave_in_the_order_of_the_requests_and_appends_do_not_wait() -> None:
    """A fetch that waits holds back the answers behind it, never the appends."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection, other = await machine.connect(), await machine.connect()
        await create(connection, "orders", partitions=2)
        order: list[str] = []

        async def call(name: str, request: object, response: type, version: int) -> None:
            await connection.call(request, response, version=version)  # type: ignore[arg-type]
            order.append(name)

        calls = [
            asyncio.create_task(
                call("fetch", fetch_request("orders", 0, max_wait_ms=3_000), FetchResponse, version=FETCH_VERSION)
            ),
            asyncio.create_task(
                call("produce", produce_request("orders", b"x", partition=1), ProduceResponse, PRODUCE_VERSION)
            ),
            asyncio.create_task(call("metadata", MetadataRequest(), MetadataResponse, 9)),
        ]
        await asyncio.sleep(1)
        assert await read_all(other, "orders", partition=1) == [b"x"]
        assert order == []
        await asyncio.gather(*calls)
        assert order == ["fetch", "produce", "metadata"]
        assert machine.loop.time() >= 3
        await machine.stop()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_every_acknowledged_record_survives_a_kill(seed: int) -> None:
    """The process dies, the machine does not: what was written is in the page cache."""

    async def scenario(network: SimNetwork) -> None:
        rng = random.Random(seed)
        machine = SimBroker(network, seed, {"log.segment.bytes": "2000"}, delay_ms_max=5)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        sent: list[bytes | None] = []
        for _ in range(3):
            for _ in range(rng.randrange(30)):
                values = [rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 4))]
                row = await produce(connection, "orders", *values)
                assert (row.error_code, row.base_offset) == (ErrorCode.NONE, len(sent))
                sent += values
                if rng.random() < 0.1:
                    await asyncio.sleep(rng.uniform(0, 10))
            await machine.crash(power=False)
            await machine.start()
            connection = await machine.connect()
            assert await read_all(connection, "orders") == sent
        await machine.stop()

    simulate(scenario, seed)


@pytest.mark.parametrize("seed", range(20))
def test_with_every_write_flushed_nothing_acknowledged_is_lost_with_the_power(seed: int) -> None:
    async def scenario(network: SimNetwork) -> None:
        rng = random.Random(seed)
        machine = SimBroker(network, seed, {"log.segment.bytes": "3000"}, delay_ms_max=5)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", flush_messages="1")
        sent: list[bytes | None] = []
        for _ in range(3):
            for _ in range(rng.randrange(20)):
                value = rng.randbytes(rng.randrange(300))
                row = await produce(connection, "orders", value)
                assert row.error_code == ErrorCode.NONE
                sent.append(value)
            await machine.crash(power=True)
            await machine.start()
            connection = await machine.connect()
            assert await read_all(connection, "orders") == sent
        await machine.stop()

    simulate(scenario, seed)


def test_a_failed_directory_takes_only_its_partitions_with_it() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, settings={"log.dirs": "/data/a,/data/b"})
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", partitions=2)
        await produce(connection, "orders", b"kept", partition=0)
        await produce(connection, "orders", b"kept", partition=1)
        log = broker.replicas.find("orders", 0).log
        assert log is not None
        machine.files.fail("append", path=f"{log.directory.path}/*")
        refused = await produce(connection, "orders", b"lost", partition=0)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert refused.error_message is not None and log.directory.path in refused.error_message
        assert (await produce(connection, "orders", b"more", partition=1)).error_code == ErrorCode.NONE
        assert await read_all(connection, "orders", partition=1) == [b"kept", b"more"]
        assert await leaders(connection, "orders") == {
            0: (ErrorCode.LEADER_NOT_AVAILABLE, -1, [0]),
            1: (ErrorCode.NONE, 0, []),
        }
        machine.files.heal()
        await machine.stop()
        await machine.start()
        connection = await machine.connect()
        assert await read_all(connection, "orders", partition=0) == [b"kept"]
        await machine.stop()

    simulate(scenario)


def test_whoever_waits_for_a_partition_hears_that_its_disk_has_failed() -> None:
    async def scenario(network: SimNetwork) -> float:
        machine = SimBroker(network)
        await machine.start()
        waiting, other = await machine.connect(), await machine.connect()
        await create(other, "orders")
        fetch = asyncio.create_task(
            waiting.call(fetch_request("orders", 0, max_wait_ms=60_000), FetchResponse, version=FETCH_VERSION)
        )
        await asyncio.sleep(1)
        machine.files.fail("append", path="/data/a/orders*")
        await produce(other, "orders", b"lost")
        answer = await fetch
        assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=30_000)
        deleted = await other.call(deletion, DeleteTopicsResponse, version=6)
        assert deleted.responses[0].error_code == ErrorCode.NONE
        assert await leaders(other, "orders") == {}
        now_s = asyncio.get_running_loop().time()
        machine.files.heal()
        await machine.stop()
        await machine.start()
        await create(await machine.connect(), "orders")
        await machine.stop()
        return now_s

    assert simulate(scenario) < 2


async def leaders(connection: Connection, topic: str) -> dict[int, tuple[int, int, list[int]]]:
    """Error, leader and offline replicas of each partition."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer = await connection.call(request, MetadataResponse, version=9)
    return {
        row.partition_index: (row.error_code, row.leader_id, row.offline_replicas)
        for row in answer.topics[0].partitions
    }


def test_topics_are_made_on_first_mention_where_that_is_allowed() -> None:
    async def scenario(network: SimNetwork, is_allowed: bool) -> int:
        machine = SimBroker(network, settings={"auto.create.topics.enable": str(is_allowed).lower()})
        await machine.start()
        connection = await machine.connect()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="fresh")])
        answer = await connection.call(request, MetadataResponse, version=9)
        await machine.stop()
        return answer.topics[0].error_code

    assert simulate(lambda network: scenario(network, True)) == ErrorCode.NONE
    assert simulate(lambda network: scenario(network, False)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_looked_at_off_the_loop_keep_their_place_among_the_others() -> None:
    """A large batch of a compacted topic is decoded in a thread; what the client sent after it stays after it."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, delay_ms_max=50)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "accounts", cleanup_policy="compact")

        def keyed(value: bytes, key: bytes | None = b"k") -> ProduceRequest:
            batch = encode_batch([Record(0, EPOCH_MS, key, value)])
            data = PartitionProduceData(index=0, records=bytes(batch))
            return ProduceRequest(
                acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="accounts", partition_data=[data])]
            )

        large = [b"a" * 100_000, b"b" * 40_000]
        requests = [keyed(large[0]), keyed(b"small"), keyed(large[1]), keyed(b"c" * 50_000, key=None), keyed(b"last")]
        answers = await asyncio.gather(
            *(connection.call(request, ProduceResponse, version=PRODUCE_VERSION) for request in requests)
        )
        rows = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
            (ErrorCode.NONE, 2),
            (ErrorCode.INVALID_RECORD, -1),
            (ErrorCode.NONE, 3),
        ]
        assert await read_all(connection, "accounts") == [large[0], b"small", large[1], b"last"]
        await machine.stop()

    simulate(scenario)


def test_a_topic_with_a_codec_of_its_own_keeps_batches_in_it() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "logs", compression_type="zstd")
        for value in (b"small", b"large" * 20_000):
            assert (await produce(connection, "logs", value)).error_code == ErrorCode.NONE
        assert await read_all(connection, "logs") == [b"small", b"large" * 20_000]
        log = broker.replicas.find("logs", 0).log
        assert log is not None and log.size_bytes < 1_000
        await machine.stop()

    simulate(scenario)


def test_a_compacted_topic_keeps_the_last_of_each_key() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, settings={"log.cleaner.backoff.ms": "1000"})
        broker = await machine.start()
        connection = await machine.connect()
        await create(
            connection, "accounts", cleanup_policy="compact", segment_bytes="500", min_cleanable_dirty_ratio="0.01"
        )
        for number in range(100):
            key, value = f"k{number % 5}".encode(), f"v{number}".encode()
            data = PartitionProduceData(index=0, records=bytes(encode_batch([Record(0, EPOCH_MS, key, value)])))
            request = ProduceRequest(
                acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="accounts", partition_data=[data])]
            )
            await connection.call(request, ProduceResponse, version=PRODUCE_VERSION)
        log = broker.replicas.find("accounts", 0).log
        assert log is not None
        before = log.size_bytes
        await asyncio.sleep(60)
        assert log.size_bytes < before / 3
        kept = await read_records(connection, "accounts")
        assert [(record.offset, record.value) for record in kept[-5:]] == [(n, b"v%d" % n) for n in range(95, 100)]
        assert len(kept) < 15
        await machine.stop()

    simulate(scenario)
