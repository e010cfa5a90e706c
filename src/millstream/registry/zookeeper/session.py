"""A session with a ZooKeeper ensemble, through kazoo, which has a thread of its own.

Whatever happens there (answers, watches, changes of the connection) crosses into the loop in one place,
``LoopHandler.put``, in the order in which it happened.  The other way, requests are handed to kazoo only while it
is connected, and only so many at a time: it would block the loop when the pipe that wakes its thread is full.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, NoReturn

from kazoo.client import KazooClient
from kazoo.exceptions import SessionExpiredError
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from millstream.config.zookeeper import Ensemble
from millstream.registry.tree import RegistryError, RegistryFailure, SessionExpired
from millstream.registry.zookeeper.handler import LoopHandler

logger = logging.getLogger(__name__)

#: Requests handed to kazoo and not answered yet.  Each is a byte in its pipe, which holds about 278 of them.
WINDOW = 128
#: Pauses between attempts to connect, in seconds.
RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_jitter": 0.2, "max_delay": 0.5}
#: How many servers that take a connection and say nothing a session survives, at least.
TRIES = 3
#: And how long any of them is waited for: however long a session is, whoever starts with it is not as patient.
FIRST_WORD_S = 3.0
#: How long a server may take to confirm the end of a session before it is hung up on.
CLOSE_TIMEOUT_S = 2.0

#: Hands a request to kazoo, and gives what its answer will be in.
Send = Callable[[], Any]
#: Gives the answer, or raises kazoo's exception.
Answer = Callable[[], Any]


class Request(NamedTuple):
    """Something to ask once there is a connection."""

    send: Send
    answer: "asyncio.Future[Answer]"
    is_bound: bool  #: to the session in which it was asked


class Session:
    """The connection, and one session after another when they expire."""

    def __init__(
        self, ensemble: Ensemble, timeout_ms: int, credentials: str | None, on_expired: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._ensemble = ensemble
        self._on_expired = on_expired
        self._handler = LoopHandler(self._loop, min(FIRST_WORD_S, timeout_ms / 1000 / TRIES))
        quiet = logging.getLogger(f"{__name__}.kazoo")
        quiet.setLevel(logging.ERROR)  # It has a line for every attempt to connect.
        self.client = KazooClient(
            hosts=ensemble.hosts,
            timeout=timeout_ms / 1000,
            handler=self._handler,
            auth_data=[("digest", credentials)] if credentials else None,
            connection_retry=KazooRetry(**RETRY),
            logger=quiet,
        )
        self.client.add_listener(self._state_changed)
        self.id = 0  #: the session's, as the loop knows it
        #: Why nothing can be asked any more, if so.
        self.ended: RegistryError | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._waiting: deque[Request] = deque()
        self._unanswered = 0
        #: The session that requests may be handed to now.  kazoo's thread changes it before it does anything else
        #: about a lost session, and no request is half handed over then.
        self._open_id: int | None = None
        self._gate = threading.Lock()

    async def open(self) -> None:
        """Return once there is a session."""
        self.client.start_async()
        await self._connected

    def submit(self, send: Send, *, is_bound: bool = False) -> "asyncio.Future[Answer]":
        """Ask once there is a connection.

        The answer is kazoo's SessionExpiredError where the session ended before there was one, or even, for a
        request that is bound to it, before it was asked.
        """
        request = Request(send, self._loop.create_future(), is_bound)
        if self.ended is not None:
            request.answer.set_result(partial(_raise, self.ended))
        else:
            self._waiting.append(request)
            self._pump()
        return request.answer

    async def close(self) -> None:
        """End the session and kazoo's thread."""
        self._end(SessionExpired("/", "the session was closed"))
        with ThreadPoolExecutor(1, "zookeeper-close") as thread:
            stopping = self._loop.run_in_executor(thread, self._stop)
            if not (await asyncio.wait([stopping], timeout=CLOSE_TIMEOUT_S))[0]:
                self._handler.hang_up()
            await stopping

    # On the loop.

    def _pump(self) -> None:
        """Hand over what waits, as far as it goes."""
        while self._waiting and self._unanswered < WINDOW:
            with self._gate:
                if self._open_id != self.id or self.ended is not None:
                    return
                request = self._waiting.popleft()
                if request.answer.cancelled():
                    continue
                result = request.send()
            self._unanswered += 1
            result.rawlink(partial(self._answered, request))

    def _answered(self, request: Request, result: Any) -> None:
        self._unanswered -= 1
        if not request.answer.done():
            request.answer.set_result(result.get_nowait)
        self._pump()

    def _settle(self, state: str, client_state: str, session_id: int) -> None:
        """The connection has changed."""
        if self.ended is not None:
            return
        if state == KazooState.CONNECTED:
            self._now_connected(session_id)
        elif client_state == KeeperState.AUTH_FAILED:
            self._end(RegistryFailure(str(self._ensemble), "ZooKeeper refused the credentials; see zookeeper.digest"))
        elif client_state == KeeperState.CLOSED:
            self._end(RegistryFailure(str(self._ensemble), "the connection failed for good; restart"))
        elif client_state == KeeperState.EXPIRED_SESSION:
            logger.warning("the session with ZooKeeper at %s has expired", self._ensemble.hosts)
        else:
            logger.warning("the connection to ZooKeeper at %s is lost; trying again", self._ensemble.hosts)

    def _now_connected(self, session_id: int) -> None:
        before, self.id = self.id, session_id
        if before == 0:
            self._connected.set_result(None)
        else:
            logger.warning("connected to ZooKeeper at %s again", self._ensemble.hosts)
        if before not in (0, session_id):
            waiting, self._waiting = self._waiting, deque(each for each in self._waiting if not each.is_bound)
            for request in waiting:
                if request.is_bound:
                    _fail(request, SessionExpiredError())
            self._on_expired()
        self._pump()

    def _end(self, why: RegistryError) -> None:
        if self.ended is not None:
            return
        self.ended = why
        while self._waiting:
            _fail(self._waiting.popleft(), why)
        if not self._connected.done():
            self._connected.set_exception(why)
            self._connected.exception()  # Whoever opens may have given up already.

    # In kazoo's thread.

    def _state_changed(self, state: str) -> None:
        session = self.client.client_id
        session_id = session[0] if session else 0
        with self._gate:
            self._open_id = session_id if state == KazooState.CONNECTED else None
        self._handler.put(partial(self._settle, state, self.client.client_state, session_id))

    # In a thread of its own.

    def _stop(self) -> None:
        self.client.stop()
        self.client.close()


def _fail(request: Request, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_result(partial(_raise, error))


def _raise(error: Exception) -> NoReturn:
    raise error
