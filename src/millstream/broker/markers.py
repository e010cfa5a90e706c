"""Markers: how a transaction ended, written into its partitions by the brokers that lead them."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from millstream.broker.admissions import by_topic
from millstream.controller.interface import NO_LEADER
from millstream.coordination.transactions.events import MarkersWritten, WriteMarkers
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from millstream.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from millstream.replication.partition import Partition

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

#: How long one round of markers waits for the replicas; then whoever ordered them tries again.
WAIT_MS = 5_000


class Marker(NamedTuple):
    """The end of a producer's transaction."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    #: Of transactions: from 2 on, a marker's epoch is above that of the records it ends.
    version: int


class Owed(NamedTuple):
    """A marker that was appended, and must be safe up to an offset before that is told."""

    partition: Partition
    end_offset: int
    #: The role's at the append: whoever has followed since may hold other records there.
    term: int


class Markers:
    """Writes markers to the partitions led here, and carries out a coordinator's orders for them."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def perform(self, order: WriteMarkers) -> MarkersWritten:
        """Have every partition's leader write the marker; what became of each."""
        marker = Marker(*order[1:6])
        results: dict[TopicPartition, ErrorCode] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in order.partitions:
            leader = self._leader(partition)
            if isinstance(leader, ErrorCode):
                results[partition] = leader
            else:
                by_leader.setdefault(leader, []).append(partition)
        led_here = by_leader.pop(self._broker.id, [])
        asked = [
            asyncio.ensure_future(self._ask(leader, marker, partitions))
            for leader, partitions in sorted(by_leader.items())
        ]
        written = [await self.write(marker, led_here)]
        written += [await each for each in asked]
        for partition, code in (row for rows in written for row in rows.items()):
            # The cluster has this partition: it is only that its leader has not been told of its part in it yet.
            is_to_come = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER if is_to_come else code
        return MarkersWritten(order.transactional_id, order.producer_id, order.producer_epoch, results)

    async def _ask(
        self, leader: int, marker: Marker, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Have another broker write the marker; whoever does not answer may not lead any more."""
        results = dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        row = WritableTxnMarker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            transaction_result=marker.is_commit,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(partitions).items()
            ],
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.version,
        )
        if leader != NO_LEADER:
            try:
                answer: WriteTxnMarkersResponse = await self._broker.channels.send(
                    leader, WriteTxnMarkersRequest(markers=[row]), timeout_ms=2 * WAIT_MS
                )
            except OSError:
                return results
            for topic in (topic for found in answer.markers for topic in found.topics):
                for each in topic.partitions:
                    results[TopicPartition(topic.name, each.partition_index)] = ErrorCode(each.error_code)
        return results

    async def write(self, marker: Marker, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Write the marker to partitions led here, and wait until it is safe there."""
        results: dict[TopicPartition, ErrorCode] = {}
        owed: list[Owed] = []
        for topic_partition in partitions:
            try:
                owed.append(self._append(topic_partition, marker))
                results[topic_partition] = ErrorCode.NONE
            except ProtocolError as refusal:
                results[topic_partition] = refusal.code
        if any(each.partition.safe_offset < each.end_offset for each in owed):
            await self._settle(owed, results)
        return results

    def _append(self, topic_partition: TopicPartition, marker: Marker) -> Owed:
        """Append to one partition, and where it must be safe up to; a group's offsets are settled in the same turn."""
        if topic_partition.topic == CONSUMER_OFFSETS:
            shard = self._broker.groups.shard(topic_partition.partition)
            end_offset = shard.end_transaction(
                marker.producer_id,
                marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                version=marker.version,
            )
            return Owed(shard.partition, end_offset, shard.partition.role.term)
        partition = self._broker.replicas.find(*topic_partition)
        outcome = partition.append_marker(*marker[:4], self._broker.clock.now_ms(), marker.version)
        return Owed(partition, outcome.last_offset + 1, partition.role.term)

    async def _settle(self, owed: list[Owed], results: dict[TopicPartition, ErrorCode]) -> None:
        for partition, _, _ in owed:
            try:
                await partition.flushed(self._broker.workers)
            except ProtocolError as refusal:
                results[partition.topic_partition] = refusal.code
        await self._broker.purgatory.until(
            lambda: all(partition.is_settled(end_offset, term) for partition, end_offset, term in owed),
            watching=[each.partition for each in owed],
            timeout_ms=WAIT_MS,
        )
        for partition, end_offset, term in owed:
            if partition.role.term != term:
                results[partition.topic_partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif partition.high_watermark < end_offset:
                results[partition.topic_partition] = ErrorCode.REQUEST_TIMED_OUT

    def _leader(self, partition: TopicPartition) -> int | ErrorCode:
        """The broker that leads it, or that there is no such partition any more.

        A controller tells roles first, so we may coordinate already, or lead the partition itself, and know only what
        the controller before told, or what was so before we were away.  What a view of today does not show is gone,
        unless our own part tells of more.
        """
        view, replicas = self._broker.cluster, self._broker.replicas
        state = view.leadership(*partition)
        if state is not None:
            return state.leader
        is_of_today = view.is_as_new_as(replicas.controller_epoch, replicas.told_epoch)
        is_whole = is_of_today and TRANSACTION_STATE in view.topics and not self._is_yet_to_be_shown(partition)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_whole else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _is_yet_to_be_shown(self, partition: TopicPartition) -> bool:
        """Whether we have a part in the partition itself, or in a topic of that name which the view does not show.

        A part in others of a topic that it does show tells nothing.  Where that one is being widened the view may be
        late, but not for what is in a transaction: we add only what the view shows or what we lead, and one that
        coordinated before us added nothing that the controller had not told us of before it gave us that part.
        """
        shown = self._broker.cluster.topics.get(partition.topic)
        return any(
            shown is None or part.topic_id != shown.topic_id or part.topic_partition == partition
            for part in self._broker.replicas.of_topic(partition.topic)
        )
