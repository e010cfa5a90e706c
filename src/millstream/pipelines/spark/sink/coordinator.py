"""The wire calls of the sink's protocol: decisions read and written, transactions begun, found and ended."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from millstream.client.admin import NewTopic, Resource, SettingValue, create_topics, describe_configs
from millstream.client.cluster import RETRY_PAUSE_S, StaleMetadata, check_partition
from millstream.client.coordinators import Coordinators, Kind
from millstream.client.partitioner import partition_of
from millstream.client.partitions import LATEST, READ_COMMITTED, fetch, list_offsets
from millstream.client.producing import (
    ProducerId,
    end_transaction,
    init_producer_id,
    list_open,
    produce_as,
    standings,
)
from millstream.client.reader import visible_batches
from millstream.model.clock import Clock
from millstream.model.compression import GZIP, NONE
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.pipelines.spark.sink.protocol import (
    ONGOING,
    Decide,
    Decision,
    End,
    Fate,
    Fence,
    FindOpen,
    Plan,
    Propose,
    ReadDecision,
    Standing,
    Step,
    Transaction,
    Withdraw,
    commit_plan,
    fate_of,
)

#: The compacted topic in which it is decided what each batch is made of, unless a query's options name another.
DECISIONS_TOPIC = "__millstream_sink_decisions"
#: A decision is written and ended in one go; one that a dead driver left is out of the way after this.
DECISION_TIMEOUT_MS = 10_000
#: A query's decisions are in one of so many partitions, whatever is added to them later.
DECISION_PARTITIONS = 4
DECISION_REPLICAS_MAX = 3
#: Small segments, compacted eagerly: whoever reads the decisions from their start reads little.
DECISION_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
#: For so long nobody looks for what others left open, where nothing else is to be learnt by it.
LOOK_MS = 1_000
#: A decision names every task of its batch. One that is larger is compressed, or it would not fit a batch.
_PLAIN_BYTES_MAX = 64 * 1024
_PREFIX = "millstream-sink"

#: What a coordinator answers to whoever was replaced.
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


#: Sends the rows of a decision's own transaction, as its producer and under its id; returns when all are acknowledged.
Cargo = Callable[[ProducerId, str], Awaitable[None]]


class TakenOver(Exception):
    """Another driver of the same query decides now."""


class Held(NamedTuple):
    """A fence, and the batch that was decided under it last: of no transactions, and with nothing given up since."""

    producer: ProducerId
    batch: int
    #: When open transactions of others were last looked for.
    looked_ms: int


class Decisions:
    """The decisions of all queries, as far as they were read; kept for as long as the process lives."""

    def __init__(self, coordinators: Coordinators, topic: str) -> None:
        self._coordinators = coordinators
        self._cluster = coordinators.cluster
        self._topic = topic
        self._positions: dict[TopicPartition, int] = {}
        self._known: dict[str, Decision] = {}
        #: The topic was made here, or keeps what is written to it.
        self._is_sound = False

    async def partition(self, query: str) -> TopicPartition:
        """Where a query's decisions are; the topic is made if there is none, and one that would lose them refused."""
        cluster = self._cluster
        try:
            await cluster.topic(self._topic)
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            [outcome] = await create_topics(cluster, [new_topic(self._topic, len(cluster.brokers))])
            if outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                outcome.raise_if_refused()
                self._is_sound = True
            await cluster.topic(self._topic, is_new=True)
        if not self._is_sound:
            await self._check()
        return TopicPartition(self._topic, partition_of(query.encode(), DECISION_PARTITIONS))

    async def _check(self) -> None:
        """ProtocolError for a topic in which decisions would not be found again, or not for ever."""
        settings = await self._cluster.retrying([self._topic], self._settings)
        policy = next((each.value for each in settings if each.name == "cleanup.policy"), None)
        count = len((await self._cluster.topic(self._topic)).partitions)
        why = unsound(self._topic, policy or "", count)
        if why:
            self._cluster.forget([self._topic])  # It is looked at again when somebody has seen to it.
            raise ProtocolError(ErrorCode.INVALID_CONFIG, why)
        self._is_sound = True

    async def _settings(self) -> list[SettingValue]:
        try:
            return await describe_configs(self._cluster, Resource.TOPIC, self._topic)
        except ProtocolError as refusal:
            if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # A broker that has just started does not know it.
                raise StaleMetadata(refusal.code, f"topic {self._topic!r}") from refusal
            raise

    async def read(self, query: str) -> Decision:
        """The query's last decision among all that were committed before this call."""
        tp = await self.partition(query)
        deadline_s = asyncio.get_running_loop().time() + self._cluster.timeout_s
        # A leader that is new may not know yet how far readers have seen, and a fetch would end before that. Asked for
        # the end, it says that it does not know (KIP-207), and is asked again.
        ends, _ = await asyncio.gather(list_offsets(self._cluster, {tp: LATEST}), self._fetch(tp))
        while self._positions[tp] < ends[tp].offset:  # Another query is about to decide, or died over it.
            if asyncio.get_running_loop().time() >= deadline_s:
                raise TimeoutError(f"partition {tp} could not be read to its end: an open transaction holds it back")
            before = self._positions[tp]
            await self._fetch(tp)
            await asyncio.sleep(0 if self._positions[tp] > before else RETRY_PAUSE_S)
        return self._known.get(query, Decision())

    async def _fetch(self, tp: TopicPartition) -> None:
        async def attempt() -> None:
            position = self._positions.setdefault(tp, 0)
            connection = await self._cluster.leader(tp)
            [row] = await fetch(
                self._cluster, connection, {tp: position}, bytes_min=0, wait_ms=0, isolation=READ_COMMITTED
            )
            if row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:  # Compaction, or another topic of the same name.
                self._positions[tp] = row.log_start_offset if row.log_start_offset > position else 0
                await attempt()
                return
            check_partition(row.error_code, f"partition {tp}")
            for header, records in visible_batches(row.records, row.aborted):
                for record in records:
                    self._take(record)
                self._positions[tp] = header.next_offset

        await self._cluster.retrying([tp.topic], attempt)

    def _take(self, record: Record) -> None:
        query = (record.key or b"").decode()
        if record.value is None:
            self._known.pop(query, None)
        else:
            self._known[query] = decoded(record.value)


