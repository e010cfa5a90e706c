"""Fetch (API 1): record batches from an offset on, as slices of segment files."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from millstream.broker.broker import Broker
from millstream.broker.connection import Call, ClientConnection
from millstream.config import replication as settings
from millstream.metrics.traffic import TopicTraffic
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from millstream.replication.fetch_sessions import NO_SESSION, Key, View, Wanted
from millstream.replication.history import HistoryReader
from millstream.replication.nearest import nearest_replica
from millstream.replication.partition import NO_EPOCH, Partition
from millstream.replication.serving import grouped
from millstream.storage.log import Log

READ_COMMITTED = 1
#: From this version on consumers may read from followers, and say where they stand.
NEAREST_FROM_VERSION = 11
#: From this version on they are told where the leader is that they should ask instead.
ENDPOINTS_FROM_VERSION = 16
#: Up to here it is cheaper to read records and send them with their header than to have the kernel send a file.
SMALL_BYTES = 16 * 1024
#: Refusals that tell a client to look for another leader.
LOST = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


async def handle(broker: Broker, request: FetchRequest, call: Call) -> FetchResponse:
    """Answer what is there; with less than min_bytes of it, wait for more until max_wait_ms have passed."""
    state = request.replica_state
    replica_id = request.replica_id if state is None else state.replica_id
    if replica_id >= 0:
        return await _handle_follower(
            broker, request, call, replica_id, NO_EPOCH if state is None else state.replica_epoch
        )
    view = broker.fetch_sessions.view(
        request.session_id, request.session_epoch, _named(request), _forgotten(request), broker.clock.now_ms()
    )
    fetching = Fetching(broker, request, view, call.version)
    fetching.read()
    if not fetching.is_enough() and request.max_wait_ms > 0:
        await broker.purgatory.wait(fetching.has_more, watching=fetching.partitions, timeout_ms=request.max_wait_ms)
    for piece in fetching.pieces:
        if not piece.is_at_hand():
            await piece.warm(broker.workers)
    rest_s = fetching.rest_s(call.connection)
    if rest_s:
        await asyncio.sleep(rest_s)
    response = fetching.answer()
    if fetching.leaders and call.version >= ENDPOINTS_FROM_VERSION:
        response.node_endpoints = [
            NodeEndpoint(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in broker.cluster.endpoints_of(fetching.leaders, call.connection.listener)
        ]
    return response


async def _handle_follower(
    broker: Broker, request: FetchRequest, call: Call, replica_id: int, broker_epoch: int
) -> FetchResponse:
    """As for consumers, but up to the log's end, and by sessions that know which partitions have news."""
    session = broker.serving.session(
        request.session_id, request.session_epoch, replica_id, broker_epoch, lambda: call.connection.is_closed
    )
    session.is_eager = bool(broker.settings.config.get(settings.REPLICA_SELECTOR_CLASS))
    try:
        for key in _forgotten(request):
            session.forget(key)
        for key, wanted in _named(request):
            session.name(key, wanted)
        rows, found = await broker.serving.fetch(
            session, min(request.max_bytes, broker.fetch_bytes_max), request.min_bytes, request.max_wait_ms
        )
    finally:
        if session.id == NO_SESSION:
            session.close()
    for partition, log, offset, records, row, trail in found.values():
        let_go = trail.behind(records)
        if let_go is not None:
            await broker.workers.in_thread(let_go)
        piece = Piece(log, offset, records, row, partition.traffic)
        if not piece.is_at_hand():
            trail.begin(records)
            await piece.warm(broker.workers)
    responses = [
        FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=partitions)
        for (topic, topic_id), partitions in grouped(rows).items()
    ]
    # Whoever copies a long log from us rests a little between two portions while we have company.
    throttle_time_ms = int(broker.company.is_here())
    return FetchResponse(throttle_time_ms=throttle_time_ms, session_id=session.id, responses=responses)


