"""Markers on a partition whose leadership comes and goes while they are replicated."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millstream.broker.markers import Marker, Markers
from millstream.model.errors import ErrorCode
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
