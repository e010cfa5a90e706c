"""A driver in memory: feeds a machine, replays its records as they would lie on disk, and keeps virtual time.

Nothing waits for replicas here: an answer is there as soon as it is decided.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from millstream.coordination.decision import Decision, Machine, Origin, Question
from millstream.coordination.groups.group import TopicsChanged, TopicView
from millstream.coordination.schemas import consumer_offsets
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import Uuid

Encode = Callable[[CoordinatorRecord], tuple[bytes, bytes | None]]
Decode = Callable[[bytes, bytes | None], CoordinatorRecord]

START_MS = 1_000_000


class Topics:
    """A cluster's topics, made and deleted by hand; a topic's id is its name's first letters."""

    def __init__(self, **partition_counts: int) -> None:
        self._views: dict[str, TopicView] = {}
        #: Of partitions that have any.
        self._racks: dict[tuple[str, int], frozenset[str]] = {}
        for name, count in partition_counts.items():
            self.make(name, count)

    def make(self, name: str, partition_count: int, topic_id: Uuid | None = None) -> TopicView:
        """Add a topic, or widen it."""
        view = TopicView(topic_id or topic_id_of(name), name, partition_count)
        self._views[name] = view
        return view

    def delete(self, name: str) -> None:
        del self._views[name]

    def put_racks(self, name: str, partition: int, *racks: str) -> None:
        self._racks[name, partition] = frozenset(racks)

    def by_name(self, name: str) -> TopicView | None:
        return self._views.get(name)

    def by_id(self, topic_id: Uuid) -> TopicView | None:
        return next((view for view in self._views.values() if view.topic_id == topic_id), None)

    def names(self) -> Iterator[str]:
        return iter(self._views)

    def racks(self, topic: TopicView, partition: int) -> frozenset[str]:
        return self._racks.get((topic.name, partition), frozenset())


def topic_id_of(name: str) -> Uuid:
    """The id that ``Topics`` gives a topic of that name."""
    return name.encode()[:16].ljust(16, b"-")


def counted_ids() -> Callable[[], str]:
    """Member ids that a test can foresee: m1, m2…"""
    numbers = iter(range(1, 1_000_000))
    return lambda: f"m{next(numbers)}"


class Stage:
    """One machine and its log; ``make`` is called again to load the log into a fresh one."""

    def __init__(
        self,
        make: Callable[[], Machine],
        encode: Encode = consumer_offsets.encode_record,
        decode: Decode = consumer_offsets.decode_record,
    ) -> None:
        self._make = make
        self._encode = encode
        self._decode = decode
        self.now_ms = START_MS
        #: What was appended: key, value, origin; or a marker as (producer id, whether it commits).
        self.log: list[tuple[bytes, bytes | None, Origin] | tuple[int, bool]] = []
        #: The records of the last decision that had any, as they were decided.
        self.records: list[CoordinatorRecord] = []
        self.answers: dict[int, Any] = {}
        self.orders: list[Any] = []
        #: The largest decision that the log takes, as a whole.
        self.bytes_max: int | None = None
        self._timers: dict[Hashable, tuple[int, int, Any]] = {}
        self._tickets = 0
        self._timers_set = 0
        self.machine = make()
        self._carry_out(self.machine.loaded(self.now_ms))

    # Asking and telling.

    def begin(self, request: Any, version: int | None = None, client_id: str = "client", host: str = "/host") -> int:
        """Ask, in the newest version unless told; the ticket under which the answer comes, now or later."""
        self._tickets += 1
        at = request.VERSIONS[1] if version is None else version
        self._carry_out(self.machine.decide(Question(request, at, client_id, host, self._tickets), self.now_ms))
        return self._tickets

    def ask(self, request: Any, version: int | None = None, client_id: str = "client", host: str = "/host") -> Any:
        """Ask, and have the answer at once; its refusal is raised."""
        ticket = self.begin(request, version, client_id, host)
        assert ticket in self.answers, f"{request} was not answered at once"
        return self.answers.pop(ticket)

    def refusal(self, request: Any, version: int | None = None) -> ErrorCode:
        """The code that the machine refuses with."""
        try:
            answer = self.ask(request, version)
        except ProtocolError as refusal:
            return refusal.code
        raise AssertionError(f"not refused: {answer}")

    def tell(self, event: Any) -> None:
        """Something happened."""
        self._carry_out(self.machine.decide(event, self.now_ms))

    def topics_changed(self, *names: str) -> None:
        self.tell(TopicsChanged(frozenset(names)))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker arrives in the partition."""
        self.log.append((producer_id, is_commit))
        self.machine.replay_marker(producer_id, is_commit=is_commit)

    # Time.

    def advance(self, by_ms: int) -> None:
        """Let time pass; timers go off in order, those they set included."""
        until_ms = self.now_ms + by_ms
        while True:
            due = [(at_ms, order, key) for key, (at_ms, order, _) in self._timers.items() if at_ms <= until_ms]
            if not due:
                break
            at_ms, _, key = min(due)
            self.now_ms = max(self.now_ms, at_ms)
            _, _, event = self._timers.pop(key)
            self.tell(event)
        self.now_ms = until_ms

    @property
    def timers(self) -> dict[Hashable, int]:
        """What is set, and in how many milliseconds it goes off."""
        return {key: at_ms - self.now_ms for key, (at_ms, _, _) in self._timers.items()}

    # Loading.

    def loaded_anew(self) -> Machine:
        """A fresh machine that has read the whole log; this stage keeps its own."""
        machine = self._make()
        for entry in self.log:
            if len(entry) == 2:
                machine.replay_marker(entry[0], is_commit=entry[1])
            else:
                key, value, origin = entry
                machine.replay(self._decode(key, value), origin)
        return machine

    def restart(self) -> None:
        """The leadership moved: soft state, timers and tickets are lost, and the log is read."""
        self._timers.clear()
        self.answers.clear()
        self.machine = self.loaded_anew()
        self._carry_out(self.machine.loaded(self.now_ms))

    def _carry_out(self, decision: Decision) -> None:
        producer_id = -1 if decision.producer is None else decision.producer.producer_id
        if self._is_too_large(decision):
            assert decision.if_refused is not None
            event = decision.if_refused(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._carry_out(self.machine.decide(event, self.now_ms))
            return
        if decision.records:
            self.records = list(decision.records)
        for record in decision.records:
            key, value = self._encode(record)
            origin = Origin(len(self.log), self.now_ms, producer_id)
            self.log.append((key, value, origin))
            self.machine.replay(self._decode(key, value), origin)
        for name, after_ms, event in decision.timers:
            if after_ms is None:
                self._timers.pop(name, None)
            else:
                self._timers_set += 1
                self._timers[name] = (self.now_ms + after_ms, self._timers_set, event)
        for ticket, response in decision.answers:
            assert ticket not in self.answers, f"ticket {ticket} is answered twice"
            self.answers[ticket] = response
        self.orders += decision.orders

    def _is_too_large(self, decision: Decision) -> bool:
        if self.bytes_max is None or decision.is_divisible:
            return False
        pieces = (piece for record in decision.records for piece in self._encode(record))
        return sum(len(piece or b"") for piece in pieces) > self.bytes_max