def _named(request: FetchRequest) -> Iterator[tuple[Key, Wanted]]:
    for topic in request.topics:
        for row in topic.partitions:
            wanted = Wanted(
                row.fetch_offset,
                row.partition_max_bytes,
                row.current_leader_epoch,
                row.last_fetched_epoch,
                row.log_start_offset,
            )
            yield Key(topic.topic, topic.topic_id, row.partition), wanted


def _forgotten(request: FetchRequest) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield Key(topic.topic, topic.topic_id, index)


def _is_urgent(row: PartitionData) -> bool:
    """Whether the client must hear of it at once."""
    return row.error_code != 0 or row.diverging_epoch is not None or row.preferred_read_replica >= 0


class Piece(NamedTuple):
    """Records that were found, and the row they answer."""

    log: Log
    offset: int
    records: FileSlice
    row: PartitionData
    traffic: TopicTraffic

    def is_at_hand(self) -> bool:
        """Whether the records can be sent without waiting for a disk; few bytes are read right away."""
        if self.records.length > SMALL_BYTES:
            return self.records.is_cached()
        try:
            data = self.records.read_cached()
        except OSError as error:
            self._lost(error)
            return True
        if data is None:
            return False
        self.row.records = data
        return True

    def _lost(self, error: OSError) -> None:
        self.row.error_code, self.row.records = self.log.directory.fail(error).code, b""

    async def warm(self, workers: Workers) -> None:
        """Bring the records from the disk into memory, in a thread, so that sending them does not hold up the loop.

        Bytes that come from a disk are checked again; damaged ones are refused, never sent.
        """
        try:
            await workers.in_thread(self.log.check, self.records, self.offset)
        except ProtocolError as refusal:
            self.row.error_code, self.row.records = refusal.code, b""
        except OSError as error:
            self._lost(error)


