"""Ways to the other brokers: a connection for each kind of request, made when first needed and again when lost.

Answers on one connection come in order, so kinds do not share one: what waits long, a follower's fetch before all,
must not hold up what is urgent.  Only the controller's orders go together.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from millstream.broker.neighbours import Neighbour
from millstream.model.errors import CorruptFrame, ProtocolError
from millstream.net.channel import Connection, outbound_limits, reach
from millstream.net.channels import Answered, Posted
from millstream.net.network import Network
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from millstream.protocol.messages.stop_replica import StopReplicaRequest
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest

_log = logging.getLogger(__name__)

#: What a broker says it is to another; it is then told of the requests that only brokers send.
BROKER_SOFTWARE = "millstream-broker"
#: How long nobody may answer at an address before it is given up.
CONNECT_TIMEOUT_S = 10.0
#: The requests that share a connection, by the API key that names it; any other kind has its own, and of each lane.
SHARED = dict.fromkeys((LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest), LeaderAndIsrRequest.API_KEY)

Find = Callable[[int], Awaitable[Neighbour]]
Refused = Callable[[int, int, bool], None]


class BrokerChannels:
    """``Channels``: to this broker a call, to the others a connection."""

    def __init__(
        self,
        broker_id: int,
        network: Network,
        find: Find,
        here: Callable[[Any], Awaitable[Any]],
        timeout_ms: Callable[[], int],
    ) -> None:
        """``here`` answers what this broker asks itself; ``timeout_ms`` holds for whoever names no other."""
        self._broker_id = broker_id
        self._network = network
        self._find = find
        self._here = here
        self._timeout_ms = timeout_ms
        self._limits = outbound_limits()
        self._lines: dict[tuple[int, int, int], Line] = {}
        self._reached: dict[int, int] = {}
        self._own: set[asyncio.Future[Any]] = set()
        #: Told of a broker's id and epoch when it is registered and refuses a connection (its process is dead, and its
        #: machine is not), and whether it was ever reached under that epoch.
        self.on_refused: Refused = lambda broker_id, epoch, was_reached: None
        #: Told of a broker that hung up, and of one that was connected to.
        self.on_lost: Callable[[int], None] = lambda broker_id: None
        self.on_reached: Callable[[int], None] = lambda broker_id: None

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None, lane: int = 0) -> Any:
        if broker_id == self._broker_id:
            return await (self._here(request) if timeout_ms is None else self._here_within(request, timeout_ms / 1000))
        if timeout_ms is None:
            timeout_ms = self._timeout_ms()
        return await self._line(broker_id, type(request), lane).ask(request, timeout_ms / 1000)

    def post(self, broker_id: int, request: Any, answered: Answered, *, lane: int = 0) -> Posted | None:
        return self._line(broker_id, type(request), lane).post(request, answered)

    async def _here_within(self, request: Any, timeout_s: float) -> Any:
        """Our own answer, if it comes in time; what was begun goes on, for a decision is not broken off half-way."""
        answer: asyncio.Future[Any] = asyncio.ensure_future(self._here(request))
        self._own.add(answer)
        answer.add_done_callback(self._own_done)
        await asyncio.wait([answer], timeout=timeout_s)
        if not answer.done():
            raise TimeoutError(f"broker {self._broker_id} did not answer itself within {timeout_s:g} s")
        return answer.result()

    def _own_done(self, answer: asyncio.Future[Any]) -> None:
        self._own.discard(answer)
        if not answer.cancelled():
            answer.exception()  # Seen: whoever asked may have given up.

    def keep(self, broker_id: int, kind: type[Any]) -> None:
        """Have a connection for that kind of request before there is one to send, and know of its loss."""
        if broker_id != self._broker_id:
            self._line(broker_id, kind).begin()

    def drop(self, broker_id: int) -> None:
        """The broker is gone or has registered anew: whoever waits for its answer is let go."""
        for key in [key for key in self._lines if key[0] == broker_id]:
            self._lines.pop(key).close()

    async def close(self) -> None:
        """Hang up everywhere."""
        for broker_id in {key[0] for key in self._lines}:
            self.drop(broker_id)
        for answer in list(self._own):
            answer.cancel()

    def _line(self, broker_id: int, kind: type[Any], lane: int = 0) -> "Line":
        key = (broker_id, SHARED.get(kind, kind.API_KEY), lane)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(broker_id, self._connect, lambda: self.on_lost(broker_id))
        return line

    async def _connect(self, broker_id: int) -> Connection:
        """A connection to the broker as it is registered now; OSError when there is none."""
        neighbour = await self._find(broker_id)
        try:
            connection = await reach(
                self._network,
                neighbour.address,
                client_id=f"broker-{self._broker_id}",
                software=BROKER_SOFTWARE,
                limits=self._limits,
                timeout_s=CONNECT_TIMEOUT_S,
            )
        except ConnectionRefusedError:
            _log.info("broker %d does not listen", broker_id)
            self.on_refused(broker_id, neighbour.epoch, self._reached.get(broker_id) == neighbour.epoch)
            raise
        try:
            await connection.negotiate(CONNECT_TIMEOUT_S)
        except (CorruptFrame, ProtocolError) as fault:
            raise ConnectionResetError(f"broker {broker_id} is none of this kind: {fault}") from fault
        self._reached[broker_id] = neighbour.epoch
        self.on_reached(broker_id)
        return connection


class Line:
    """The way to one broker for one kind of request."""

    def __init__(
        self, broker_id: int, connect: Callable[[int], Awaitable[Connection]], on_lost: Callable[[], None]
    ) -> None:
        self._broker_id = broker_id
        self._connect = connect
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[Connection | OSError] | None = None
        self._is_closed = False

    async def ask(self, request: Any, timeout_s: float) -> Any:
        """The answer to ``request``; see ``Channels.send``."""
        connection = self._connection
        if connection is None:
            connection = await self._connected(timeout_s)
        try:
            return await connection.call(request, request.RESPONSE, timeout_s=timeout_s)
        except TimeoutError:
            connection.give_up()  # Whatever is asked on it next would wait behind this.
            raise
        except CorruptFrame as fault:
            connection.close()
            raise ConnectionResetError(f"broker {self._broker_id} answered nonsense: {fault}") from fault

    def post(self, request: Any, answered: Answered) -> Posted | None:
        """See ``PostingChannels.post``."""
        connection = self._connection
        if connection is None or connection.is_closed:
            return None
        version = connection.version_for(type(request))
        decode = partial(_decode, connection, request.RESPONSE, version)
        connection.send_frame(connection.frame_of(request, version), lambda frame: answered(frame, decode))
        return connection

    def begin(self) -> None:
        """Connect, unless that is done or under way."""
        if self._connection is None and self._connecting is None and not self._is_closed:
            self._connecting = asyncio.create_task(self._open())

    def close(self) -> None:
        """Hang up for good; whoever waits hears a reset."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.give_up()

    async def _connected(self, timeout_s: float) -> Connection:
        self.begin()
        if self._connecting is None:
            raise ConnectionResetError(f"the way to broker {self._broker_id} was given up")
        connecting = self._connecting
        await asyncio.wait([connecting], timeout=timeout_s)
        if not connecting.done():
            raise TimeoutError(f"broker {self._broker_id} could not be connected to within {timeout_s:g} s")
        if connecting.cancelled():
            raise ConnectionResetError(f"the way to broker {self._broker_id} was given up")
        outcome = connecting.result()
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    async def _open(self) -> Connection | OSError:
        """A connection, or why there is none."""
        try:
            connection = await self._connect(self._broker_id)
            connection.on_closed = lambda: self._lost(connection)
            if connection.is_closed:
                raise ConnectionResetError(f"broker {self._broker_id} hung up")
        except OSError as error:
            return error
        finally:
            self._connecting = None
        self._connection = connection
        return connection

    def _lost(self, connection: Connection) -> None:
        """Connect again at once: it is wanted, and a refusal says that the broker is dead."""
        if self._connection is connection:
            self._connection = None
            if not self._is_closed:
                self._on_lost()
                self.begin()


def _decode(connection: Connection, response: type[Any], version: int, frame: memoryview) -> Any:
    return connection.answer_of(response, frame, version)