def new_topic(name: str, brokers: int) -> NewTopic:
    """The topic of decisions on so many brokers: like transactions themselves, it outlives the loss of any one."""
    replicas = max(1, min(DECISION_REPLICAS_MAX, brokers))
    settings = {**DECISION_SETTINGS, **({"min.insync.replicas": "2"} if replicas == DECISION_REPLICAS_MAX else {})}
    return NewTopic(name, DECISION_PARTITIONS, replicas, settings)


def unsound(name: str, policy: str, partitions: int) -> str:
    """Why decisions cannot be kept in a topic that was there, and what to do about it; empty when they can."""
    if policy != DECISION_SETTINGS["cleanup.policy"]:
        return (
            f"topic {name!r} would lose decisions, for its cleanup.policy is {policy}: name another as decisionsTopic, "
            f"or, if it is for nothing else, millstream topic alter {name} -c cleanup.policy=compact"
        )
    if partitions < DECISION_PARTITIONS:
        return (
            f"topic {name!r} has {partitions} partitions, and decisions need {DECISION_PARTITIONS}: name another as "
            f"decisionsTopic, or millstream topic add-partitions {name} --total {DECISION_PARTITIONS}"
        )
    return ""


def encoded(decision: Decision) -> bytes:
    """A decision as the topic keeps it."""
    return json.dumps(decision._asdict(), separators=(",", ":")).encode()


def batch_of(record: Record, producer: ProducerId) -> bytearray:
    """The one batch of a transaction that decides."""
    is_large = len(record.value or b"") > _PLAIN_BYTES_MAX
    return encode_batch(
        [record],
        compression=GZIP if is_large else NONE,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )


def decoded(value: bytes) -> Decision:
    """The decision in a record's value."""
    given = json.loads(value)
    return Decision(
        given["batch"],
        tuple(Transaction(*row) for row in given["transactions"]),
        tuple(Transaction(*row) for row in given.get("given_up", ())),
    )