class Fetching:
    """One fetch: the rows read so far, and whether they are enough."""

    __slots__ = (
        "_broker",
        "_is_past_segment",
        "_rack",
        "_reads_from_followers",
        "_request",
        "_rows",
        "_size",
        "_view",
        "leaders",
        "partitions",
        "pieces",
    )

    def __init__(self, broker: Broker, request: FetchRequest, view: View, version: int) -> None:
        self._broker = broker
        self._request = request
        self._view = view
        self._rows: list[tuple[Key, Wanted, PartitionData]] = []
        self._size = 0
        self._is_past_segment = False
        self._reads_from_followers = version >= NEAREST_FROM_VERSION
        #: Where the client stands, if it is to be sent to a replica that stands there too.
        self._rack = ""
        if request.rack_id and broker.settings.config.get(settings.REPLICA_SELECTOR_CLASS):
            self._rack = request.rack_id
        #: Who leads what this broker does not.
        self.leaders: tuple[int, ...] = ()
        self.partitions: list[Partition] = []
        self.pieces: list[Piece] = []

    def read(self) -> None:
        """Read every partition anew, within the bytes the client takes; the first batch is given whatever its size."""
        self._rows.clear()
        self.partitions.clear()
        self.pieces.clear()
        self._size = 0
        left = min(self._request.max_bytes, self._broker.fetch_bytes_max)
        for key, wanted in self._view.items():
            row = self._read_one(key, wanted, left - self._size)
            self._rows.append((key, wanted, row))
            if row.records is not None:
                self._size += len(row.records)

    def has_more(self) -> bool:
        """Read again; whether it is enough now."""
        self.read()
        return self.is_enough()

    def is_enough(self) -> bool:
        """Whether there is no reason to wait: enough bytes, or something the client must hear of at once.

        Records that end with their segment are enough: more are there, and waiting would not bring them closer.
        """
        wanted = min(self._request.min_bytes, self._request.max_bytes)
        return (
            self._size >= wanted
            or self._is_past_segment
            or not self._rows
            or any(_is_urgent(row) for _, _, row in self._rows)
        )

    def rest_s(self, connection: ClientConnection) -> float:
        """How long the answer may wait: history is for whoever has time, while others ask for what is new."""
        if not self._is_past_segment:
            connection.history = None
            return 0.0
        if connection.history is None:
            connection.history = HistoryReader()
        offset = sum(piece.offset for piece in self.pieces)
        end = sum(piece.row.high_watermark for piece in self.pieces)
        is_alone = not self._broker.company.is_here()
        return connection.history.rest_s(self._size, offset, end, connection.now_s(), is_alone=is_alone)

    def answer(self) -> FetchResponse:
        """The rows as the client's version groups them; in a session, only those with news."""
        self._count()
        session = self._view.session
        responses: list[FetchableTopicResponse] = []
        for key, wanted, row in self._rows:
            has_records = row.records is not None and len(row.records) > 0
            if session is not None:
                is_news = wanted.is_news(
                    has_records=has_records,
                    error=_is_urgent(row),
                    high_watermark=row.high_watermark,
                    log_start_offset=row.log_start_offset,
                )
                if not (is_news or self._view.is_full):
                    continue
                if has_records:
                    session.last_shall_be_first(key)
            if not responses or responses[-1].topic != key.topic or responses[-1].topic_id != key.topic_id:
                responses.append(FetchableTopicResponse(topic=key.topic, topic_id=key.topic_id, partitions=[]))
            responses[-1].partitions.append(row)
        return FetchResponse(session_id=self._view.session_id, responses=responses)

    def _count(self) -> None:
        """Count what a consumer is given."""
        for partition in self.partitions:
            partition.traffic.fetches.value += 1
        for piece in self.pieces:
            if piece.row.records is not None:
                piece.traffic.bytes_out.value += len(piece.row.records)

    def _read_one(self, key: Key, wanted: Wanted, left: int) -> PartitionData:
        partition: Partition | None = None
        try:
            replicas = self._broker.replicas
            name = replicas.topic_name(key.topic_id) if key.topic_id != ZERO_UUID else key.topic
            partition = replicas.find(name, key.partition)
            self.partitions.append(partition)
            return self._read_partition(partition, key, wanted, left)
        except ProtocolError as seen:
            refusal = self._broker.standing.vouched(seen)
            if partition is not None:
                partition.traffic.failed_fetches.value += 1
            row = PartitionData(partition_index=key.partition, error_code=refusal.code, high_watermark=-1, records=b"")
            if partition is not None and refusal.code in LOST:
                leadership = partition.role.leadership
                self.leaders = (*self.leaders, leadership.leader)
                row.current_leader = LeaderIdAndEpoch(leader_id=leadership.leader, leader_epoch=leadership.leader_epoch)
            return row

    def _read_partition(self, partition: Partition, key: Key, wanted: Wanted, left: int) -> PartitionData:
        if self._reads_from_followers:
            log = partition.replica_log(wanted.current_leader_epoch)
        else:
            log = partition.leader_log(wanted.current_leader_epoch)
        aborted: list[AbortedTransaction] | None = None
        if self._request.isolation_level == READ_COMMITTED:
            upper = stable_offset = partition.last_stable_offset
            aborted = []
        else:
            upper, stable_offset = partition.high_watermark, partition.last_stable_offset
        row = PartitionData(
            partition_index=key.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            divergence = partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
            if divergence is not None:
                row.diverging_epoch = EpochEndOffset(epoch=divergence.epoch, end_offset=divergence.end_offset)
                return row
        if self._rack and (leading := partition.role.leading) is not None:
            nearest = nearest_replica(leading, self._broker.cluster.racks(), self._rack, wanted.fetch_offset)
            if nearest is not None:
                row.preferred_read_replica = nearest
                return row
        if left <= 0 and self.pieces:
            return row  # The answer is full; this partition's turn comes with the next fetch.
        records = partition.read(log, wanted.fetch_offset, max(0, min(wanted.bytes_max, left)), upper)
        if records is not None and (records.length <= left or not self.pieces):
            self._is_past_segment |= wanted.fetch_offset < log.segments.active.base_offset
            row.records = records
            if row.aborted_transactions is not None:
                row.aborted_transactions = [
                    AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                    for each in log.aborted_within(records, wanted.fetch_offset, upper)
                ]
            self.pieces.append(Piece(log, wanted.fetch_offset, records, row, partition.traffic))
        return row
