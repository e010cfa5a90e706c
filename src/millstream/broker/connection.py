"""A client's connection: requests are started as they arrive, answers leave in that order.

Invariant: a request that can be answered at once makes no task.  One that must wait holds back the answers
behind it, never the requests.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from millstream.broker.refused_batches import RefusedBatches
from millstream.broker.routes import Route, Router
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.net.eager import Suspended
from millstream.net.outbox import Part
from millstream.net.peer import FramedPeer, Limits
from millstream.net.vigil import Vigil
from millstream.protocol.codec import decode, encode_parts
from millstream.protocol.headers import RequestHeader, decode_request_header, response_header
from millstream.protocol.messages.api_versions import ApiVersionsRequest
from millstream.replication.history import HistoryReader

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

logger = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")
_API_VERSIONS = ApiVersionsRequest.API_KEY.to_bytes(2)
#: How many answers may wait on one connection before no more of its requests are read.
WAITING_MAX = 1000
#: When requests came several at once, how many must come alone before their client is taken to wait for each answer.
ALONE_LEAST = 16
#: How much of them may be kept, encoded, behind one that is not ready.
WAITING_BYTES_MAX = 4 * 1024 * 1024


class Disconnect(Exception):
    """The one refusal a client can be given that asked for no answer: the connection is closed."""


class Call:
    """One request on its way: who asked, in which version, and the answer once there is one."""

    __slots__ = (
        "began_s",
        "connection",
        "frame_bytes",
        "header",
        "is_answered",
        "parts",
        "route",
        "suspended",
        "version",
    )

    def __init__(
        self, connection: "ClientConnection", header: RequestHeader, route: Route | None, frame_bytes: int
    ) -> None:
        self.connection = connection
        self.header = header
        self.version = header.api_version
        self.route = route
        self.frame_bytes = frame_bytes
        self.began_s = connection.now_s()
        self.suspended: Suspended | None = None
        self.is_answered = False
        self.parts: list[Part] = []

    @property
    def name(self) -> str:
        return f"API {self.header.api_key}" if self.route is None else self.route.name


def framed(header: RequestHeader, response: Any, version: int) -> list[Part]:
    """A whole response frame, its records left in their files."""
    head = response_header(header.api_key, version, header.correlation_id)
    parts: list[Any] = encode_parts(response, version)
    if len(parts) == 1:
        return [_LENGTH.pack(len(head) + len(parts[0])) + head + parts[0]]
    size = len(head) + sum(map(len, parts))
    return [_LENGTH.pack(size) + head, *parts]


class ClientConnection(FramedPeer):
    """Finds each request's handler, runs it, and sends the answers in order."""

    def __init__(
        self,
        broker: "Broker",
        router: Router,
        listener: str,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        vigil: Vigil,
    ) -> None:
        super().__init__(loop, limits)
        #: The name of the listener it came by.
        self.listener = listener
        #: Whether another broker of the cluster has it, as it said in its first request.
        self.is_broker = False
        self.refused_batches = RefusedBatches()
        #: Its reading of old records, while it does that.
        self.history: HistoryReader | None = None
        self._broker = broker
        self._router = router
        self._vigil = vigil
        self.now_s = broker.clock.monotonic_s  # Not the loop's, which may keep its time for a turn.
        self._outgoing: list[Part] = []
        self._waiting: deque[Call] = deque()
        self._held: deque[bytearray] | None = None
        self._is_early = False
        self._kept_bytes = 0
        self._asked = 0
        self._alone_due = 0
        self._is_watched_for = True

    # Requests in.

    def frame_received(self, frame: memoryview) -> None:
        if self.is_closed:
            return
        if self._held is not None and not (self._is_early and self._is_for_brokers(frame)):
            self._held.append(bytearray(frame))
            return
        header = decode_request_header(frame)
        route = self._router.find(header.api_key, header.api_version)
        if route is None:
            self._answer_unknown(header, len(frame))
            return
        request = decode(route.request, frame, header.api_version, header.body_at)
        call = Call(self, header, route, len(frame))
        self._asked += 1
        if self._is_watched_for:
            self._vigil.asked_s = call.began_s
        coroutine = route.handler(self._broker, request, call)
        try:
            awaited = coroutine.send(None)
        except StopIteration as stop:
            self._answered(call, stop.value)
        except Exception as error:
            self._failed(call, error)
        else:
            self._waiting.append(call)
            call.suspended = Suspended(self.loop, coroutine, awaited, partial(self._finished, call))

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Start no further request of this connection inside the block: for work off the loop that must keep order."""
        assert self._held is None
        self._held = deque()
        try:
            yield
        finally:
            if not self.loop.is_closed():  # Else this is a coroutine that nobody ended, collected as garbage.
                self.loop.call_soon(self._start_held)  # Not before the request that holds them has appended.

    def _is_for_brokers(self, frame: memoryview) -> bool:
        """Whether a broker that no client may see yet answers it: another broker asks, or somebody says who it is."""
        return self.is_broker or frame[:2] == _API_VERSIONS

    def let_in(self) -> None:
        """The broker answers clients from now on, and what they have asked before."""
        if self._is_early:
            self._is_early = False
            self._start_held()

    def _start_held(self) -> None:
        held, self._held = self._held or deque(), None
        while held and not self.is_closed:
            try:
                self.frame_received(memoryview(held.popleft()))
            except CorruptFrame as fault:
                self.refused(str(fault))
                self.close()
        self.turn_ended()
        self.pace_reading()

    # Answers out.

    def _answered(self, call: Call, response: Any) -> None:
        """A request that did not have to wait is done; its answer leaves after those that wait."""
        parts = self._encoded(call, response)
        if self._waiting:
            self._keep(call, parts)
            self._waiting.append(call)
        else:
            self._outgoing += parts

    def _finished(self, call: Call, response: Any, error: Exception | None) -> None:
        """A request that had to wait is done; send it, and what waited behind it."""
        if self.is_closed:
            return
        if error is None:
            self._keep(call, self._encoded(call, response))
        else:
            self._failed(call, error)
        while self._waiting and self._waiting[0].is_answered:
            parts = self._waiting.popleft().parts
            self._kept_bytes -= sum(map(len, parts))
            self._outgoing += parts
        self.turn_ended()
        self.pace_reading()

    def _keep(self, call: Call, parts: list[Part]) -> None:
        call.is_answered = True
        call.parts = parts
        self._kept_bytes += sum(map(len, parts))

    def _encoded(self, call: Call, response: Any) -> list[Part]:
        """The answer as it is sent, nothing where the client wants none; here every request ends, and is counted."""
        now_s = self.now_s()
        if call.route is not None:
            self._broker.request_times.observe(call.route, now_s - call.began_s, by_broker=self.is_broker)
        if not self.is_broker and self.history is None:
            self._broker.company.came(now_s, self)
        if response is None:
            return []
        try:
            return framed(call.header, response, call.version)
        except Exception:
            logger.exception("the answer to %s from %s cannot be encoded", call.name, self.address)
            self.close()
            return []

    def _failed(self, call: Call, error: BaseException) -> None:
        if isinstance(error, Disconnect):
            self._cut_off(str(error))
            return
        code = error.code if isinstance(error, ProtocolError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(error, ProtocolError):
            logger.error("request %s from %s failed", call.name, self.address, exc_info=error)
        assert call.route is not None
        refusal = call.route.refusal(code, str(error) if isinstance(error, ProtocolError) else None)
        if refusal is None:
            self._cut_off(f"{call.name} has no place for the error {code.name}")
        elif call.suspended is None:
            self._answered(call, refusal)
        else:
            self._keep(call, self._encoded(call, refusal))

    def _answer_unknown(self, header: RequestHeader, frame_bytes: int) -> None:
        """Only ApiVersions can be answered in a version not known here: with version 0, and the range that is."""
        answer = self._router.unknown_version(header.api_key)
        if answer is None:
            self._cut_off(f"API {header.api_key} version {header.api_version} is not served")
        else:
            call = Call(self, header, None, frame_bytes)
            call.version = 0
            self._answered(call, answer)

    def _cut_off(self, reason: str) -> None:
        """Close, after what was answered before."""
        self.refused(reason)
        self.turn_ended()
        self.close()

    def turn_ended(self) -> None:
        asked, self._asked = self._asked, 0
        if asked > 1 or self._alone_due:
            self._note_asked(asked)
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            self.send(outgoing)
            if self._is_watched_for:
                self._vigil.answered()

    def _note_asked(self, count: int) -> None:
        """Watch for a client's next request where it waits for answers, or has the broker to itself.

        Who asks ahead has what to do; to watch for it keeps others from the processor.
        """
        if count > 1:
            self._alone_due = ALONE_LEAST
        elif count:
            self._alone_due -= 1
        self._is_watched_for = not self._alone_due or not self._broker.company.has_others(self)

    # Limits and the end.

    def is_overfull(self) -> bool:
        return (
            (self._held is not None and not (self._is_early and not self._held))
            or len(self._waiting) > WAITING_MAX
            or self._kept_bytes > WAITING_BYTES_MAX
        )

    def refused(self, reason: str) -> None:
        logger.info("closing the connection from %s: %s", self.address, reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._broker.is_open:
            self._held, self._is_early = deque(), True
        if not self._broker.admits(self):
            self.refused("there are as many connections as max.connections or max.connections.per.ip allow")
            self.close()

    def closed(self) -> None:
        self._broker.dismiss(self)
        for call in self._waiting:
            if call.suspended is not None:
                call.suspended.cancel()
        self._waiting.clear()
