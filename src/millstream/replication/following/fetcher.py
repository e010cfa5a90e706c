"""Everything that is followed from one leader in one lane: one task, one fetch session, one fetch under way.

The next fetch leaves as soon as the answer before it is appended, for it is what tells the leader so: whoever writes
with acks=all waits for that.  So an answer is taken in the very turn of the loop in which it comes, and the task only
sees to what takes time: connections, delays, the disk.  A second fetch leaves only when a partition came anew while the
leader still keeps the first: the leader then answers that at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from millstream.config.setting import LONG_MAX
from millstream.config.topic import throttles
from millstream.metrics.throttle import Throttle
from millstream.model.clock import Clock
from millstream.model.errors import CorruptFrame, ProtocolError
from millstream.model.ids import Uuid
from millstream.model.workers import Workers
from millstream.net.channels import PostingChannels
from millstream.protocol.messages.fetch import FetchResponse, PartitionData, ReplicaState
from millstream.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from millstream.replication.company import Company
from millstream.replication.fetch_sessions import NO_SESSION
from millstream.replication.following.followed import Followed
from millstream.replication.following.lanes import HURRIED_PIECE_BYTES, Lane, Pace, lane_of
from millstream.replication.following.place import BACKOFF_MS, State
from millstream.replication.following.session import FollowingSession, Id, farewell, request
from millstream.replication.partition import Partition
from millstream.storage.log import Log

logger = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1
#: After appending this much, others have their turn before the rest of an answer is appended.
TURN_BYTES = 1024 * 1024
FAREWELL_TIMEOUT_MS = 1_000
#: One fetch, and one more where partitions came anew while the leader keeps it.
UNDER_WAY_MAX = 2


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The broker's settings that fetchers obey."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    partition_bytes_max: int = 1024 * 1024
    response_bytes_max: int = 10 * 1024 * 1024
    backoff_ms_max: int = 1_000
    timeout_ms: int = 30_000
    #: For replicas that topics name, while they catch up.
    throttle: Throttle = field(default_factory=lambda: Throttle(lambda: LONG_MAX))


@dataclass(slots=True)
class _Asked:
    """A fetch that is under way, and those of its partitions that it no longer speaks for."""

    answer: asyncio.Future[FetchResponse]
    void: set[Id] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None


class Fetcher:
    """Fetches from one leader for as long as anything is followed from it."""

    def __init__(
        self,
        broker_id: int,
        leader: int,
        lane: Lane,
        channels: PostingChannels,
        clock: Clock,
        workers: Workers,
        settings: FetchSettings,
        company: Company,
        broker_epoch: Callable[[], int],
        belongs: Callable[[Partition, Lane], None],
    ) -> None:
        """``belongs`` is told of a partition that belongs into another lane than this one."""
        self.leader = leader
        self.lane = lane
        self._broker_id = broker_id
        self._channels = channels
        self._clock = clock
        self._workers = workers
        self._settings = settings
        self._company = company
        self._broker_epoch = broker_epoch
        self._belongs = belongs
        #: For a copy, which nobody waits for; who keeps up never rests.
        self._pace = Pace() if lane is Lane.CATCHING_UP else None
        self._session = FollowingSession()
        self._followed: dict[Id, Followed] = {}
        #: Those of them that are not simply fetched.
        self._odd: dict[Id, Followed] = {}
        #: Places the leader is to be told of, and those it may forget.
        self._dirty: dict[Id, None] = {}
        self._gone: dict[Id, None] = {}
        #: Whether something in ``_dirty`` cannot wait for the answer under way.
        self._is_urgent = False
        self._asked: deque[_Asked] = deque()
        #: What must be on disk before the next fetch.
        self._unflushed: list[Log] = []
        self._waiter: asyncio.Future[None] | None = None
        self._failures = 0
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._followed)

    def state_of(self, partition: Partition) -> State | None:
        """What is done about the partition; None when nothing is."""
        followed = self._followed.get(_id(partition))
        return None if followed is None else followed.place.state

    def add(self, partition: Partition) -> None:
        """Follow from here on, under the leader epoch that the partition was told."""
        id_ = _id(partition)
        followed = self._followed[id_] = Followed(partition, self._settings.backoff_ms_max)
        if followed.log.needs_flush:  # Whoever fetched it before may not have come to that.
            self._unflushed.append(followed.log)
        self._odd.pop(id_, None)
        self._dirty[id_] = None
        self._is_urgent = True
        self._wake()

    def remove(self, partition: Partition) -> None:
        """Follow no more; what is under way for it is forgotten."""
        id_ = _id(partition)
        if self._followed.pop(id_, None) is not None:
            self._odd.pop(id_, None)
            self._drop(id_)
            self._wake()

    def begin_anew(self) -> None:
        """Forget the session and whatever is under way."""
        self._lost("it failed")

    # The task.

    async def run(self) -> None:
        """Fetch until nothing is left to follow."""
        try:
            while self._followed:
                self._resume()
                if self._unflushed:
                    await self._flush()
                elif any(followed.place.state is State.ASTRAY for followed in self._odd.values()):
                    await self._find_way()
                elif self._may_ask():
                    self._ask()
                else:
                    await self._happening()
                    while self._asked and self._asked[0].answer.done():
                        await self._take(self._asked.popleft())
        finally:
            self._forget_asked()
        if self._session.id != NO_SESSION:
            last = farewell(self._session, self._replica())
            self._session.restart()
            with suppress(OSError, TimeoutError, ProtocolError):  # The leader finds out when it misses us.
                await self._channels.send(self.leader, last, timeout_ms=FAREWELL_TIMEOUT_MS)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _happening(self) -> None:
        """Return when an answer has come, something else is to be followed, or a delay is over."""
        if self._asked and self._asked[0].answer.done():
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        due_ms = self._due_ms()
        timer = None if due_ms is None else loop.call_later(max(0, due_ms - self._now_ms()) / 1000, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)

    def _due_ms(self) -> int | None:
        """When there is something to do, whatever happens until then."""
        due = [each.place.due_ms for each in self._odd.values() if each.place.state is State.DELAYED]
        if not self._asked and len(self._odd) < len(self._followed):
            due.append(self._not_before_ms)  # Whether that is over by now or not: nobody else would wake us.
        return min(due) + 1 if due else None

    def _resume(self) -> None:
        if not self._odd:
            return
        now_ms = self._now_ms()
        for id_, followed in list(self._odd.items()):
            if followed.place.resume(now_ms):
                self._settle(id_, followed)

    def _settle(self, id_: Id, followed: Followed) -> None:
        """Fetch the partition, or leave it out, as its state says now."""
        if followed.place.state is State.FETCHING:
            self._odd.pop(id_, None)
            self._dirty[id_] = None
            self._is_urgent = True
        else:
            self._odd[id_] = followed
            self._drop(id_)

    # Asking.

    def _may_ask(self) -> bool:
        if self._now_ms() < self._not_before_ms:
            return False
        if not self._asked:
            return len(self._odd) < len(self._followed)
        return self._is_urgent and len(self._asked) < UNDER_WAY_MAX and self._session.id != NO_SESSION

    def _ask(self) -> None:
        named = [
            (id_, followed.place.position, followed.log.start_offset)
            for id_ in self._dirty
            if (followed := self._followed.get(id_)) is not None and followed.place.state is State.FETCHING
        ]
        names, forgotten = self._session.changes(((id_, position) for id_, position, _ in named), self._gone)
        for asked in self._asked:
            asked.void.update(names, forgotten)
        self._dirty.clear()
        self._gone.clear()
        self._is_urgent = False
        settings = self._settings
        fetch = request(
            self._session,
            named,
            forgotten,
            replica=self._replica(),
            max_wait_ms=settings.wait_ms_max,
            min_bytes=settings.bytes_min,
            max_bytes=settings.response_bytes_max,
            partition_max_bytes=settings.partition_bytes_max,
        )
        loop = asyncio.get_running_loop()
        asked = _Asked(loop.create_future())
        posted = self._channels.post(self.leader, fetch, partial(self._answered, asked), lane=self.lane)
        if posted is None:
            sent = self._channels.send(self.leader, fetch, timeout_ms=settings.timeout_ms, lane=self.lane)
            asked.answer = asyncio.ensure_future(sent)
            asked.answer.add_done_callback(lambda _: self._wake())
        else:
            asked.timer = loop.call_later(settings.timeout_ms / 1000, posted.close)
            if self._pace is not None:
                posted.pace(self._pace.rest_s)
        self._asked.append(asked)

    def _replica(self) -> ReplicaState:
        return ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch())

    # Answers.

    def _answered(self, asked: _Asked, frame: memoryview | None, decode: Callable[[memoryview], FetchResponse]) -> None:
        """The answer is here: take it now if nothing stands in the way, else keep a copy for the task."""
        if asked.timer is not None:
            asked.timer.cancel()
        if asked.answer.done():
            return  # It was forgotten.
        if frame is None:
            self._settle_answer(asked, ConnectionResetError(f"broker {self.leader} hung up"))
            return
        is_idle = self._waiter is not None and not self._waiter.done()
        try:
            if is_idle and self._asked[0] is asked and len(frame) <= 2 * TURN_BYTES:
                response = decode(frame)
                if not _cuts(response):
                    self._asked.popleft()
                    self._take_now(asked, response)
                    return
            self._settle_answer(asked, decode(memoryview(bytearray(frame))))
        except CorruptFrame as fault:
            self._settle_answer(asked, ConnectionResetError(f"broker {self.leader} answered nonsense: {fault}"))
            raise

    def _settle_answer(self, asked: _Asked, outcome: FetchResponse | Exception) -> None:
        if isinstance(outcome, Exception):
            asked.answer.set_exception(outcome)
        else:
            asked.answer.set_result(outcome)
        self._wake()

    def _take_now(self, asked: _Asked, response: FetchResponse) -> None:
        try:
            if self._is_served(response):
                for topic in response.responses:
                    for row in topic.partitions:
                        self._take_row((topic.topic_id, row.partition_index), row, asked)
        except Exception:
            logger.exception("an answer of broker %d went wrong", self.leader)
            self._lost("it failed")
        if self._unflushed or self._odd or not self._may_ask():
            self._wake()
        else:
            self._ask()

    async def _take(self, asked: _Asked) -> None:
        """As ``_take_now``, for an answer that is the task's own; others have their turn in between.

        So they have after each cut, which waits for the disk.
        """
        try:
            response = asked.answer.result()
        except (OSError, TimeoutError, ProtocolError) as error:
            self._lost(f"{type(error).__name__}: {error}")
            return
        if not self._is_served(response):
            return
        size = 0
        for topic in response.responses:
            for row in topic.partitions:
                size += self._take_row((topic.topic_id, row.partition_index), row, asked)
                if size >= TURN_BYTES or row.diverging_epoch is not None:
                    size = 0
                    await asyncio.sleep(0)

    def _is_served(self, response: FetchResponse) -> bool:
        if response.error_code:
            self._lost(f"error {response.error_code}")
            return False
        self._failures = 0
        self._session.opened(response.session_id)
        if self._pace is not None:
            self._pace.has_company = response.throttle_time_ms > 0 or self._company.is_here()
        return True

    def _lost(self, reason: str) -> None:
        """No answer came, or the leader knows nothing of our session: begin anew, and if that fails again, later."""
        log = logger.info if self._failures else logger.debug
        log("fetching from broker %d begins anew: %s", self.leader, reason)
        self._forget_asked()
        self._session.restart()
        self._gone.clear()
        self._dirty = dict.fromkeys(self._followed)
        if self._failures:
            wait_ms = min(BACKOFF_MS << min(self._failures - 1, 16), self._settings.backoff_ms_max)
            self._not_before_ms = self._now_ms() + wait_ms
        self._failures += 1

    def _forget_asked(self) -> None:
        for asked in self._asked:
            if asked.timer is not None:
                asked.timer.cancel()
            if not asked.answer.cancel() and not asked.answer.cancelled():
                asked.answer.exception()  # It failed as well; nobody needs to be told twice.
        self._asked.clear()

    def _take_row(self, id_: Id, row: PartitionData, asked: _Asked) -> int:
        """Do as the leader's answer for one partition says; how many bytes that appended."""
        followed = self._followed.get(id_)
        if followed is None:
            return 0
        place, log = followed.place, followed.log
        if id_ in asked.void or not place.is_answered_by(self._session.told(id_)):
            self._dirty[id_] = None  # Whatever it brought is asked for again, from where we are.
            return 0
        start_offset = log.start_offset
        followed.take(row, self._now_ms())
        if place.state is not State.FETCHING:
            self._settle(id_, followed)
        elif row.records or row.diverging_epoch is not None or log.start_offset != start_offset:
            self._dirty[id_] = None
            if log.needs_flush:
                self._unflushed.append(log)
        size = len(row.records or b"")
        if place.state is State.FETCHING:
            lane = lane_of(log.end_offset, followed.partition.leader_watermark)
            if lane is not self.lane:
                self._belongs(followed.partition, lane)
            elif size and self._pace is not None:
                self._copied(self._pace, id_, followed, size)
            elif size:
                self._company.came(self._clock.monotonic_s())
        return size

    def _copied(self, pace: Pace, id_: Id, followed: Followed, size: int) -> None:
        """A piece of a long log was copied: it goes to the disk in time, and where it is throttled it waits."""
        if pace.took(size):
            self._unflushed = [each.log for each in self._followed.values()]
        self._hold_back(id_, followed, size)

    def _hold_back(self, id_: Id, followed: Followed, size: int) -> None:
        """Fetch the partition again only after a while, where it is throttled."""
        named = followed.log.config.follower_replication_throttled_replicas
        partition = followed.partition
        if not throttles(named, partition.topic_partition.partition, self._broker_id):
            return
        now_ms = self._now_ms()
        self._settings.throttle.spend(size, now_ms)
        followed.place.pause(now_ms, self._settings.throttle.wait_ms(now_ms))
        self._settle(id_, followed)

    def _drop(self, id_: Id) -> None:
        self._dirty.pop(id_, None)
        self._gone[id_] = None

    async def _flush(self) -> None:
        """Wait for the disk: the next fetch says that we have it, which must hold also after the power has failed."""
        unflushed, self._unflushed = self._unflushed, []
        await asyncio.gather(*(self._flush_one(log) for log in unflushed))
        if self._pace is not None:
            lag = sum(each.partition.leader_watermark - each.log.end_offset for each in self._followed.values())
            self._pace.flushed(lag)

    async def _flush_one(self, log: Log) -> None:
        try:
            await log.flush_async(self._workers)
            if self._pace is not None:
                log.let_go(2 * HURRIED_PIECE_BYTES)
        except ProtocolError:  # Its directory is offline now, which is known and was reported.
            for id_, followed in self._followed.items():
                if followed.log is log:
                    followed.place.fail()
                    self._settle(id_, followed)

    # Out of range.

    async def _find_way(self) -> None:
        """Ask where the leader's logs begin and end, for the partitions whose end lies elsewhere."""
        astray = {id_: each for id_, each in self._odd.items() if each.place.state is State.ASTRAY}
        try:
            starts = await self._bounds(astray.values(), EARLIEST)
            ends = await self._bounds(astray.values(), LATEST)
        except (OSError, TimeoutError, ProtocolError) as error:
            logger.info("broker %d does not say where its logs begin and end: %s", self.leader, error)
            starts = ends = {}
        for id_, followed in astray.items():
            if self._followed.get(id_) is not followed:
                continue  # Another leader has been named meanwhile.
            key = followed.partition.topic_partition
            bounds = (starts[key], ends[key]) if key in starts and key in ends else None
            followed.bounded(bounds, self._now_ms())
            self._settle(id_, followed)

    async def _bounds(self, astray: Iterable[Followed], timestamp: int) -> dict[Any, int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for followed in astray:
            topic, index = followed.partition.topic_partition
            row = ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=followed.place.position.leader_epoch,
                timestamp=timestamp,
            )
            topics.setdefault(topic, []).append(row)
        response = await self._channels.send(
            self.leader,
            ListOffsetsRequest(
                replica_id=self._broker_id,
                topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()],
            ),
            timeout_ms=self._settings.timeout_ms,
        )
        return {
            (topic.name, row.partition_index): row.offset
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code
        }


def _id(partition: Partition) -> tuple[Uuid, int]:
    return partition.topic_id, partition.topic_partition.partition


def _cuts(response: FetchResponse) -> bool:
    """Whether logs have to be cut for it."""
    return any(row.diverging_epoch is not None for topic in response.responses for row in topic.partitions)
