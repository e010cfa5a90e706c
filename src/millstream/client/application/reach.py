"""Whether brokers answer: silence alone does not tell a topic without news from a cluster that is down."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaException

from millstream.client.application.errors import Unreachable, translated
from millstream.client.wire import parse_addresses

if TYPE_CHECKING:
    from confluent_kafka import Consumer as Wire

#: A cluster that never answered is given up after this long, one that did after the longer time.
FIRST_S = 5.0
PATIENCE_S = 30.0
#: A group whose members are slow to share the partitions out is waited for so long, whatever ``idle_s``.
JOIN_S = 30.0
#: By the consumer protocol nobody is told that there is no partition for them; two heartbeats are time to be given one.
JOIN_SILENTLY_S = 10.0
PROBE_S = 1.0
KNOCK_S = 1.0

Answer = TypeVar("Answer")


def unreachable(bootstrap: str, doing: str) -> Unreachable:
    """What to say when there is nobody at the address."""
    return Unreachable(f"{doing}: no broker answers at {bootstrap}; is one running there (`millstream serve`)?")


def is_refused(bootstrap: str) -> bool:
    """Whether nobody listens at any of the addresses, or none has a host; one that keeps silent may yet speak."""
    try:
        addresses = parse_addresses(bootstrap)
    except ValueError:
        return False  # librdkafka takes more than we do.
    for host, port in addresses:
        try:
            socket.create_connection((host, port), KNOCK_S).close()
        except (ConnectionRefusedError, socket.gaierror):
            continue
        except OSError:
            pass
        return False
    return True


def waited(bootstrap: str, future: Future[Any], doing: str) -> Any:
    """An answer of confluent-kafka's admin client; Unreachable soon, and not late, where connections are refused."""
    while True:
        try:
            return future.result(FIRST_S)
        except KafkaException as exception:
            error = translated(exception, doing)
            if isinstance(error, Unreachable):
                raise Unreachable(f"{error} (asked {bootstrap})", code=error.code) from exception
            raise error from exception
        except NotYet:
            if is_refused(bootstrap):
                raise unreachable(bootstrap, doing) from None


def asked(bootstrap: str, timeout_s: float, ask: Callable[[float], Answer], doing: str) -> Answer:
    """The same for a call that takes a time-out and waits."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            return ask(max(0.1, min(FIRST_S, deadline_s - time.monotonic())))
        except KafkaException as exception:
            error = translated(exception, doing)
            if not isinstance(error, Unreachable):
                raise error from exception
            if time.monotonic() >= deadline_s or is_refused(bootstrap):
                raise unreachable(bootstrap, doing) from exception


class Reach:
    """What a consumer knows of its brokers and its group."""

    def __init__(self, wire: Wire, bootstrap: str, *, in_group: bool, join_s: float = JOIN_S) -> None:
        self._wire = wire
        self.bootstrap = bootstrap
        self.in_group = in_group
        self.join_s = join_s
        self.has_answered = False
        #: When the group last gave partitions, or none; None until it first did.
        self.joined_s: float | None = None

    def answers(self) -> bool:
        """Whether a broker answers now."""
        try:
            self._wire.list_topics(timeout=PROBE_S)
        except KafkaException:
            return False
        self.has_answered = True
        return True


class Quiet:
    """Time in which nothing comes: it counts only while brokers answer, and from when the group has shared out."""

    def __init__(
        self,
        reach: Reach,
        idle_s: float | None,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reach = reach
        self._idle_s = idle_s
        self._patience_s = patience_s
        self._clock = clock
        self._began_s = self._since_s = clock()
        self._away_s: float | None = None
        self._look_s = self._began_s + min(FIRST_S, idle_s or 0.0)

    def is_over(self) -> bool:
        """Whether nothing has come for so long; Unreachable once brokers have been silent for too long."""
        now_s = self._clock()
        if self._idle_s is None or now_s < self._look_s:
            return False
        if not self._reach.answers():
            if self._away_s is None:
                self._away_s = now_s if self._reach.has_answered else self._began_s
            if self._clock() - self._away_s >= (self._patience_s if self._reach.has_answered else FIRST_S):
                raise unreachable(self._reach.bootstrap, "reading")
            self._look_s = now_s + PROBE_S
            return False
        if self._away_s is not None:
            self._away_s = None
            self._since_s = self._clock()
        joined_s = self._reach.joined_s
        if self._reach.in_group and joined_s is None:
            self._look_s = now_s + PROBE_S / 2
            return now_s - self._began_s >= max(self._reach.join_s, self._idle_s)
        self._look_s = max(self._since_s, joined_s or 0.0) + self._idle_s
        return now_s >= self._look_s
