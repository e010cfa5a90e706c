"""What stands between a consumer and librdkafka: fetching, attending to the group, committing, seeking."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer as Wire
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as WirePartition

from millstream.client.application.delivery import Delivery
from millstream.client.application.errors import BadUse, PartitionsLost, known, translated
from millstream.client.application.handed import Handed
from millstream.client.application.reach import JOIN_S, JOIN_SILENTLY_S, Reach
from millstream.client.application.settings import LOGGER, heard, made
from millstream.client.application.start import Start
from millstream.client.application.subscription import begun, every_partition, subscribed_name
from millstream.model.ids import TopicPartition

#: The group is attended to at least this often while records are handed out, however long each takes.
ATTEND_EVERY_S = 0.5
#: At most so many are fetched ahead of the loop; at-most-once commits as many before the first is handed out.
FETCH_RECORDS = 1_000
FETCH_RECORDS_AT_MOST_ONCE = 100
TIMEOUT_S = 30.0
#: Leaving a group takes a moment; one that cannot be reached hears nothing of it.
LEAVE_S = 5.0
LEAVE_SLICE_S = 0.005

#: What librdkafka reports and mends by itself.
_PASSING = {
    KafkaError._PARTITION_EOF,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._MAX_POLL_EXCEEDED,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
}


Assigned = Callable[[set[TopicPartition]], object]


class Intake:
    """One consumer of librdkafka, and what it has fetched.  The group's calls come in ``fetch`` and nowhere else."""

    def __init__(
        self,
        settings: dict[str, Any],
        *,
        group: str | None,
        start: Start,
        delivery: Delivery,
        on_assign: Assigned | None,
        on_revoke: Assigned | None,
    ) -> None:
        self.group = group
        self.delivery = delivery
        self.start = start
        self.on_assign, self.on_revoke = on_assign, on_revoke
        strategy = str(settings.get("partition.assignment.strategy", ""))
        self.is_incremental = "cooperative" in strategy or settings.get("group.protocol") == "consumer"
        #: Whether it leaves the group when it ends; a static member keeps its place, whoever comes next.
        self.is_to_leave = False
        self.is_static = bool(settings.get("group.instance.id"))
        self.has_server_ids = settings.get("group.protocol") != "consumer"
        self.wire = made(Wire, settings)
        join_s = JOIN_SILENTLY_S if settings.get("group.protocol") == "consumer" else JOIN_S
        self.reach = Reach(self.wire, str(settings["bootstrap.servers"]), in_group=group is not None, join_s=join_s)
        self.handed = Handed(is_counted=group is not None)
        self.paused: set[TopicPartition] = set()
        #: Where partitions were told to begin, or go on, of which nothing has come since.
        self.begins: dict[TopicPartition, int] = {}
        #: When the group wants to be attended to, whatever is still to be handed out.
        self.attend_due_s = 0.0
        is_early = delivery is Delivery.AT_MOST_ONCE
        self.fetch_records = FETCH_RECORDS_AT_MOST_ONCE if is_early else FETCH_RECORDS

    def subscribe(self, topics: tuple[str | re.Pattern[str], ...]) -> None:
        if self.group is None:
            self.assign(self.begun_at(every_partition(self.wire, topics, self.reach.bootstrap, TIMEOUT_S)))
            return
        self.wire.subscribe(
            [subscribed_name(topic) for topic in topics],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        self.is_to_leave = not self.is_static

    def close(self) -> None:
        """Leave the group and let go.

        The group is left before, with its calls attended to: librdkafka 2.16 waits for ever, and holds Python's lock
        meanwhile, where partitions are given to a consumer that is being closed (its issue 4884).
        """
        try:
            if self.is_to_leave:
                self._leave()
        finally:
            self.wire.close()

    def _leave(self) -> None:
        self.wire.unsubscribe()
        deadline_s = time.monotonic() + LEAVE_S
        while self._is_member() and time.monotonic() < deadline_s:
            self.wire.consume(1, LEAVE_SLICE_S)

    def _is_member(self) -> bool:
        """Whether the group may still call; a member that chose its own id keeps it when it has left."""
        return bool(self.wire.assignment()) or (self.has_server_ids and bool(self.wire.memberid()))

    def begun_at(self, partitions: list[WirePartition]) -> list[WirePartition]:
        return begun(self.wire, partitions, self.start, in_group=self.group is not None, timeout_s=TIMEOUT_S)

    def _assigned(self, wire: Wire, partitions: list[WirePartition]) -> None:
        self.reach.joined_s = time.monotonic()
        if not isinstance(self.start, str):
            (wire.incremental_assign if self.is_incremental else wire.assign)(self.begun_at(partitions))
        if self.on_assign is not None:
            self.on_assign({TopicPartition(p.topic, p.partition) for p in partitions})

    def _revoked(self, _wire: Wire, partitions: list[WirePartition]) -> None:
        """Others will read these: forget what is fetched of them. What is processed of them was stored before."""
        gone = {TopicPartition(p.topic, p.partition) for p in partitions}
        self.handed.forget(gone)
        self.begins = {tp: offset for tp, offset in self.begins.items() if tp not in gone}
        self.paused -= gone
        if self.on_revoke is not None:
            self.on_revoke(gone)

    def assign(self, partitions: list[WirePartition]) -> None:
        """Read these, each from its offset, and no others."""
        self.reach.joined_s = time.monotonic()
        self.handed.clear()
        self.begins = {TopicPartition(p.topic, p.partition): p.offset for p in partitions}
        self.wire.assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition(p.topic, p.partition) for p in self.wire.assignment()}

    def fetch(self, count: int, timeout_s: float) -> None:
        """Fetch some more; the group's calls come to us in here, and nowhere else."""
        self.store()
        try:
            found = heard(self.wire.consume, count, timeout_s, doing="reading")
        except RuntimeError as error:
            raise BadUse(f"the consumer cannot be read: {error}") from error
        self.attend_due_s = time.monotonic() + ATTEND_EVERY_S
        good = [message for message in found if message.error() is None]
        if good and self.delivery is Delivery.AT_MOST_ONCE and self.group is not None:
            good = self._committed_first(good)
        self.handed.messages += good
        self.reach.has_answered = self.reach.has_answered or bool(good)
        if self.begins:
            for tp in {(message.topic(), message.partition()) for message in good} & self.begins.keys():
                del self.begins[tp]  # type: ignore[arg-type]  # A plain pair is equal.
        if len(good) < len(found):
            self._report([wrong for message in found if (wrong := message.error()) is not None])

    def _committed_first(self, messages: list[Message]) -> list[Message]:
        ahead = Handed()
        ahead.messages = messages[:]
        ahead.fold(len(messages))
        try:
            self.commit(ahead.offsets(), wait=True)
        except PartitionsLost as lost:
            LOGGER.warning("%s", lost)
            return []
        return messages

    def _report(self, errors: Iterable[KafkaError]) -> None:
        for error in errors:
            if error.fatal() or (error.code() not in _PASSING and not error.retriable()):
                raise known(error, "reading")
            if error.code() != KafkaError._PARTITION_EOF:
                LOGGER.warning("%s", error.str())

    def store(self) -> None:
        """Note what is processed, for librdkafka to commit in its own time, or when partitions are taken away."""
        self.handed.fold(self.handed.done)
        if self.delivery is not Delivery.AT_LEAST_ONCE or self.group is None or not self.handed.spans:
            return
        if self.handed.is_unsettled:
            return  # They hold what is still to be handed out again.
        offsets = self.handed.offsets()
        self.handed.spans.clear()
        try:
            self.wire.store_offsets(offsets=offsets)
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError._STATE:  # Not ours any more: another processes them again.
                raise translated(exception, "storing offsets") from exception

    def commit(self, offsets: list[WirePartition], *, wait: bool) -> None:
        if not offsets:
            return
        try:
            if wait:
                outcomes: list[Any] = self.wire.commit(offsets=offsets, asynchronous=False)
                for outcome in outcomes:
                    if outcome.error is not None:
                        raise known(outcome.error, f"committing {outcome.topic}-{outcome.partition}")
            else:
                self.wire.commit(offsets=offsets, asynchronous=True)
        except KafkaException as exception:
            raise translated(exception, f"committing for group {self.group!r}") from exception

    def commit_handed(self, *, wait: bool) -> None:
        """Commit all that was handed out, the last one too."""
        self.handed.done = self.handed.at
        self.store()
        if self.delivery is not Delivery.AT_LEAST_ONCE:
            offsets = self.handed.offsets()
            self.handed.spans.clear()
            self.commit(offsets, wait=wait)
            return
        try:  # What is stored, also from before.
            if wait:
                self.wire.commit(asynchronous=False)
            else:
                self.wire.commit(asynchronous=True)
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError._NO_OFFSET:
                raise translated(exception, f"committing for group {self.group!r}") from exception

    def seek(self, place: WirePartition) -> None:
        self.handed.drop({(place.topic, place.partition)})
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                self.wire.seek(place)
                self.begins[TopicPartition(place.topic, place.partition)] = place.offset
                return
            except KafkaException as exception:
                code = exception.args[0].code()
                tp = TopicPartition(place.topic, place.partition)
                if tp not in self.assignment():
                    raise BadUse(f"{tp} is not assigned to this consumer") from exception
                # A partition that is only just being assigned cannot be sought in yet.
                if code not in (KafkaError._STATE, KafkaError._TIMED_OUT) or time.monotonic() > deadline_s:
                    raise translated(exception, f"seeking in {tp}") from exception
                time.sleep(0.01)
