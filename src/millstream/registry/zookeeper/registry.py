"""The registry on a ZooKeeper ensemble, for clusters of many.

**Lost connections.**  Reads are simply asked again.  A write that went unanswered may have been done: it is looked
up first, and repeated only if it was not.

**Watches** are ZooKeeper's, which fire once: each is set again when it fired or when the connection was lost, and its
callback is called only after that.  So whatever a read before the call did not see either came before the watch was
set, and this call follows it, or comes after it, and fires the watch.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from kazoo import exceptions as kazoo
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from millstream.config.zookeeper import Ensemble
from millstream.registry.tree import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Created,
    Delete,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Outcome,
    RegistryError,
    RegistryFailure,
    SessionExpired,
    Set,
    Stat,
)
from millstream.registry.zookeeper.access import Access, access_of
from millstream.registry.zookeeper.multi_read import MultiRead
from millstream.registry.zookeeper.session import Answer, Send, Session
from millstream.registry.zookeeper.unanswered import was_done

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: A server takes a megabyte in one request (jute.maxbuffer) and hangs up on more, as often as it is tried.
REQUEST_BYTES_MAX = 1_000_000
#: What an operation adds to a request beside its path and data: headers, lengths, the access list.
OPERATION_BYTES = 128

#: How many nodes are read by one request.
NODES_PER_READ = 256

#: A request whose answer is lost with its connection.
_LOST = (kazoo.ConnectionLoss, kazoo.SessionMovedError, kazoo.OperationTimeoutError)
_ERRORS: dict[type[Exception], type[RegistryError]] = {
    kazoo.NodeExistsError: NodeExists,
    kazoo.NoNodeError: NoNode,
    kazoo.BadVersionError: BadVersion,
    kazoo.NotEmptyError: NotEmpty,
    kazoo.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
}
#: What operations of a failed multi say that were not the reason.
_INNOCENT = (kazoo.RolledBackError, kazoo.RuntimeInconsistency)
_ADVICE = {
    kazoo.NoAuthError: "its access list keeps us out; give the credentials of its maker as zookeeper.digest",
    kazoo.InvalidACLError: "ZooKeeper does not take the access list; does it know the digest scheme?",
}
_ACLS = {
    Access.OPEN: OPEN_ACL_UNSAFE,
    Access.READABLE: [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE],
    Access.PRIVATE: CREATOR_ALL_ACL,
}


class ZooKeeperWatch:
    """Calls back after every change; changes in quick succession share a call."""

    def __init__(self, registry: "ZooKeeperRegistry", path: str, callback: Callable[[], None], children: bool) -> None:
        self._registry = registry
        self._path = path
        self._callback = callback
        self._children = children
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True

    async def set(self) -> None:
        """Return once the next change will be noticed."""
        registry, path = self._registry, self._path
        while self._children:
            try:
                await registry._ask(path, registry._client.get_children_async, watch=self._fired)
                return
            except NoNode:  # Children can only be watched where there is a node: its coming is waited for first.
                if await registry._ask(path, registry._client.exists_async, watch=self._fired) is None:
                    return
        await registry._ask(path, registry._client.exists_async, watch=self._fired)

    def _fired(self, event: object) -> None:
        """Something has changed, or may have while the connection was lost."""
        if not self._is_cancelled and self._registry._session.ended is None:
            self._registry._in_background(self._set_and_call())

    async def _set_and_call(self) -> None:
        try:
            await self.set()
        except RegistryError:
            logger.exception("the watch on %s could not be set again", self._path)
        if not self._is_cancelled:
            self._callback()


class ZooKeeperRegistry:
    """One session with the ensemble, and the next when it expires."""

    def __init__(self, ensemble: Ensemble, session_timeout_ms: int, credentials: str | None, set_acl: bool) -> None:
        self._session = Session(ensemble, session_timeout_ms, credentials, self._expired)
        self._client = self._session.client
        self._ensemble = ensemble
        self._set_acl = set_acl
        self._on_expired: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls,
        ensemble: Ensemble,
        *,
        session_timeout_ms: int,
        connect_timeout_ms: int,
        credentials: str | None = None,
        set_acl: bool = False,
    ) -> "ZooKeeperRegistry":
        """A session, and its root made where it is missing; RegistryFailure when no server answers in time.

        ``credentials`` are ``user:password``; with ``set_acl`` only their holder may change the nodes made here.
        """
        registry = cls(ensemble, session_timeout_ms, credentials, set_acl)
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                await registry._session.open()
                await registry._make_root()
        except TimeoutError:
            await registry.close()
            raise RegistryFailure(
                str(ensemble),
                f"no ZooKeeper answered within {connect_timeout_ms / 1000:g} s; start it, or name another",
            ) from None
        except BaseException:
            await registry.close()
            raise
        return registry

    # Registry.

    @property
    def session_id(self) -> int:
        if self._session.ended is not None:
            raise self._session.ended
        return self._session.id

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Created:
        send = partial(
            self._client.create_async,
            self._at(path),
            data,
            self._acl(path),
            ephemeral=ephemeral,
            sequence=sequence,
            include_data=True,
        )
        return await self._write(
            [Create(path, data, ephemeral, sequence)],
            send,
            read=lambda made: Created(self._below(made[0]), _stat(made[1])),
            found=lambda nodes: Created(path, _stat_of(nodes[path])),
        )

    async def get(self, path: str) -> Node:
        return _node(await self._ask(path, self._client.get_async))

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        asked = list(paths)
        pages = [asked[first : first + NODES_PER_READ] for first in range(0, len(asked), NODES_PER_READ)]
        sends = [partial(self._send_read, page) for page in pages]
        answers = [self._session.submit(send) for send in sends]  # All are under way before the first is awaited.
        nodes: list[Node | None] = []
        for page, send, answer in zip(pages, sends, answers, strict=True):
            nodes += _nodes_of(page, await self._answer(page[0], send, answer))
        return nodes

    async def exists(self, path: str) -> Stat | None:
        stat = await self._ask(path, self._client.exists_async)
        return None if stat is None else _stat(stat)

    async def children(self, path: str) -> list[str]:
        return sorted(await self._ask(path, self._client.get_children_async))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._write(
            [Set(path, data, version)],
            partial(self._client.set_async, self._at(path), data, version),
            read=_stat,
            found=lambda nodes: _stat_of(nodes[path]),
        )

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        return await self._write(
            [Delete(path, version)],
            partial(self._client.delete_async, self._at(path), version),
            read=lambda made: None,
            found=lambda nodes: None,
        )

    async def multi(self, ops: Sequence[Op]) -> list[Outcome]:
        if not ops:
            return []
        return await self._write(
            ops,
            partial(self._send_multi, ops),
            read=partial(self._outcomes, ops),
            found=lambda nodes: [_outcome_of(op, nodes) for op in ops],
        )

    async def watch(self, path: str, callback: Callable[[], None], *, children: bool = False) -> ZooKeeperWatch:
        watch = ZooKeeperWatch(self, path, callback, children)
        try:
            await watch.set()
        except BaseException:
            watch.cancel()
            raise
        return watch

    def on_session_expired(self, callback: Callable[[], None]) -> None:
        self._on_expired.append(callback)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._session.close()

    # Asking.

    async def _ask(self, path: str, read: Callable[..., Any], **options: Any) -> Any:
        """What kazoo's ``read`` says of the node, through lost connections and sessions."""
        send = partial(read, self._at(path), **options)
        return await self._answer(path, send, self._session.submit(send))

    async def _answer(self, path: str, send: Send, answer: "asyncio.Future[Answer]") -> Any:
        """What comes of a read that was submitted; asked again when that was lost."""
        while True:
            try:
                return (await answer)()
            except (*_LOST, kazoo.SessionExpiredError):
                answer = self._session.submit(send)
            except kazoo.KazooException as error:
                raise _translated(path, error) from error

    async def _write(
        self, ops: Sequence[Op], send: Send, read: Callable[[Any], T], found: Callable[[dict[str, Node | None]], T]
    ) -> T:
        """What ``read`` makes of the answer, or ``found`` of the nodes when there was none and yet all was done."""
        _check_size(ops)
        session_id = self.session_id
        while True:
            before_zxid = self._client.last_zxid
            try:
                return read((await self._session.submit(send, is_bound=True))())
            except _LOST:
                nodes = await self._look_up({op.path for op in ops})
                if was_done(ops, nodes, before_zxid, session_id):
                    return found(nodes)
                if self.session_id != session_id:
                    raise SessionExpired(ops[0].path, "the session ended before this was done") from None
            except kazoo.SessionExpiredError:
                raise SessionExpired(ops[0].path, "the session ended; what it asked last may be done or not") from None
            except kazoo.KazooException as error:
                raise _translated(ops[0].path, error) from error

    async def _look_up(self, paths: Iterable[str]) -> dict[str, Node | None]:
        """The nodes as they are once everything asked before was done or dropped."""
        asked = list(paths)
        await self._ask("/", self._client.sync_async)
        return dict(zip(asked, await self.get_many(asked), strict=True))

    def _send_read(self, paths: Sequence[str]) -> Any:
        result = self._client.handler.async_result()
        self._client._call(MultiRead([self._at(path) for path in paths]), result)
        return result

    def _send_multi(self, ops: Sequence[Op]) -> Any:
        transaction = self._client.transaction()
        for op in ops:
            path = self._at(op.path)
            match op:
                case Create():
                    transaction.create(path, op.data, self._acl(op.path), op.ephemeral, op.sequence)
                case Set():
                    transaction.set_data(path, op.data, op.version)
                case Delete():
                    transaction.delete(path, op.version)
                case Check():
                    transaction.check(path, op.version)
        return transaction.commit_async()

    def _outcomes(self, ops: Sequence[Op], made: list[Any]) -> list[Outcome]:
        """kazoo's outcomes as ours; or the error of the one that stopped the rest."""
        for index, (op, outcome) in enumerate(zip(ops, made, strict=True)):
            if isinstance(outcome, Exception) and not isinstance(outcome, _INNOCENT):
                error = _translated(op.path, outcome)
                error.index = index
                raise error
        read: dict[type[Op], Callable[[Any], Outcome]] = {Create: self._below, Set: _stat}
        return [read[type(op)](outcome) if type(op) in read else None for op, outcome in zip(ops, made, strict=True)]

    # Around it.

    async def _make_root(self) -> None:
        """Make the node that is our root, and those above it."""
        client, above = self._client, ""
        for name in self._ensemble.chroot.split("/")[1:]:
            above += f"/{name}"
            while True:
                try:
                    (await self._session.submit(partial(client.create_async, above, b"", self._acl("/"))))()
                    break
                except kazoo.NodeExistsError:
                    break
                except _LOST:
                    continue
                except kazoo.KazooException as error:
                    raise _translated(above, error) from error

    def _expired(self) -> None:
        for callback in self._on_expired:  # Now, and not soon: nobody may act for the old session any more.
            try:
                callback()
            except Exception:
                logger.exception("a callback for an expired session failed")

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _at(self, path: str) -> str:
        return self._ensemble.chroot + path if path != "/" else self._ensemble.chroot or "/"

    def _below(self, path: str) -> str:
        return path[len(self._ensemble.chroot) :]

    def _acl(self, path: str) -> Any:
        return _ACLS[access_of(path) if self._set_acl else Access.OPEN]


