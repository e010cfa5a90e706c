"""The registry inside the broker: ``Registry`` over a SQLite file, for a cluster of one, and for tests of many.

A write becomes visible at once and returns once it is durable: the fsync is made by a worker thread, and writes
that come meanwhile share the next one.  A transaction that only touches ephemeral nodes needs none, for those do
not outlive the process anyway.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from millstream.model.workers import Workers
from millstream.registry.store import MEMORY, Store, Transaction
from millstream.registry.tree import (
    ANY_VERSION,
    Create,
    Created,
    Delete,
    Node,
    Op,
    Outcome,
    RegistryFailure,
    SessionExpired,
    Set,
    Stat,
)

CallSoon = Callable[[Callable[[], None]], object]


class EmbeddedWatch:
    """Calls back once for all the changes since its last call."""

    def __init__(self, tree: "EmbeddedTree", key: tuple[str, bool], callback: Callable[[], None]) -> None:
        self._tree = tree
        self._key = key
        self._callback = callback
        self._is_due = False
        self._is_cancelled = False

    def cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            self._tree._forget(self._key, self)

    def _trigger(self, call_soon: CallSoon) -> None:
        if not self._is_due:
            self._is_due = True
            call_soon(self._call)

    def _call(self) -> None:
        self._is_due = False  # First: what changes during the call needs another.
        if not self._is_cancelled:
            self._callback()


class EmbeddedTree:
    """The tree, shared by the sessions of one process."""

    def __init__(self, path: str = MEMORY, *, call_soon: CallSoon, workers: Workers | None = None) -> None:
        """Open the file; without ``workers`` the caller's own thread makes each fsync, and no call suspends."""
        self._store = Store(path)
        self._path = path
        self._call_soon = call_soon
        self._workers = workers
        self._watches: dict[tuple[str, bool], list[EmbeddedWatch]] = {}
        self._written = 0
        self._synced = 0
        self._syncing: asyncio.Future[None] | None = None
        self._failure: RegistryFailure | None = None

    def session(self) -> "EmbeddedRegistry":
        """Open another session."""
        return EmbeddedRegistry(self)

    async def close(self) -> None:
        """Close the file.  Sessions that are still open lose their ephemeral nodes when it is opened again."""
        while self._syncing is not None:
            await asyncio.wait([self._syncing])
        self._store.close()

    def _commit(self, ops: Sequence[Op], session_id: int) -> Transaction:
        if self._failure is not None:
            raise self._failure
        transaction = self._store.apply(ops, session_id)
        self._announce(transaction)
        return transaction

    def _announce(self, transaction: Transaction) -> None:
        self._written += 1
        for paths, is_children in ((transaction.touched, False), (transaction.regrouped, True)):
            for path in sorted(paths) if self._watches else ():
                for watch in self._watches.get((path, is_children), ()):
                    watch._trigger(self._call_soon)

    async def _until_durable(self) -> None:
        """Wait until everything written so far is on disk."""
        if not self._store.is_durable:
            return
        if self._workers is None:
            self._sync_now()
            return
        mine = self._written
        while self._synced < mine:
            if self._syncing is None:
                self._syncing = asyncio.ensure_future(self._sync(self._workers))
            await asyncio.shield(self._syncing)

    async def _sync(self, workers: Workers) -> None:
        covered = self._written
        try:
            await workers.in_thread(self._sync_now)
            self._synced = covered
        finally:
            self._syncing = None

    def _sync_now(self) -> None:
        try:
            self._store.sync()
        # What reached the disk is unknown, and a second fsync would lie: nothing is accepted any more.
        except OSError as error:
            self._failure = RegistryFailure(self._path, f"fsync failed ({error.strerror}); restart on a sound disk")
            raise self._failure from error
        except RegistryFailure as failure:
            self._failure = failure
            raise

    def _forget(self, key: tuple[str, bool], watch: EmbeddedWatch) -> None:
        self._watches[key].remove(watch)
        if not self._watches[key]:
            del self._watches[key]


class EmbeddedRegistry:
    """One session with an embedded tree."""

    def __init__(self, tree: EmbeddedTree) -> None:
        self._tree = tree
        self._set_watches: list[EmbeddedWatch] = []
        self._on_expired: list[Callable[[], None]] = []
        self._session_id: int | None = self._new_session()

    @property
    def session_id(self) -> int:
        if self._session_id is None:
            raise SessionExpired("/", "the session was closed")
        return self._session_id

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Created:
        session_id = self.session_id
        transaction = await self._write([Create(path, data, ephemeral, sequence)])
        (created,) = transaction.outcomes
        assert isinstance(created, str)
        owner = session_id if ephemeral else 0
        return Created(created, Stat(0, 0, transaction.zxid, transaction.zxid, owner))

    async def get(self, path: str) -> Node:
        self._require_session()
        return self._tree._store.get(path)

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        self._require_session()
        return self._tree._store.get_many(paths)

    async def exists(self, path: str) -> Stat | None:
        self._require_session()
        return self._tree._store.stat(path)

    async def children(self, path: str) -> list[str]:
        self._require_session()
        return self._tree._store.children(path)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        transaction = await self._write([Set(path, data, version)])
        (stat,) = transaction.outcomes
        assert isinstance(stat, Stat)
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._write([Delete(path, version)])

    async def multi(self, ops: Sequence[Op]) -> list[Outcome]:
        return (await self._write(ops)).outcomes

    async def watch(self, path: str, callback: Callable[[], None], *, children: bool = False) -> EmbeddedWatch:
        self._require_session()
        key = (path, children)
        watch = EmbeddedWatch(self._tree, key, callback)
        self._tree._watches.setdefault(key, []).append(watch)
        self._set_watches.append(watch)
        return watch

    def on_session_expired(self, callback: Callable[[], None]) -> None:
        self._on_expired.append(callback)

    def expire(self) -> None:
        """Lose the session as a silent ZooKeeper client does; for tests and simulation."""
        self._tree._announce(self._tree._store.drop_ephemerals(self.session_id))
        self._session_id = self._new_session()
        for callback in self._on_expired:
            self._tree._call_soon(callback)

    async def close(self) -> None:
        if self._session_id is None:
            return
        for watch in self._set_watches:
            watch.cancel()
        with suppress(RegistryFailure):  # A full disk must not stop a broker from stopping; the next start drops them.
            self._tree._announce(self._tree._store.drop_ephemerals(self._session_id))
        self._session_id = None

    async def _write(self, ops: Sequence[Op]) -> Transaction:
        transaction = self._tree._commit(ops, self.session_id)
        if not all(isinstance(op, Create) and op.ephemeral for op in ops):
            await self._tree._until_durable()
        return transaction

    def _require_session(self) -> None:
        _ = self.session_id

    def _new_session(self) -> int:
        """A session is named by the transaction that opened it, so no name comes twice."""
        return self._tree._store.apply([], 0).zxid
