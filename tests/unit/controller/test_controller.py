"""The controller of one broker on a real tree: what its callers rely on.  Stories of several are in scenarios."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.controller.controller import Controller
from millstream.controller.interface import NO_LEADER, ControllerSettings, MorePartitions, NewTopic
from millstream.controller.writes import WRITES_PER_MULTI
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from millstream.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest
from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.membership import lay_out, register_broker
from millstream.registry.nodes import (
    OVERRIDES,
    PARTITION,
    PARTITION_STATE,
    PARTITIONS,
    TOPIC,
    BrokerRegistration,
    Endpoint,
    PartitionState,
    TopicAssignment,
)
from millstream.registry.store import MEMORY
from tests.simulation.loop import SimClock, SimLoop


class OwnBroker:
    """A broker that does whatever it is told, once it is let."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: Exception | None = None
        #: By kind of order, each raised once.
        self.failures: dict[type[Any], Exception] = {}

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        await self.may_answer.wait()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if type(request) in self.failures:
            raise self.failures.pop(type(request))
        self.heard.append(request)
        return request.RESPONSE()


class Returning(OwnBroker):
    """As broker 1 it is slow to say that an order to delete was for its life before."""

    def __init__(self) -> None:
        super().__init__()
        self.may_refuse = asyncio.Event()

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        if broker_id == 1 and isinstance(request, StopReplicaRequest) and not self.may_refuse.is_set():
            await self.may_refuse.wait()
            return StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        return await super().send(broker_id, request, timeout_ms=timeout_ms)


class Single:
    """A cluster of one."""

    def __init__(
        self, path: str = MEMORY, settings: ControllerSettings | None = None, broker: OwnBroker | None = None
    ) -> None:
        self.tree = EmbeddedTree(path, call_soon=asyncio.get_running_loop().call_soon)
        self.registry: EmbeddedRegistry = self.tree.session()
        self.broker = broker or OwnBroker()
        self.controller = Controller(
            0,
            self.registry,
            SimClock(asyncio.get_running_loop()),
            random.Random(1),
            self.broker,
            settings or ControllerSettings(),
        )

    async def start(self) -> "Single":
        await lay_out(self.registry)
        await register_broker(self.registry, 0, BrokerRegistration((Endpoint("PLAINTEXT", "localhost", 9092),)))
        await self.controller.start()
        return self

    async def stop(self) -> None:
        await self.controller.close()
        await self.registry.close()
        await self.tree.close()


