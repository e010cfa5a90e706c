"""Reading records: alone or in a group, one by one or in batches, committed as often as was promised."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException
from confluent_kafka import TopicPartition as WirePartition

from millstream.client.application import arguments
from millstream.client.application.delivery import CONSUMER_PREFERENCES, CONSUMER_PROMISES, Delivery
from millstream.client.application.errors import BadSetting, BadUse, PartitionsLost, TransactionAborted, translated
from millstream.client.application.intake import Assigned, Intake
from millstream.client.application.reach import Quiet
from millstream.client.application.record import Record, record_maker
from millstream.client.application.serialization import Deserializer, deserializer
from millstream.client.application.settings import merged
from millstream.client.application.start import Start, checked, placed
from millstream.client.application.subscription import chosen_topics
from millstream.model.ids import TopicPartition

#: A wait is cut into pieces, so that Ctrl-C and stop() are heard.
SLICE_S = 0.1
TIMEOUT_S = 30.0


#: A name, a pattern, or several of them.
Topics: TypeAlias = str | re.Pattern[str] | Iterable[str | re.Pattern[str]]


class Progress(NamedTuple):
    """What a transaction commits for a consumer, and as which member of the group."""

    offsets: list[WirePartition]
    membership: Any


class Consumer:
    """Reads records: ``with Consumer("orders", group="billing") as consumer: for record in consumer: …``

    With a ``group``, its members share the partitions, and each goes on where the group left off; ``start`` counts
    where it left nothing. Without one, it reads all partitions of its topics from ``start`` and commits nothing. Topics
    are names or compiled patterns (``re.compile("orders-.*")``); without any, choose partitions with ``assign``.

    ``delivery`` is the promise: AT_LEAST_ONCE commits a record once the loop has come back for the next one,
    AT_MOST_ONCE before it is handed out, EXACTLY_ONCE in ``producer.transaction(consumer)``. ``config`` takes any
    setting of librdkafka. To be used by one thread at a time; ``stop`` may be called from any.
    """

    def __init__(
        self,
        *topics: Topics,
        group: str | None = None,
        start: Start = "earliest",
        delivery: Delivery | str = Delivery.AT_LEAST_ONCE,
        bootstrap: str | None = None,
        key_deserializer: str | Deserializer = "bytes",
        value_deserializer: str | Deserializer = "bytes",
        on_assign: Assigned | None = None,
        on_revoke: Assigned | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.group = None if group is None else arguments.name("group", group)
        self.delivery = Delivery.of(delivery)
        chosen = chosen_topics(topics)
        if group is None and self.delivery is Delivery.EXACTLY_ONCE:
            raise BadSetting("exactly_once is a promise about what a group has read: pass group=…")
        self._start = checked(start)
        self._record = record_maker(deserializer(key_deserializer), deserializer(value_deserializer))
        promises = dict(CONSUMER_PROMISES[self.delivery])
        if group is None:  # librdkafka wants a name, but such a consumer joins nothing and commits nothing.
            promises |= {"enable.auto.commit": False}
        preferences = {**CONSUMER_PREFERENCES[self.delivery], "isolation.level": "read_committed"}
        promises |= {
            "group.id": group or f"millstream-{uuid.uuid4().hex}",
            "auto.offset.reset": start if isinstance(start, str) else "earliest",
        }
        self._intake = Intake(
            merged(bootstrap, preferences, promises, config),
            group=group,
            start=start,
            delivery=self.delivery,
            on_assign=on_assign,
            on_revoke=on_revoke,
        )
        self._wire = self._intake.wire
        self._end_of_start = OFFSET_END if start == "latest" else OFFSET_BEGINNING
        self._stopped = threading.Event()
        self._is_closed = False
        if chosen:
            self._intake.subscribe(chosen)

    # Reading

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self, *, limit: int | None = None, idle_s: float | None = None) -> Iterator[Record]:
        """Records as they come, until ``stop``; or until so many, or until none has come for so long.

        Asking for the next says that the one before is processed; leaving by ``break`` does not, so commit() first.
        """
        if limit is not None:
            arguments.count("limit", limit, 0)
        return self._records(limit, arguments.seconds("idle_s", idle_s))

    def _records(self, limit: int | None, idle_s: float | None) -> Iterator[Record]:
        intake, make, clock = self._intake, self._record, time.monotonic
        handed = intake.handed
        left = limit if limit is not None else -1
        while left and self._wait(idle_s):
            turn = handed.turn
            for message in handed.messages[handed.at :]:
                handed.at += 1
                yield make(message)
                handed.done = handed.at
                left -= 1
                if not left or handed.turn is not turn or clock() >= intake.attend_due_s:
                    break

    def batches(
        self, size: int = 500, *, wait_s: float = 0.1, limit: int | None = None, idle_s: float | None = None
    ) -> Iterator[list[Record]]:
        """The same in lists of at most ``size``: whatever there is, after the first at most ``wait_s`` later."""
        arguments.count("size", size, 1)
        if limit is not None:
            arguments.count("limit", limit, 0)
        waits_s = arguments.seconds("wait_s", wait_s) or 0.0
        return self._batches(size, waits_s, limit, arguments.seconds("idle_s", idle_s))

    def _batches(self, size: int, wait_s: float, left: int | None, idle_s: float | None) -> Iterator[list[Record]]:
        while (left is None or left > 0) and self._wait(idle_s):
            batch = self.take(size if left is None else min(size, left), wait_s)
            yield batch
            self._intake.handed.done = self._intake.handed.at
            left = None if left is None else left - len(batch)

    def poll(self, timeout_s: float = 1.0) -> Record | None:
        """The next record, or None when none comes in time; the one before is thereby processed."""
        self._intake.handed.done = self._intake.handed.at
        if not self._wait(None, arguments.seconds("timeout_s", timeout_s)):
            return None
        return self.take(1, 0)[0]

    def take(self, size: int, wait_s: float) -> list[Record]:
        """What is at hand, up to ``size``, waiting at most so long for it to be as many."""
        handed = self._intake.handed
        now_s = time.monotonic()
        if now_s >= self._intake.attend_due_s:
            self._intake.fetch(1, 0)
        deadline_s = now_s + wait_s
        while (short := size - handed.left()) > 0:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or self._stopped.is_set():
                break
            self._intake.fetch(short, min(left_s, SLICE_S))
        taken = handed.messages[handed.at : handed.at + size]
        handed.at += len(taken)
        return list(map(self._record, taken))

    def give_back(self, count: int) -> None:
        """Take back the last so many of the records just taken: they will be handed out again."""
        assert count <= self._intake.handed.at, "only what was taken since the last commit or fetch can be given back"
        self._intake.handed.at -= count
        self._intake.handed.turn = object()

    def stop(self) -> None:
        """End the loops over this consumer, from any thread or from a signal's handler; its next read ends at once."""
        self._stopped.set()
        self._intake.attend_due_s = 0.0

    # Where it reads

    def assign(self, partitions: Iterable[TopicPartition] | Mapping[TopicPartition, Start | None]) -> None:
        """Read just these partitions, each from its own start, or else the group's offset or the consumer's start."""
        self._check_open()
        starts = dict(partitions) if isinstance(partitions, Mapping) else dict.fromkeys(partitions)
        wanted = self._intake.begun_at([WirePartition(*tp) for tp, start in starts.items() if start is None])
        for tp, start in starts.items():
            if start is not None:
                wanted += placed(self._wire, [WirePartition(*tp)], checked(start), TIMEOUT_S)
        self._intake.assign(wanted)

    def assignment(self) -> set[TopicPartition]:
        """The partitions this consumer reads now."""
        return self._intake.assignment()

    def seek(self, partition: TopicPartition, to: Start) -> None:
        """Go on elsewhere in a partition; what was fetched of it and not handed out is forgotten."""
        self._intake.seek(placed(self._wire, [WirePartition(*partition)], checked(to), TIMEOUT_S)[0])

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these partitions, or of any, until they are resumed; the group is still attended to."""
        chosen = set(partitions) or self.assignment()
        for tp, offset in self._intake.handed.drop(chosen).items():
            self._intake.seek(WirePartition(*tp, offset))
        self._wire.pause([WirePartition(*tp) for tp in chosen])
        self._intake.paused |= chosen

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions, or with all that are paused."""
        chosen = set(partitions) or self._intake.paused
        self._wire.resume([WirePartition(*tp) for tp in chosen & self.assignment()])
        self._intake.paused = self._intake.paused - chosen

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record to be handed out, for every partition where it is known."""
        found = {TopicPartition(p.topic, p.partition): p.offset for p in self._wire.position(self._wire.assignment())}
        found |= self._intake.begins
        for message in reversed(self._intake.handed.messages[self._intake.handed.at :]):
            found[TopicPartition(message.topic(), message.partition())] = message.offset()  # type: ignore[arg-type,assignment]
        return {tp: offset for tp, offset in found.items() if offset >= 0}

    def lag(self, timeout_s: float = TIMEOUT_S) -> dict[TopicPartition, int]:
        """How many records each assigned partition still holds for this consumer, transaction markers counted too."""
        held = self.assignment()
        begins = self.positions()
        if self.group is not None and held - begins.keys():
            begins |= self.committed(*(held - begins.keys()), timeout_s=timeout_s)
        found = {}
        for tp in held:
            try:
                low, high = self._wire.get_watermark_offsets(WirePartition(*tp), timeout_s, False)
            except KafkaException as exception:
                raise translated(exception, f"asking for the end of {tp}") from exception
            is_at_end = self._intake.begins.get(tp, self._end_of_start) == OFFSET_END
            found[tp] = max(0, high - max(begins.get(tp, high if is_at_end else low), low))
        return found

    # Commits

    def commit(self, record: Record | None = None, *, wait: bool = True) -> None:
        """Commit all that was handed out, the current record too; or just up to and with this record.

        PartitionsLost when another member of the group has the partitions by now.
        """
        self._check_commits()
        if record is None:
            self._intake.commit_handed(wait=wait)
        else:
            self.commit_offsets({record.topic_partition: record.offset + 1}, wait=wait)

    def commit_offsets(self, offsets: Mapping[TopicPartition, int], *, wait: bool = True) -> None:
        """Commit these offsets: for each partition that of the record to be read next."""
        self._check_commits()
        self._intake.commit([WirePartition(*tp, offset) for tp, offset in offsets.items()], wait=wait)

    def committed(self, *partitions: TopicPartition, timeout_s: float = TIMEOUT_S) -> dict[TopicPartition, int]:
        """What the group has committed for these partitions, or the assigned ones; those without any are left out."""
        self._check_group("ask for committed offsets")
        chosen = partitions or tuple(self.assignment())
        try:
            found = self._wire.committed([WirePartition(*tp) for tp in chosen], timeout_s)
        except KafkaException as exception:
            raise translated(exception, f"asking for the offsets of group {self.group!r}") from exception
        return {TopicPartition(p.topic, p.partition): p.offset for p in found if p.offset >= 0}

    # For transactions

    def progress(self) -> Progress:
        """What was handed out since the last commit, and as which member; PartitionsLost when it is none any more.

        Whether it is committed is open from here on, and to ask for more is TransactionAborted, until
        ``mark_committed`` or ``rewind``.
        """
        self._check_group("commit")
        handed = self._intake.handed
        handed.fold(handed.at)
        if handed.is_unsettled:
            raise TransactionAborted(f"it is open what the group {self.group!r} has committed; it goes on from there")
        membership = self._wire.consumer_group_metadata()
        # Taken as no member's, the commit would not be checked at all: the group would let a zombie's pass.
        # And what went to others would be missing from it, while its outputs may be in the transaction.
        if handed.has_lost or (handed.spans and not self._wire.memberid()):
            raise PartitionsLost(f"the group {self.group!r} has moved on; its records will be handed out again")
        handed.is_unsettled = bool(handed.spans)
        return Progress(handed.offsets(), membership)

    def mark_committed(self) -> None:
        """The transaction has committed ``progress``."""
        self._intake.handed.settle()

    def rewind(self, *, to_committed: bool = False, timeout_s: float = TIMEOUT_S) -> None:
        """Hand out again what was not committed; asks the group where that begins if ``to_committed`` or unsettled.

        If it fails, all stays unsettled, for the next to try again.
        """
        if self._is_closed:
            return  # It hands out nothing more.
        handed = self._intake.handed
        handed.fold(handed.at)
        asks = to_committed or handed.is_unsettled
        handed.is_unsettled = True
        held = self.assignment()
        begins = {tp: span.first for tp, span in handed.spans.items() if tp in held}
        if asks and begins:
            begins |= self.committed(*begins, timeout_s=timeout_s)
        for (topic, partition), offset in begins.items():
            self._intake.seek(WirePartition(topic, partition, offset))
        handed.settle()

    # Ending

    def close(self) -> None:
        """Commit what is processed, leave the group and let go."""
        if self._is_closed:
            return
        self._is_closed = True
        self._stopped.set()
        self._intake.store()
        try:
            self._intake.close()
        except KafkaException as exception:
            raise translated(exception, "closing a consumer") from exception

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Within

    def quiet(self, idle_s: float | None, patience_s: float) -> Quiet:
        """What tells when nothing has come for so long, and when no broker answers."""
        return Quiet(self._intake.reach, idle_s, patience_s)

    def _wait(self, idle_s: float | None, timeout_s: float | None = None) -> bool:
        """Attend to the group and have something to hand out; False when it is time to end."""
        self._check_open()
        intake, handed = self._intake, self._intake.handed
        quiet = Quiet(intake.reach, idle_s)
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._stopped.is_set():
            if handed.left():
                if time.monotonic() >= intake.attend_due_s:
                    intake.fetch(1, 0)
                if handed.left():  # The group may have taken them.
                    return True
                continue
            left_s = SLICE_S if deadline_s is None else min(SLICE_S, deadline_s - time.monotonic())
            if left_s < 0 or quiet.is_over():
                return False
            intake.fetch(1, left_s)
            if handed.left():  # One has come, and the rest of what came with it need not be waited for.
                intake.fetch(intake.fetch_records, 0)
        return False

    def _check_open(self) -> None:
        if self._is_closed:
            raise BadUse("the consumer is closed")

    def _check_commits(self) -> None:
        self._check_group("commit")
        if self.delivery is Delivery.EXACTLY_ONCE:
            raise BadUse("an exactly_once consumer commits in a transaction: `with producer.transaction(consumer): …`")

    def _check_group(self, what: str) -> None:
        self._check_open()
        if self.group is None:
            raise BadUse(f"a consumer without a group cannot {what}: pass group=…")
