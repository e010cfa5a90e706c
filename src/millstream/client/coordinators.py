"""Finding who coordinates a group or a transactional id, and asking until it can answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple, TypeVar

from millstream.client.cluster import RETRY_PAUSE_S, Cluster, check, error_of
from millstream.client.wire import Address, ConnectionLost, Unreachable
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.schema import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")

#: What a broker answers while a coordinator moves or reads its log: find it again, ask again.
NOT_YET = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
#: A wait that is shorter is not worth a word.
TELL_AFTER_S = 1.0


class Kind(IntEnum):
    """What is coordinated, by Kafka's numbers."""

    GROUP = 0
    TRANSACTION = 1


#: What the protocol's strings can hold, and what Kafka would call a name that is longer.
NAME_BYTES_MAX = 32_767
TOO_LONG = {Kind.GROUP: ErrorCode.INVALID_GROUP_ID, Kind.TRANSACTION: ErrorCode.INVALID_REQUEST}


class Node(NamedTuple):
    """A broker of the cluster."""

    id: int
    address: Address


class _NotYet(ProtocolError):
    """The coordinator cannot answer now, and soon will."""


class Coordinators:
    """The coordinators of a cluster's groups and transactions; each is looked up once and kept while it answers.

    ``tell`` is given a line, once in a wait, when one keeps us waiting.
    """

    def __init__(self, cluster: Cluster, tell: Callable[[str], None] = lambda line: None) -> None:
        self.cluster = cluster
        self._tell = tell
        self._known: dict[tuple[Kind, str], Node] = {}

    async def find(self, kind: Kind, key: str) -> Node:
        """Who coordinates it, found again while there is nobody; the last failure after the cluster's timeout."""
        return await self._retrying(kind, key, lambda: self._find(kind, key), again_if_lost=True)

    async def ask(
        self,
        kind: Kind,
        key: str,
        request: Request,
        response: type[R],
        codes: Callable[[R], Iterable[int]],
        *,
        again_on: frozenset[ErrorCode] = frozenset(),
        again_if_lost: bool = True,
        version_max: int | None = None,
        waits_s: float = 0.0,
    ) -> R:
        """The coordinator's answer.

        ``codes`` gives an answer's error codes: while one says that it cannot answer yet, or is one of ``again_on``,
        it is found and asked again. So it is when the connection was lost, unless the request must not be done twice.
        ``waits_s`` is how long the coordinator may keep the request by its nature.
        """
        waited_for = NOT_YET | again_on

        async def attempt() -> R:
            node = await self._find(kind, key)
            connection = await self.cluster.broker_at(node.address)
            version = connection.version_for(type(request))
            answer = await connection.call(
                request,
                response,
                version=version if version_max is None else min(version, version_max),
                timeout_s=self.cluster.timeout_s + waits_s,
            )
            _raise_if_not_yet(codes(answer), waited_for, f"{kind.name.lower()} {key!r}")
            return answer

        return await self._retrying(kind, key, attempt, again_if_lost=again_if_lost)

    async def ask_every_broker(self, request: Request, response: type[R], code: Callable[[R], int]) -> Mapping[Node, R]:
        """What each broker answers about all that it coordinates."""
        if not self.cluster.brokers:
            await self.cluster.refresh([])
        while True:
            nodes = self._nodes()
            # Who there is now is asked at the same time: mostly those who were there before.
            answers, _ = await asyncio.gather(
                asyncio.gather(*(self._ask_node(node, request, response, code) for node in nodes)),
                self.cluster.refresh([]),
            )
            found = {node: answer for node, answer in zip(nodes, answers, strict=True) if answer is not None}
            if len(found) == len(nodes) and nodes == self._nodes():
                return found
            # One came, or has left the cluster, and others coordinate by now what it did.

    def _nodes(self) -> list[Node]:
        return [Node(node_id, address) for node_id, address in sorted(self.cluster.brokers.items())]

    async def _ask_node(self, node: Node, request: Request, response: type[R], code: Callable[[R], int]) -> R | None:
        """A broker's answer; None when it is no longer in the cluster."""

        async def attempt() -> R | None:
            try:
                connection = await self.cluster.broker_at(node.address)
            except Unreachable:
                await self.cluster.refresh([])
                if self.cluster.brokers.get(node.id) != node.address:
                    return None
                raise
            answer = await connection.call(request, response, timeout_s=self.cluster.timeout_s)
            _raise_if_not_yet([code(answer)], NOT_YET, f"broker {node.id}")
            check(code(answer), f"broker {node.id}")
            return answer

        return await self._retrying(None, f"broker {node.id}", attempt, again_if_lost=True)

    async def _find(self, kind: Kind, key: str) -> Node:
        if len(key.encode(errors="replace")) > NAME_BYTES_MAX:
            raise ProtocolError(TOO_LONG[kind], f"{key[:20]!r}… is longer than the {NAME_BYTES_MAX} bytes of a name")
        known = self._known.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key=key, key_type=int(kind), coordinator_keys=[key])
        answer = await self.cluster.ask(request, FindCoordinatorResponse)
        row = answer.coordinators[0] if answer.coordinators else answer
        _raise_if_not_yet([row.error_code], NOT_YET, f"{kind.name.lower()} {key!r}")
        check(row.error_code, row.error_message or f"{kind.name.lower()} {key!r}")
        node = self._known[kind, key] = Node(row.node_id, Address(row.host, row.port))
        return node

    async def _retrying(
        self, kind: Kind | None, key: str, work: Callable[[], Awaitable[T]], *, again_if_lost: bool
    ) -> T:
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        was_told = False
        while True:
            waited_s = loop.time() - start_s
            is_late = waited_s >= self.cluster.timeout_s
            try:
                return await work()
            except (_NotYet, Unreachable) as error:
                if is_late:
                    raise
                fault: Exception = error
            except ConnectionLost as error:
                if is_late or not again_if_lost:
                    raise
                fault = error
            if kind is not None:
                self._known.pop((kind, key), None)
            if waited_s >= TELL_AFTER_S and not was_told:
                was_told = True
                self._tell(f"waiting: {fault}")
            await asyncio.sleep(RETRY_PAUSE_S)


def _raise_if_not_yet(codes: Iterable[int], waited_for: frozenset[ErrorCode], what: str) -> None:
    for code in codes:
        if (error := error_of(code)) in waited_for:
            raise _NotYet(error, f"{what} has no coordinator that can answer now")
