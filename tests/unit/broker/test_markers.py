"""Markers on a partition whose leadership comes and goes while they are replicated."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millstream.broker.cluster_view import FULL, ClusterView
from millstream.broker.markers import Marker, Markers
from millstream.coordination.transactions.events import WriteMarkers
from millstream.model.errors import ErrorCode
from millstream.model.ids import TRANSACTION_STATE, TopicPartition
from millstream.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.unit.coordination.test_driver import Ground, on_virtual_time

MARKER = Marker(producer_id=7, producer_epoch=0, is_commit=True, coordinator_epoch=0, version=0)


def markers_on(ground: Ground) -> Markers:
    stage = ground.stage
    broker = SimpleNamespace(
        id=0,
        clock=stage.clock,
        workers=stage.workers,
        purgatory=stage.purgatory,
        replicas=SimpleNamespace(find=lambda topic, partition: ground.partition),
    )
    return Markers(cast("Any", broker))


@on_virtual_time
async def test_a_marker_is_written_once_the_replicas_have_it() -> None:
    ground = Ground(isr=(0, 1))
    writing = asyncio.ensure_future(markers_on(ground).write(MARKER, [ground.partition.topic_partition]))
    await asyncio.sleep(1)
    assert not writing.done()
    ground.partition.fetched_by(1, 1)
    assert await writing == {ground.partition.topic_partition: ErrorCode.NONE}


@on_virtual_time
async def test_a_marker_that_was_perhaps_cut_off_is_not_written_whatever_the_watermark_says() -> None:
    """Another leads, and its records come as far as where the marker was; then this broker leads again."""
    ground = Ground(isr=(0, 1))
    writing = asyncio.ensure_future(markers_on(ground).write(MARKER, [ground.partition.topic_partition]))
    await asyncio.sleep(1)
    ground.lead(2, isr=(0, 1), leader=1)
    ground.lead(3, isr=(0,))
    assert ground.partition.high_watermark == 1
    assert await writing == {ground.partition.topic_partition: ErrorCode.NOT_LEADER_OR_FOLLOWER}


@on_virtual_time
async def test_a_marker_that_the_replicas_do_not_take_in_time_is_to_be_written_again() -> None:
    ground = Ground(isr=(0, 1))
    assert await markers_on(ground).write(MARKER, [ground.partition.topic_partition]) == {
        ground.partition.topic_partition: ErrorCode.REQUEST_TIMED_OUT
    }


def shown(name: str, topic_id: bytes, partitions: int) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(
        topic_name=name,
        topic_id=topic_id,
        partition_states=[
            UpdateMetadataPartitionState(partition_index=index, leader=1, isr=[1], replicas=[1])
            for index in range(partitions)
        ],
    )


def told(controller_epoch: int, broker_epoch: int, *topics: UpdateMetadataTopicState) -> UpdateMetadataRequest:
    """All that a controller says of a cluster in which there are the transactions' own topic and these."""
    return UpdateMetadataRequest(
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        type=FULL,
        topic_states=[shown(TRANSACTION_STATE, b"t" * 16, 1), *topics],
    )


@on_virtual_time
async def test_a_topic_is_gone_only_when_the_controller_that_told_our_roles_does_not_show_it() -> None:
    """It may have been made under that controller, or while we were away, and be told of after our part in it."""
    here: list[str] = []
    replicas = SimpleNamespace(controller_epoch=2, told_epoch=70, of_topic=lambda topic: here)
    broker = SimpleNamespace(id=0, cluster=ClusterView(), replicas=replicas)
    markers = Markers(cast("Any", broker))
    key = TopicPartition("orders", 0)

    async def outcome() -> ErrorCode:
        order = WriteMarkers("tx", 7, 0, True, 0, 0, frozenset({key}))
        return (await markers.perform(order)).results[key]

    for controller_epoch, broker_epoch in ((1, 60), (1, 70), (2, 60)):
        broker.cluster = ClusterView()
        broker.cluster.update(told(controller_epoch, broker_epoch))
        assert await outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.cluster.update(told(2, 70))
    here.append("its part")
    assert await outcome() is ErrorCode.NOT_LEADER_OR_FOLLOWER, "it is here, and yet to be shown"
    here.clear()
    assert await outcome() is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@on_virtual_time
async def test_a_partition_that_a_topic_of_the_name_does_not_have_any_more_is_gone() -> None:
    """The topic was made anew with fewer partitions, and this broker has a part in it."""
    old, new, key = b"o" * 16, b"n" * 16, TopicPartition("orders", 5)
    here: list[SimpleNamespace] = []
    replicas = SimpleNamespace(controller_epoch=2, told_epoch=70, of_topic=lambda topic: here)
    broker = SimpleNamespace(id=0, cluster=ClusterView(), replicas=replicas)

    async def outcome(shown_id: bytes, part_id: bytes, part: int) -> ErrorCode:
        here[:] = [SimpleNamespace(topic_id=part_id, topic_partition=TopicPartition("orders", part))]
        broker.cluster.update(told(2, 70, shown("orders", shown_id, 3)))
        order = WriteMarkers("tx", 7, 0, True, 0, 0, frozenset({key}))
        return (await Markers(cast("Any", broker)).perform(order)).results[key]

    assert await outcome(old, new, part=0) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "the new topic is yet to be shown"
    assert await outcome(new, new, part=5) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "it was widened, as we know ourselves"
    assert await outcome(new, new, part=0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
