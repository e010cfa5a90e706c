"""One outbound connection: requests leave at once, answers come back in the same order.

``call`` is for everyone: a message out, a message back, at the newest version both sides speak. ``send_frame`` is for
those in a hurry: whole frames, encoded beforehand and sent as often as wanted, and the answers' bytes uncopied.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.net.network import Network
from millstream.net.peer import FramedPeer, Limits
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_response_header, encode_request_header
from millstream.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from millstream.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)

#: What we say we are when a connection begins.
SOFTWARE = "millstream"
#: Whatever the other side answers is taken; this bounds a length that cannot be one.
FRAME_BYTES_MAX = (1 << 31) - 1
#: Answers are read however much of our own still waits to leave, or two full sides would wait for each other.
UNSENT_BYTES_MAX = 1 << 62
#: Kafka asks first at this version; a broker that does not know it answers at version 0 and lists what it knows.
_FIRST_VERSION = 3
_LENGTH = struct.Struct(">i")
_CORRELATION_AT = 8
_SHORT = struct.Struct(">h")
#: SO_LINGER: on, for no time at all.
_AT_ONCE = struct.pack("ii", 1, 0)

#: Called with an answer's frame, valid during the call, or with None when the connection was lost first.
Answered = Callable[[memoryview | None], None]


class ConnectionLost(ConnectionResetError):
    """The connection ended while an answer was awaited, so whether the request was served is not known."""


def outbound_limits() -> Limits:
    """Limits for connections that ask; several of one loop may share them, and the buffer in them."""
    return Limits(FRAME_BYTES_MAX, unsent_bytes_max=UNSENT_BYTES_MAX)


def _nothing() -> None:
    """Nobody wants to know."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Connection(FramedPeer):
    """One broker's socket, with the versions it speaks; made by ``reach``."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        client_id: str,
        software: str = SOFTWARE,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(loop, limits or outbound_limits())
        self.broker = address
        self.client_id = client_id
        #: Called when the connection is gone, after everybody who awaited an answer on it.
        self.on_closed: Callable[[], None] = _nothing
        self._software = software
        #: API key -> the versions the broker takes, both ends included.
        self.versions: dict[int, tuple[int, int]] = {}
        self._last_correlation_id = 0
        self._awaited: deque[tuple[int, Answered]] = deque()
        #: What was asked in this turn of the loop.
        self._held: list[bytes] = []
        self._fault = ""

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answers."""
        return len(self._awaited)

    @property
    def unsent_bytes(self) -> int:
        """What was sent and has not left this side yet."""
        return self._outbox.pending_bytes

    async def call(
        self, request: Request, response: type[R], *, version: int | None = None, timeout_s: float | None = None
    ) -> R:
        """The broker's answer to ``request``; TimeoutError when none comes, ConnectionLost when none can."""
        if version is None:
            version = self.version_for(type(request))
        frame = await self.exchange(self.frame_of(request, version), timeout_s)
        return self.answer_of(response, frame, version)

    async def exchange(self, frame: bytes, timeout_s: float | None = None) -> memoryview:
        """Send one encoded frame and return a copy of the answer's.

        What is asked in one turn of the loop goes in one piece.
        """
        answer: asyncio.Future[memoryview] = self.loop.create_future()

        def answered(view: memoryview | None) -> None:
            if answer.done():
                return  # The caller gave up; the answer is let go in its turn.
            if view is None:
                answer.set_exception(self._lost())
            else:
                answer.set_result(memoryview(bytearray(view)))

        self._send_soon(frame, answered)
        if timeout_s is None:
            return await answer
        # By a timer of the loop's: whoever awaits this need not be a task.
        timer = self.loop.call_later(timeout_s, self._give_up, answer, timeout_s)
        try:
            return await answer
        finally:
            timer.cancel()

    def send_frame(self, frame: bytes, answered: Answered | None) -> None:
        """Send an encoded frame; ``answered`` is None for a request that gets no answer (a produce with acks 0)."""
        if self.is_closed:
            raise self._lost()
        if answered is not None:
            self._awaited.append((_LENGTH.unpack_from(frame, _CORRELATION_AT)[0], answered))
        self._send_held()
        self.send((frame,))

    def send_frames(self, frames: Sequence[tuple[bytes, Answered]]) -> None:
        """Send several that are answered, in one piece: half the work for both sides where each is small."""
        if self.is_closed:
            raise self._lost()
        self._awaited.extend((_LENGTH.unpack_from(frame, _CORRELATION_AT)[0], answered) for frame, answered in frames)
        self._send_held()
        self.send([frame for frame, _ in frames])

    def _send_soon(self, frame: bytes, answered: Answered) -> None:
        """Send it when everybody whose turn it is has asked."""
        if self.is_closed:
            raise self._lost()
        self._awaited.append((_LENGTH.unpack_from(frame, _CORRELATION_AT)[0], answered))
        if not self._held:
            self.loop.call_soon(self._send_held)
        self._held.append(frame)

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self.send(held)

    def frame_of(self, request: Request, version: int) -> bytes:
        """The request as it goes over the wire; it may be sent any number of times."""
        self._last_correlation_id = self._last_correlation_id + 1 & 0x7FFFFFFF
        header = encode_request_header(request.API_KEY, version, self._last_correlation_id, self.client_id)
        body = encode(request, version)
        return _LENGTH.pack(len(header) + len(body)) + header + body

    def answer_of(self, response: type[R], frame: memoryview, version: int) -> R:
        """The message in an answer's frame; its records are views of the frame."""
        _, at = decode_response_header(frame, response.API_KEY, version)
        return decode(response, frame, version, at)

    def version_for(self, request: type[Request]) -> int:
        """The newest version of a request that both sides know; UNSUPPORTED_VERSION when there is none."""
        least, most = request.VERSIONS
        name = request.__name__.removesuffix("Request")
        if request.API_KEY not in self.versions:
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, f"{self.broker} does not serve {name}")
        broker_least, broker_most = self.versions[request.API_KEY]
        if max(least, broker_least) > min(most, broker_most):
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.broker} serves {name} at versions {broker_least}-{broker_most}, {least}-{most} are known here",
            )
        return min(most, broker_most)

    async def negotiate(self, timeout_s: float | None = None) -> None:
        """Ask the broker which versions it takes; every connection begins with this, or ends."""
        try:
            await self._negotiate(timeout_s)
        except BaseException:
            self.close()
            raise

    async def _negotiate(self, timeout_s: float | None) -> None:
        from millstream import __version__

        request = ApiVersionsRequest(client_software_name=self._software, client_software_version=__version__)
        frame = await self.exchange(self.frame_of(request, _FIRST_VERSION), timeout_s)
        if len(frame) < 6:
            raise CorruptFrame(f"{self.broker} answered {len(frame)} bytes when asked for its versions")
        was_refused = _SHORT.unpack_from(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION
        answer = self.answer_of(ApiVersionsResponse, frame, 0 if was_refused else _FIRST_VERSION)
        if answer.error_code and not was_refused:
            raise ProtocolError(ErrorCode(answer.error_code), f"{self.broker} did not tell its versions")
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
        if was_refused and ApiVersionsRequest.API_KEY in self.versions and len(self.versions) == 1:
            await self._negotiate_again(timeout_s)

    async def _negotiate_again(self, timeout_s: float | None) -> None:
        """A broker may answer the first try with nothing but the range of ApiVersions itself."""
        version = min(_FIRST_VERSION - 1, self.versions[ApiVersionsRequest.API_KEY][1])
        answer = await self.call(ApiVersionsRequest(), ApiVersionsResponse, version=version, timeout_s=timeout_s)
        self.versions = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def give_up(self) -> None:
        """Cut the connection, and have what has not arrived yet arrive no more: it may be sent again another way.

        A mere close would leave it to the system, which goes on sending for minutes.
        """
        sock = None if self.is_closed else self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.close()

    # What the peer underneath says.

    def frame_received(self, frame: memoryview) -> None:
        if len(frame) < 4 or not self._awaited:
            raise CorruptFrame("an answer that nobody asked for")
        correlation_id, answered = self._awaited.popleft()
        if _LENGTH.unpack_from(frame)[0] != correlation_id:
            self._awaited.appendleft((correlation_id, answered))
            raise CorruptFrame("an answer out of its turn")
        answered(frame)

    def refused(self, reason: str) -> None:
        self._fault = reason

    def closed(self) -> None:
        awaited, self._awaited = self._awaited, deque()
        for _, answered in awaited:
            answered(None)
        self.on_closed()

    def _give_up(self, answer: asyncio.Future[memoryview], timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(TimeoutError(f"{self.broker} did not answer within {timeout_s:g} s"))

    def _lost(self) -> ConnectionLost:
        why = f": it sent {self._fault}" if self._fault else ""
        return ConnectionLost(f"the connection to {self.broker} was closed{why}")


async def reach(
    network: Network,
    address: Address,
    *,
    client_id: str,
    software: str = SOFTWARE,
    limits: Limits | None = None,
    timeout_s: float = 10.0,
) -> Connection:
    """A connection to whoever listens at ``address``, which is yet to ``negotiate``.

    ConnectionRefusedError where nobody listens, TimeoutError where nobody answers, else another OSError.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await network.connect(
                lambda: Connection(loop, address, client_id, software, limits), address.host, address.port
            )
    except TimeoutError:
        raise TimeoutError(f"{address} does not answer: no connection within {timeout_s:g} s") from None
    return connection