class Driver:
    """Carries the plans of one query's driver out."""

    def __init__(self, coordinators: Coordinators, decisions: Decisions, query: str, clock: Clock) -> None:
        self._coordinators = coordinators
        self._decisions = decisions
        self._query = query
        self._clock = clock
        self._decision_id = f"{_PREFIX}-decisions/{query}"
        #: Who may decide, by the last fence: None before one, and while it is not known what became of a decision.
        self._producer: ProducerId | None = None
        #: The last decision, if it was made under that fence and carried out.
        self._held: Decision | None = None
        #: What the plan under way has decided.
        self._decided: Decision | None = None
        #: Who has written, or is about to write, what does not count yet.
        self._proposer: ProducerId | None = None
        #: What is written with the decision, in its transaction.
        self._cargo: Cargo | None = None
        #: When open transactions were last looked for under this fence.
        self._looked_ms = 0
        self._steps: Mapping[type[Step], Callable[[Any], Awaitable[Any]]] = {
            Fence: self._fence,
            ReadDecision: self._read,
            FindOpen: self._find_open,
            Propose: self._propose,
            Decide: self._decide,
            Withdraw: self._withdraw,
            End: self._end,
        }

    async def commit(self, batch: int, mine: Sequence[Transaction]) -> None:
        """Have the batch committed, as ``commit_plan`` does; the fence of the batch before serves for it, too."""
        if self._held is not None and self._held.batch == batch - 1:
            try:
                await self.carry_out(commit_plan(batch, mine, self._held))
                return
            except TakenOver:
                pass  # Somebody fenced since, such as an abort of this very batch: look at everything anew.
        await self.carry_out(commit_plan(batch, mine))

    async def commit_with(self, batch: int, cargo: Cargo) -> None:
        """Have a batch committed that is nothing but ``cargo``, which counts exactly when the decision for it does.

        It is sent once more if what was sent first is refused, and not at all if the batch was decided before. On
        failure it is taken back, or it is not known what became of it.
        """
        self._cargo = cargo
        try:
            await self.commit(batch, ())
        except BaseException:
            if self._proposer is not None:
                with suppress(Exception):  # Else readers would wait for its time-out.
                    await self._end_written(is_commit=False)
            raise
        finally:
            self._cargo = None

    def released(self) -> Held | None:
        """The fence, for another process to go on under; this one does not use it any more."""
        producer, held = self._producer, self._held
        self._producer = self._held = None
        if producer is None or held is None or held != Decision(held.batch):
            return None
        return Held(producer, held.batch, self._looked_ms)

    def resume(self, held: Held) -> None:
        """Go on under a fence that another process has released, to nobody else."""
        self._producer, self._held, self._looked_ms = held.producer, Decision(held.batch), held.looked_ms

    async def carry_out(self, plan: Plan) -> None:
        """Take the plan's steps to its end; what one raises ends it."""
        answer: Any = None
        self._decided = None
        while True:
            try:
                step = plan.send(answer)
            except StopIteration:
                self._held = self._decided
                return
            answer = await self._steps[type(step)](step)

    async def last_decision(self) -> Decision:
        """What the query's last batch is made of."""
        return await self._decisions.read(self._query)

    async def forget(self) -> None:
        """Drop the query's decision, when nobody will ever ask for it again."""
        if self._producer is None:
            await self._fence(Fence())
        await self._write(None)
        await self._end_written(is_commit=True)

    async def _fence(self, step: Fence) -> None:
        self._producer = self._held = self._proposer = None
        self._looked_ms = 0
        self._producer = await init_producer_id(self._coordinators, self._decision_id, timeout_ms=DECISION_TIMEOUT_MS)

    async def _read(self, step: ReadDecision) -> Decision:
        return await self._decisions.read(self._query)

    async def _find_open(self, step: FindOpen) -> tuple[Transaction, ...]:
        return await self._described(step.of, await self._listed())

    async def _listed(self) -> dict[str, int]:
        """Ids of the query's tasks with open transactions, and the producer id of each."""
        pattern = _ids_pattern(self._query)
        listed = await list_open(self._coordinators, pattern)
        # Not every broker knows patterns.
        return {name: producer_id for name, producer_id in listed.items() if re.fullmatch(pattern, name)}

    async def _described(self, of: Iterable[Transaction], listed: Iterable[str]) -> tuple[Transaction, ...]:
        """What is open of those that were listed, and of those whose ids are known besides."""
        known: dict[str, list[Transaction]] = {}
        for each in of:
            known.setdefault(each.id, []).append(each)
        found = []
        for name, row in (await standings(self._coordinators, [*known, *listed])).items():
            standing = standing_of(row)
            if standing is None or standing.state != ONGOING:
                continue
            unknown = Transaction(name, standing.producer_id, standing.producer_epoch)
            found += [each for each in known.get(name, ()) if fate_of(each, standing) is Fate.OPEN] or [unknown]
        return tuple(found)

    async def _propose(self, step: Propose) -> tuple[Transaction, ...]:
        value, now_ms = encoded(step.decision), self._clock.now_ms()
        # A batch without any transactions needs no list to be decided, and others' are looked for every now and then.
        if not step.decision.transactions and not step.of and 0 <= now_ms - self._looked_ms < LOOK_MS:
            await self._write(value)
            return ()
        written, found = await asyncio.gather(self._write(value), self._found_beside(step), return_exceptions=True)
        for failure in (written, found):
            if isinstance(failure, BaseException):
                raise failure
        assert not isinstance(found, BaseException)
        self._looked_ms = now_ms
        return found

    async def _found_beside(self, step: Propose) -> tuple[Transaction, ...]:
        """As a rule what is proposed is all there is, and the list says so: under an id whose last transaction nobody
        has decided on, there is no other.
        """
        own, listed = step.decision.transactions, await self._listed()
        # A list may lack what is open while its coordinator moves: whoever must be sure of others asks for them.
        if not step.of and listed == {each.id: each.producer_id for each in own}:
            return own
        return await self._described((*own, *step.of), listed)

    async def _decide(self, step: Decide) -> None:
        if self._proposer is None:
            await self._write(encoded(step.decision))
        await self._end_written(is_commit=True)
        if self._producer is not None:
            self._decided = step.decision

    async def _withdraw(self, step: Withdraw) -> None:
        await self._end_written(is_commit=False)

    async def _write(self, value: bytes | None) -> None:
        """One record, and the cargo, in a transaction of its own, which only the driver that fenced last can end."""
        assert self._producer is not None, "a decision comes after the fence"
        producer, self._producer, self._held = self._producer, None, None
        self._proposer = producer
        cargo = [] if self._cargo is None else [self._cargo(producer, self._decision_id)]
        # Nothing is under way any more when this fails, so that it can be taken back.
        for outcome in await asyncio.gather(*cargo, self._write_record(value, producer), return_exceptions=True):
            if isinstance(outcome, BaseException):
                with self._taken_over_if_fenced():
                    raise outcome

    async def _write_record(self, value: bytes | None, producer: ProducerId) -> None:
        batch = batch_of(Record(key=self._query.encode(), value=value, timestamp=self._clock.now_ms()), producer)
        tp = await self._decisions.partition(self._query)
        await produce_as(self._coordinators, tp, batch, producer, self._decision_id)

    async def _end_written(self, *, is_commit: bool) -> None:
        """Let what was written count, or take it back."""
        producer, self._proposer = self._proposer, None
        assert producer is not None, "nothing ends that was not written"
        with self._taken_over_if_fenced():
            # Its epoch for the next, where coordinators give one: then every batch is the first of its epoch.
            self._producer = await end_transaction(self._coordinators, self._decision_id, producer, is_commit=is_commit)

    @contextmanager
    def _taken_over_if_fenced(self) -> Iterator[None]:
        try:
            yield
        except ProtocolError as refusal:
            if refusal.code in _FENCED:
                raise TakenOver(f"another driver of {self._query} has taken over: {refusal}") from refusal
            raise

    async def _end(self, step: End) -> dict[Transaction, Fate]:
        fates = await asyncio.gather(*(self._end_one(each, step.is_commit) for each in step.transactions))
        return dict(zip(step.transactions, fates, strict=True))

    async def _end_one(self, each: Transaction, is_commit: bool) -> Fate:
        producer = ProducerId(each.producer_id, each.producer_epoch)
        try:
            await end_transaction(self._coordinators, each.id, producer, is_commit=is_commit)
        except ProtocolError as refusal:
            if refusal.code not in _FENCED:
                raise
            rows = await standings(self._coordinators, [each.id])
            return fate_of(each, standing_of(rows.get(each.id)))
        return Fate.COMMITTED if is_commit else Fate.ABORTED


