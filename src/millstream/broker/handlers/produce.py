"""Produce (API 0): append record batches to partitions this broker leads."""

from collections.abc import Callable
from contextlib import suppress

from millstream.broker.broker import Broker
from millstream.broker.connection import Call, Disconnect
from millstream.broker.handlers.verifying import Verifying
from millstream.broker.refused_batches import SENT_AGAIN, Place, RefusedBatches
from millstream.model.batch import ATTRIBUTES_AT, COMPRESSION_MASK, TRANSACTIONAL, BatchHeader, header_at
from millstream.model.compression import ZSTD
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from millstream.replication import admission
from millstream.replication.partition import ALL_IN_SYNC, Partition
from millstream.storage.ahead import WriteAhead, write_all
from millstream.storage.log import Log
from millstream.storage.verification import Verification

NO_ACKS = 0
LEADER_ONLY = 1
ACKS = (NO_ACKS, LEADER_ONLY, ALL_IN_SYNC)
#: Requests from this size on are written by a thread while somebody else asks for something.
LARGE_BYTES = 64 * 1024
#: From this size on, records that must be looked at one by one are looked at in a thread.
OFF_LOOP_BYTES = 16 * 1024
ZSTD_FROM_VERSION = 7
#: From here on a client is told who leads what this broker does not.
LEADERS_FROM_VERSION = 10
#: The byte of a batch that names its codec.
LAST_ATTRIBUTES_AT = ATTRIBUTES_AT + 1
BEHIND_A_REFUSED = "a batch that was sent before this one was refused"

#: A partition, its log, and the batch to append to it, under what it begins a transaction.
Admitted = tuple[Partition, Log, memoryview, BatchHeader, Verification | None]
#: A partition whose append the answer waits for, up to which offset, in which term, and its row of the answer.
Owed = tuple[Partition, int, int, PartitionProduceResponse]


async def handle(broker: Broker, request: ProduceRequest, call: Call) -> ProduceResponse | None:
    """Append every batch, then hold the answer until enough replicas have them.

    One partition's refusal never spoils another's append, so refusals are rows of the answer here, not exceptions.
    """
    appending = Appending(broker, request, call.version, call.connection.refused_batches)
    costly = appending.costly_to_look_at()
    is_in_the_way = call.frame_bytes > LARGE_BYTES and broker.company.has_others(call.connection)
    try:
        if request.transactional_id is not None or costly or is_in_the_way:
            await appending.prepare(costly, call, is_in_the_way=is_in_the_way)
        responses = []
        for topic in request.topic_data:
            rows = []
            for data in topic.partition_data:
                try:
                    rows.append(appending.append(topic, data))
                except ProtocolError as refusal:
                    rows.append(appending.refused(topic, data, refusal))
            responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=rows))
    finally:
        if appending.let_frame_go is not None:
            appending.let_frame_go()
    if appending.owed:
        await appending.settle()
    if request.acks == NO_ACKS:
        appending.raise_if_refused()  # Silence is promised; a refusal closes the connection.
        return None
    response = ProduceResponse(responses=responses)
    if appending.has_lost and call.version >= LEADERS_FROM_VERSION:
        _name_leaders(broker, response, call.connection.listener)
    return response