def _check_size(ops: Sequence[Op]) -> None:
    size = sum(len(op.path) + len(getattr(op, "data", b"")) + OPERATION_BYTES for op in ops)
    if size > REQUEST_BYTES_MAX:
        raise RegistryFailure(
            ops[0].path, f"a write of {size} bytes is more than ZooKeeper takes at once; keep it below a megabyte"
        )


def _nodes_of(paths: Sequence[str], found: list[Node | Exception]) -> list[Node | None]:
    nodes: list[Node | None] = []
    for path, node in zip(paths, found, strict=True):
        if isinstance(node, Exception) and not isinstance(node, kazoo.NoNodeError):
            raise _translated(path, node)
        nodes.append(node if isinstance(node, Node) else None)
    return nodes


def _translated(path: str, error: Exception) -> RegistryError:
    if isinstance(error, RegistryError):
        return error
    if type(error) in _ERRORS:
        return _ERRORS[type(error)](path)
    return RegistryFailure(path, _ADVICE.get(type(error), f"ZooKeeper answered {type(error).__name__}"))


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.cversion, stat.czxid, stat.mzxid, stat.ephemeralOwner)


def _node(answer: Any) -> Node:
    data, stat = answer
    return Node(data or b"", stat.version, stat.cversion, stat.czxid, stat.mzxid, stat.ephemeralOwner)


def _stat_of(node: Node | None) -> Stat:
    assert node is not None
    return Stat(*node[1:])


def _outcome_of(op: Op, nodes: dict[str, Node | None]) -> Outcome:
    if isinstance(op, Create):
        return op.path
    return _stat_of(nodes[op.path]) if isinstance(op, Set) else None