def standing_of(row: Any) -> Standing | None:
    """Where an id stands, of a row of ``standings``."""
    if row is None:
        return None
    return Standing(row.state, row.producer_id, -1 if row.producer_epoch is None else row.producer_epoch)


def transactional_prefix(query: str) -> str:
    """How the transactional ids of a query's tasks begin."""
    return f"{_PREFIX}/{query}/"


def _ids_pattern(query: str) -> str:
    """All that the transactional ids of a query's tasks have in common with no other query's, by Java's rules as well.

    A query may have a name that begins as another's does, with a slash behind it.
    """
    return f"{re.escape(transactional_prefix(query))}[^/]+/[0-9]+"


async def longest_timeout_ms(coordinators: Coordinators, transactional_id: str) -> int:
    """The longest time-out that the id's coordinator allows."""
    node = await coordinators.find(Kind.TRANSACTION, transactional_id)
    await coordinators.cluster.refresh([])
    settings = await describe_configs(coordinators.cluster, Resource.BROKER, str(node.id))
    return next(int(each.value or 0) for each in settings if each.name == "transaction.max.timeout.ms")


async def free_ids(coordinators: Coordinators, names: Iterable[str]) -> Mapping[str, Standing]:
    """Where a worker's own ids stand."""
    rows = await standings(coordinators, names)
    return {name: found for name, row in rows.items() if (found := standing_of(row)) is not None}