def on_one_broker(scenario: Callable[[Single], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        single = await Single().start()
        await scenario(single)
        await single.stop()

    def test() -> None:
        with asyncio.Runner(loop_factory=SimLoop) as runner:
            runner.run(run())

    test.__doc__ = scenario.__doc__
    return test


def run(scenario: Awaitable[None]) -> None:
    async def wrapped() -> None:
        await scenario

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(wrapped())


@on_one_broker
async def test_when_start_returns_the_broker_was_told_everything(single: Single) -> None:
    assert single.controller.is_active
    assert single.controller.epoch == 1
    assert [type(request) for request in single.broker.heard] == [LeaderAndIsrRequest, UpdateMetadataRequest]


@on_one_broker
async def test_a_creation_is_answered_when_the_broker_knows_the_topic(single: Single) -> None:
    single.broker.may_answer.clear()
    call = asyncio.create_task(single.controller.create_topics([NewTopic("orders")]))
    await asyncio.sleep(1)
    assert not call.done()
    single.broker.may_answer.set()
    (result,) = await call
    assert (result.num_partitions, result.replication_factor) == (1, 1)
    assert single.broker.heard[-1].topic_states[0].topic_id == result.topic_id != ZERO_UUID


@on_one_broker
async def test_one_request_creates_what_it_can(single: Single) -> None:
    results = await single.controller.create_topics(
        [NewTopic("a.b"), NewTopic("c"), NewTopic("c"), NewTopic("a_b"), NewTopic("d", configs={"retention.ms": None})]
    )
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_CONFIG,
    ]
    assert await single.registry.children("/brokers/topics") == ["a.b"]
    told = [request for request in single.broker.heard if isinstance(request, LeaderAndIsrRequest)]
    assert len(told) == 2, "one request for all the topics of a call"


@on_one_broker
async def test_validating_only_writes_and_tells_nothing(single: Single) -> None:
    heard = len(single.broker.heard)
    (result,) = await single.controller.create_topics([NewTopic("orders", 3)], validate_only=True)
    assert (result.error_code, result.num_partitions, result.topic_id) == (ErrorCode.NONE, 3, ZERO_UUID)
    await single.controller.create_topics([NewTopic("orders")])
    (result,) = await single.controller.create_partitions([MorePartitions("orders", 5)], validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert await single.registry.children("/brokers/topics/orders/partitions") == ["0"]
    assert len(single.broker.heard) == heard + 2


@on_one_broker
async def test_topics_are_deleted_by_name_and_by_id(single: Single) -> None:
    created = await single.controller.create_topics([NewTopic("a"), NewTopic("b")])
    results = await single.controller.delete_topics(["a", created[1].topic_id, "c", bytes(16)])
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert results[1].name == "b"
    assert await single.registry.children("/brokers/topics") == []
    (again,) = await single.controller.create_topics([NewTopic("a")])
    assert again.topic_id != created[0].topic_id


@on_one_broker
async def test_a_topic_named_twice_by_name_or_id_is_deleted_by_neither(single: Single) -> None:
    created = await single.controller.create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")])
    results = await single.controller.delete_topics(["a", created[1].topic_id, "a", "b", "c"])
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 4 + [ErrorCode.NONE]
    assert await single.registry.children("/brokers/topics") == ["a", "b"]


@on_one_broker
async def test_a_deletion_that_the_broker_fails_at_is_answered(single: Single) -> None:
    await single.controller.create_topics([NewTopic("a")])
    single.broker.failures = {StopReplicaRequest: AssertionError("a bug")}
    (result,) = await asyncio.wait_for(single.controller.delete_topics(["a"]), 10)
    assert result.error_code is ErrorCode.NONE
    assert await single.registry.children("/admin/delete_topics") == ["a"]


@on_one_broker
async def test_a_replica_whose_role_the_broker_fails_at_has_no_leader(single: Single) -> None:
    single.broker.failures = {LeaderAndIsrRequest: AssertionError("a bug")}
    await single.controller.create_topics([NewTopic("a")])
    await asyncio.sleep(1)
    (topic,) = single.broker.heard[-1].topic_states
    (state,) = topic.partition_states
    assert (state.leader, state.isr, state.offline_replicas) == (NO_LEADER, [0], [0])


@on_one_broker
async def test_a_topic_wider_than_one_transaction_is_created_and_deleted_whole(single: Single) -> None:
    count = WRITES_PER_MULTI + 7
    (result,) = await single.controller.create_topics([NewTopic("wide", count)])
    assert result.num_partitions == count
    keys = [TopicPartition("wide", number) for number in range(count)]
    nodes = await single.registry.get_many([PARTITION_STATE.path(*key) for key in keys])
    assert None not in nodes
    await single.controller.delete_topics(["wide"])
    assert await single.registry.children("/brokers/topics") == []
    assert await single.registry.children("/config/topics") == []


@on_one_broker
async def test_a_creation_cut_short_by_a_crash_is_finished_by_the_next_controller(single: Single) -> None:
    await single.controller.create_topics([NewTopic("orders", 3)])
    await single.controller.close()
    for path in ("/brokers/topics/orders/partitions/2/state", "/brokers/topics/orders/partitions/2"):
        await single.registry.delete(path)  # As if the second transaction had never come.
    await single.controller.start()
    state = PARTITION_STATE.decode((await single.registry.get("/brokers/topics/orders/partitions/2/state")).data)
    assert (state.leader, state.leader_epoch, state.controller_epoch) == (0, 0, 2)
    assert len(single.broker.heard[-1].topic_states[0].partition_states) == 3


@on_one_broker
async def test_a_topic_without_id_or_settings_gets_an_id_and_can_be_deleted(single: Single) -> None:
    """As it is found where another broker's folders were taken over."""
    await single.controller.close()
    for name in ("old", "older"):
        await single.registry.create(TOPIC.path(name), TOPIC.encode(TopicAssignment(ZERO_UUID, {0: (0,)})))
        await single.registry.create(f"{TOPIC.path(name)}/partitions")
    await single.controller.start()
    nodes = await single.registry.get_many([TOPIC.path("old"), TOPIC.path("older")])
    ids = {TOPIC.decode(node.data).topic_id for node in nodes if node is not None}
    assert len(ids) == 2 and ZERO_UUID not in ids
    results = await single.controller.delete_topics(["old", "older"])
    assert [result.error_code for result in results] == [ErrorCode.NONE, ErrorCode.NONE]
    assert await single.registry.children("/brokers/topics") == []


@on_one_broker
async def test_settings_left_behind_are_replaced_when_the_topic_is_created(single: Single) -> None:
    await single.registry.create("/config/topics/orders", OVERRIDES.encode({"retention.ms": "1"}))
    (result,) = await single.controller.create_topics([NewTopic("orders", configs={"retention.ms": "2"})])
    assert result.error_code == ErrorCode.NONE
    node = await single.registry.get("/config/topics/orders")
    assert OVERRIDES.decode(node.data) == {"retention.ms": "2"}


@on_one_broker
async def test_a_caller_who_gives_up_does_not_interrupt_the_controller(single: Single) -> None:
    single.broker.may_answer.clear()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(single.controller.create_topics([NewTopic("orders")]), 0.1)
    single.broker.may_answer.set()
    (result,) = await single.controller.create_topics([NewTopic("orders")])
    assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert (await single.controller.delete_topics(["orders"]))[0].error_code == ErrorCode.NONE


@on_one_broker
async def test_a_request_without_an_answer_is_sent_again(single: Single) -> None:
    single.broker.failure = ConnectionResetError()
    (result,) = await single.controller.create_topics([NewTopic("orders")])
    assert result.error_code == ErrorCode.NONE
    assert [type(request) for request in single.broker.heard[-2:]] == [LeaderAndIsrRequest, UpdateMetadataRequest]


@on_one_broker
async def test_a_closed_controller_is_no_controller(single: Single) -> None:
    await single.controller.close()
    assert not single.controller.is_active
    assert await single.registry.exists("/controller") is None
    with pytest.raises(ProtocolError) as caught:
        await single.controller.create_topics([NewTopic("orders")])
    assert caught.value.code == ErrorCode.NOT_CONTROLLER


@on_one_broker
async def test_a_controller_whose_node_was_taken_away_stands_again_with_a_new_epoch(single: Single) -> None:
    await single.registry.delete("/controller")
    await asyncio.sleep(1)
    assert single.controller.is_active
    assert single.controller.epoch == 2


@on_one_broker
async def test_a_write_behind_its_back_makes_the_controller_read_everything_anew(single: Single) -> None:
    await single.controller.create_topics([NewTopic("orders")])
    node = await single.registry.get(TOPIC.path("orders"))
    await single.registry.set(TOPIC.path("orders"), node.data)
    with pytest.raises(ProtocolError):
        await single.controller.create_partitions([MorePartitions("orders", 2)])
    assert single.controller.epoch == -1
    await asyncio.sleep(1)
    assert single.controller.epoch == 2
    (result,) = await single.controller.create_partitions([MorePartitions("orders", 2)])
    assert result.error_code == ErrorCode.NONE


async def add_orders(single: Single, state: PartitionState) -> None:
    """A topic of brokers 0 and 1, as an earlier controller left it."""
    for path, data in (
        (TOPIC.path("orders"), TOPIC.encode(TopicAssignment(bytes(15) + b"1", {0: (0, 1)}))),
        (PARTITIONS.path("orders"), b""),
        (PARTITION.path("orders", 0), b""),
        (PARTITION_STATE.path("orders", 0), PARTITION_STATE.encode(state)),
    ):
        await single.registry.create(path, data)


def test_a_setting_is_heard_of_before_a_disk_s_failure_is_judged() -> None:
    """With fewer replicas that must be in sync, whoever leads next commits alone, and nobody else is eligible then."""
    least = {"told": 2, "heard": 2}

    async def hear() -> None:
        least["heard"] = least["told"]

    async def scenario() -> None:
        single = Single(settings=ControllerSettings(min_in_sync=lambda topic: least["heard"], refresh=hear))
        await lay_out(single.registry)
        other = single.tree.session()
        await register_broker(other, 1, BrokerRegistration((Endpoint("PLAINTEXT", "other", 9092),), is_clean=True))
        await add_orders(single, PartitionState(0, 4, (0,), controller_epoch=1, eligible=(1,)))
        await register_broker(
            single.registry, 0, BrokerRegistration((Endpoint("PLAINTEXT", "localhost", 9092),), is_clean=True)
        )
        await single.controller.start()
        least["told"] = 1
        await single.controller.replicas_failed(0, [TopicPartition("orders", 0)])
        after = PARTITION_STATE.decode((await single.registry.get(PARTITION_STATE.path("orders", 0))).data)
        assert (after.leader, after.isr, after.eligible) == (1, (1,), ())
        await single.stop()

    run(scenario())


def test_a_new_controller_reads_the_settings_of_topics_that_its_broker_has_not_heard_of() -> None:
    heard: dict[str, bool] = {}

    async def hear(topics: list[str]) -> None:
        heard.update(dict.fromkeys(topics, False))

    async def scenario() -> None:
        allowed = ControllerSettings(unclean_allowed=lambda topic: heard.get(topic, True), load=hear)
        single = Single(settings=allowed)
        await lay_out(single.registry)
        await add_orders(single, PartitionState(1, 4, (1,), controller_epoch=1))
        await register_broker(single.registry, 0, BrokerRegistration((Endpoint("PLAINTEXT", "localhost", 9092),)))
        await single.controller.start()
        after = PARTITION_STATE.decode((await single.registry.get(PARTITION_STATE.path("orders", 0))).data)
        assert (after.leader, after.isr) == (NO_LEADER, (1,))
        await single.controller.create_topics([NewTopic("payments")])
        assert heard == {"orders": False, "payments": False}
        await single.stop()

    run(scenario())


def test_what_a_broker_answered_in_an_earlier_life_does_not_halt_a_deletion() -> None:
    async def scenario() -> None:
        may_hear = asyncio.Event()
        may_hear.set()

        async def hear() -> None:
            await may_hear.wait()

        broker = Returning()
        single = Single(settings=ControllerSettings(refresh=hear), broker=broker)
        await lay_out(single.registry)
        registration = BrokerRegistration((Endpoint("PLAINTEXT", "other", 9092),), is_clean=True)
        other = single.tree.session()
        await register_broker(other, 1, registration)
        await add_orders(single, PartitionState(0, 4, (0, 1), controller_epoch=1))
        await single.start()
        deletion = asyncio.create_task(single.controller.delete_topics(["orders"]))
        await asyncio.sleep(2)
        may_hear.clear()
        await other.close()
        await register_broker(single.tree.session(), 1, registration)
        await asyncio.sleep(2)
        broker.may_refuse.set()  # While the controller is about to hear of the new life.
        await asyncio.sleep(2)
        may_hear.set()
        await asyncio.wait_for(deletion, 10)
        await asyncio.sleep(2)
        assert await single.registry.children("/brokers/topics") == []
        await single.stop()

    run(scenario())


def test_deletion_may_be_switched_off() -> None:
    async def scenario() -> None:
        single = await Single(settings=ControllerSettings(delete_topic_enable=False)).start()
        await single.controller.create_topics([NewTopic("orders")])
        (result,) = await single.controller.delete_topics(["orders"])
        assert result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        await single.stop()

    run(scenario())


def test_defaults_come_from_the_settings() -> None:
    async def scenario() -> None:
        single = await Single(settings=ControllerSettings(num_partitions=4, default_replication_factor=2)).start()
        asked = [NewTopic("orders"), NewTopic("narrow", replication_factor=1)]
        refused, created = await single.controller.create_topics(asked)
        assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert created.num_partitions == 4
        await single.stop()

    run(scenario())


def test_a_failing_disk_refuses_the_creation_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        single = await Single(str(tmp_path / "registry.db")).start()
        real = os.fdatasync

        def broken(fd: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fdatasync", broken)
        with pytest.raises(ProtocolError) as caught:
            await single.controller.create_topics([NewTopic("orders")])
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        monkeypatch.setattr(os, "fdatasync", real)
        await single.stop()

    run(scenario())


def test_a_full_disk_refuses_the_creation_until_there_is_space(tmp_path: Path) -> None:
    async def scenario() -> None:
        single = await Single(str(tmp_path / "registry.db")).start()
        database = single.tree._store._db
        database.execute("PRAGMA max_page_count = 1")  # SQLite takes the pages it has, and reports a full disk beyond.
        with pytest.raises(ProtocolError) as caught:
            await single.controller.create_topics([NewTopic("orders", 500)])
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "disk is full" in caught.value.detail
        database.execute("PRAGMA max_page_count = 100000")
        await asyncio.sleep(60)
        (result,) = await single.controller.create_topics([NewTopic("orders", 500)])
        assert result.error_code == ErrorCode.NONE
        await single.stop()

    run(scenario())