def _name_leaders(broker: Broker, response: ProduceResponse, listener: str) -> None:
    """Say who leads the partitions that this broker does not, and where it is, so that nobody need ask (KIP-951)."""
    leaders = set()
    for topic in response.responses:
        name = topic.name or broker.cluster.name_of(topic.topic_id) or ""
        for row in topic.partition_responses:
            known = broker.cluster.leadership(name, row.index)
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and known is not None and known.leader != broker.id:
                row.current_leader = LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
                leaders.add(known.leader)
    response.node_endpoints = [
        NodeEndpoint(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
        for each in broker.cluster.endpoints_of(leaders, listener)
    ]


class Appending:
    """One request's appends: what was refused, and what the answer must wait for."""

    __slots__ = (
        "_acks",
        "_broker",
        "_guards",
        "_headers",
        "_looked_at",
        "_now_ms",
        "_refusals",
        "_refused_batches",
        "_request",
        "_rows",
        "_version",
        "has_lost",
        "let_frame_go",
        "owed",
    )

    def __init__(self, broker: Broker, request: ProduceRequest, version: int, refused_batches: RefusedBatches) -> None:
        self._broker = broker
        self._request = request
        self._acks = request.acks
        self._version = version
        self._refused_batches = refused_batches
        self._now_ms = broker.clock.now_ms()
        #: Why batches are refused; a mistake of our own among them ends the request, as it would have at once.
        self._refusals: dict[int, Exception] = {}
        #: What a batch that begins a transaction is appended under.
        self._guards: dict[int, Verification] = {}
        self._looked_at: set[int] = set()
        #: Of batches that a thread writes: their headers, and the rows of those that were appended since.
        self._headers: dict[int, BatchHeader] = {}
        self._rows: dict[int, PartitionProduceResponse] = {}
        #: To be called when the bytes of the request are needed no longer.
        self.let_frame_go: Callable[[], None] | None = None
        self.owed: list[Owed] = []
        #: Whether another broker leads some of the partitions.
        self.has_lost = False

    def refused(
        self, topic: TopicProduceData, data: PartitionProduceData, refusal: ProtocolError
    ) -> PartitionProduceResponse:
        """The row that says why a batch was not taken."""
        with suppress(ProtocolError):  # Of a topic that is not here nothing is counted.
            traffic = self._find(topic, data).traffic
            traffic.produces.value += 1
            traffic.failed_produces.value += 1
        refusal = self._as_before(topic, data, self._broker.standing.vouched(refusal))
        self._refusals[id(data)] = refusal
        self.has_lost |= refusal.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionProduceResponse(
            index=data.index, error_code=refusal.code, base_offset=-1, error_message=refusal.detail or None
        )

    def _as_before(self, topic: TopicProduceData, data: PartitionProduceData, refusal: ProtocolError) -> ProtocolError:
        """The refusal of a batch before this one, where that is why this one is out of order."""
        is_gap = refusal.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if data.records is None or not (refusal.code in SENT_AGAIN or (is_gap and self._refused_batches)):
            return refusal
        try:
            header = self._headers.get(id(data)) or admission.checked_batch(data.records)
        except ProtocolError:
            return refusal
        place, now_s = _place(topic, data), self._broker.clock.monotonic_s()
        if not is_gap:
            self._refused_batches.note(place, header, refusal.code, now_s)
            return refusal
        code = self._refused_batches.code_for(place, header, now_s)
        return refusal if code is None else ProtocolError(code, BEHIND_A_REFUSED)

    def append(self, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
        """Append one partition's batch, if a thread's writing has not led to that; ProtocolError when it is refused."""
        if self._rows and id(data) in self._rows:
            return self._rows[id(data)]
        partition, log, records, header, guard = self._admitted(topic, data)
        first, last, append_time_ms, start, _ = partition.append(log, records, header, self._acks, self._now_ms, guard)
        if self._refused_batches:
            self._refused_batches.taken(_place(topic, data), header)
        row = PartitionProduceResponse(
            index=data.index, base_offset=first, log_append_time_ms=append_time_ms, log_start_offset=start
        )
        if partition.high_watermark <= last or log.needs_flush:
            self.owed.append((partition, last + 1, partition.role.term, row))
        return row

    def _admitted(self, topic: TopicProduceData, data: PartitionProduceData) -> Admitted:
        """What one partition's batch is appended with, after all that can be said of it beforehand."""
        if self._acks not in ACKS:
            raise ProtocolError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is -1, 0 or 1, not {self._acks}")
        if self._refusals and id(data) in self._refusals:
            raise self._refusals[id(data)]
        partition = self._find(topic, data)
        records = data.records
        if records is None:
            raise ProtocolError(ErrorCode.INVALID_RECORD, "no batch was sent")
        assert isinstance(records, memoryview)
        header = self._headers.get(id(data)) if self._headers else None
        if header is None:
            header = admission.checked_batch(records)
        if header.compression == ZSTD and self._version < ZSTD_FROM_VERSION:
            raise ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later")
        guard = self._guard(data) if header.attributes & TRANSACTIONAL else None
        log = partition.settled_log()
        config = log.config
        if admission.needs_a_look(config) and id(data) not in self._looked_at:
            records = admission.looked_at(records, header, config, self._now_ms)
            header = header_at(records)
        if self._refused_batches:
            self._check_first(_place(topic, data), header, log)
        return partition, log, records, header, guard

    def _check_first(self, place: Place, header: BatchHeader, log: Log) -> None:
        """Of an unknown producer any sequence is taken: not one that was sent behind a batch that was refused."""
        if log.producers.get(header.producer_id) is None:
            code = self._refused_batches.code_for(place, header, self._broker.clock.monotonic_s())
            if code is not None:
                raise ProtocolError(code, BEHIND_A_REFUSED)

    def _guard(self, data: PartitionProduceData) -> Verification | None:
        if self._request.transactional_id is None:
            raise ProtocolError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transaction has an id")
        return self._guards.get(id(data))

    def raise_if_refused(self) -> None:
        """Tell a client that wants no answers of a refusal, in the one way there is."""
        for refusal in self._refusals.values():
            raise Disconnect(f"a batch sent with acks=0 was refused: {refusal}")

    # What the answer waits for.

    async def settle(self) -> None:
        """Wait for the disk where a topic asks for it, and for the in-sync replicas where the client does.

        They are waited for as well by whoever may have been replaced without knowing it.
        """
        for partition, _, _, row in self.owed:
            try:
                await partition.flushed(self._broker.workers)
            except ProtocolError as refusal:
                row.error_code, row.error_message = refusal.code, refusal.detail
        if self._acks == NO_ACKS or (self._acks == LEADER_ONLY and self._broker.standing.is_sure()):
            return
        await self._broker.purgatory.until(
            lambda: all(partition.is_settled(offset, term) for partition, offset, term, _ in self.owed),
            watching=[partition for partition, _, _, _ in self.owed],
            timeout_ms=self._request.timeout_ms,
        )
        for partition, offset, term, row in self.owed:
            if not row.error_code:
                row.error_code = partition.outcome_of(offset, term)
                self.has_lost |= row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    # What must be known before anything is appended.

    async def prepare(
        self, costly: list[tuple[Partition, PartitionProduceData]], call: Call, *, is_in_the_way: bool
    ) -> None:
        """Ask the coordinator of a transaction, look at records, write what would be in the way of others here.

        Only if that takes time, others of the same connection wait behind it.
        """
        verifying = Verifying(self._broker, self._request, self._version)
        is_asking = self._request.transactional_id is not None and verifying.begin()
        self._guards = verifying.guards
        if is_asking or costly or is_in_the_way:
            with call.connection.holding():
                self._keep_bytes(call)
                if is_asking:
                    await verifying.finish()
                await self._look_off_loop(costly)
                self._refusals |= verifying.refusals
                if is_in_the_way:
                    await self._write_off_loop()
        else:
            self._refusals |= verifying.refusals

    def costly_to_look_at(self) -> list[tuple[Partition, PartitionProduceData]]:
        """Batches whose records must be decoded and are many, or may be: a compressed one does not tell."""
        found = []
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                records = data.records
                if records is None or not (len(records) >= OFF_LOOP_BYTES or _is_compressed(records)):
                    continue
                with suppress(ProtocolError):  # The append will refuse it in the same words.
                    partition = self._find(topic, data)
                    if admission.needs_a_look(partition.config):
                        found.append((partition, data))
        return found

    def _keep_bytes(self, call: Call) -> None:
        """Keep the frame, or copy all bytes where it will be read over."""
        let_go = call.connection.keep_frame()
        if let_go is not None:
            self.let_frame_go = let_go
            return
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))

    async def _look_off_loop(self, costly: list[tuple[Partition, PartitionProduceData]]) -> None:
        """Decode batches in a thread."""
        for partition, data in costly:
            try:
                assert data.records is not None
                header = admission.checked_batch(data.records)
                data.records = await self._broker.workers.in_thread(
                    admission.looked_at, data.records, header, partition.config, self._now_ms
                )
                self._looked_at.add(id(data))
            except ProtocolError as refusal:
                self._refusals[id(data)] = refusal

    async def _write_off_loop(self) -> None:
        """Have the large batches written by a thread, as far as their partitions take them, and append them."""
        sent = [(topic, data) for topic in self._request.topic_data for data in topic.partition_data]
        partitions = [self._found(topic, data) for topic, data in sent]
        logs = [partition.log for partition in partitions if partition is not None]
        for other in [log.ahead for log in logs if log is not None and log.ahead is not None]:
            await other.over.wait()  # Whatever was begun since then is taken in at once.
        begun: list[WriteAhead] = []
        try:
            for at, (topic, data) in enumerate(sent):
                # Of two batches for one partition, the first goes first.
                if len(data.records or b"") >= OFF_LOOP_BYTES and partitions[at] not in partitions[:at]:
                    with suppress(ProtocolError):  # The append will refuse it in the same words.
                        begun += self._begin_ahead(topic, data)
            if begun:
                await self._broker.writers.in_thread(write_all, begun)
        finally:
            for ahead in begun:
                ahead.settle()

    def _begin_ahead(self, topic: TopicProduceData, data: PartitionProduceData) -> list[WriteAhead]:
        """Begin to write one batch; none where there is nothing to write."""
        partition, log, records, header, guard = self._admitted(topic, data)
        if records is not data.records:
            return []  # Settings have changed meanwhile, and it was made anew for them.
        self._headers[id(data)] = header

        def take_in() -> None:
            try:
                self._rows[id(data)] = self.append(topic, data)
            except Exception as error:  # It is this request's, whoever may need the log just now.
                self._refusals[id(data)] = error

        ahead = partition.write_ahead(log, records, header, self._acks, self._now_ms, guard, take_in)
        return [] if ahead is None else [ahead]

    def _found(self, topic: TopicProduceData, data: PartitionProduceData) -> Partition | None:
        try:
            return self._find(topic, data)
        except ProtocolError:
            return None

    def _find(self, topic: TopicProduceData, data: PartitionProduceData) -> Partition:
        replicas = self._broker.replicas
        return replicas.find_for_client(topic.name or replicas.topic_name(topic.topic_id), data.index)


def _place(topic: TopicProduceData, data: PartitionProduceData) -> Place:
    return topic.name or topic.topic_id, data.index


def _is_compressed(records: memoryview) -> bool:
    return len(records) > LAST_ATTRIBUTES_AT and records[LAST_ATTRIBUTES_AT] & COMPRESSION_MASK != 0
