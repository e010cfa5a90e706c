"""The tree in a SQLite file: nodes, versions, transaction ids; one transaction for each multi.

The file is in WAL mode.  A commit writes to the page cache alone, and ``sync`` makes every commit before it
durable, from any thread: so an fsync behind a busy disk does not stall the loop that committed.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from millstream.registry.tree import (
    ANY_VERSION,
    NO_SESSION,
    BadVersion,
    Check,
    Create,
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
    Set,
    Stat,
)

MEMORY = ":memory:"
#: "MILL", so that no other program's database is taken for ours.
APPLICATION_ID = 0x4D494C4C
FORMAT_VERSION = 1
#: Once the WAL has grown by this, its pages are moved into the database proper.
CHECKPOINT_BYTES = 4 << 20
#: A checkpoint that ends so has changed nothing that counts: the WAL still holds all, and it is tried again later.
_PUT_OFF = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)

#: A node lies under (parent, name), so one B-tree answers both "this node" and "its children".
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE node (
    parent TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL,
    version INTEGER NOT NULL, cversion INTEGER NOT NULL, czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE INDEX ephemeral ON node (owner) WHERE owner != 0;
CREATE TABLE counter (zxid INTEGER NOT NULL);
INSERT INTO counter VALUES (0);
INSERT INTO node VALUES ('/', '', x'', 0, 0, 0, 0, 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
COMMIT;
"""
_HERE = "WHERE parent = ? AND name = ?"
_INSERT = "INSERT INTO node VALUES (?, ?, ?, 0, 0, ?, ?, ?)"
_SELECT = f"SELECT data, version, cversion, czxid, mzxid, owner FROM node {_HERE}"
_SELECT_STAT = f"SELECT version, cversion, czxid, mzxid, owner FROM node {_HERE}"
_SELECT_CHILDREN = "SELECT name FROM node WHERE parent = ? AND name > '' ORDER BY name"
_SELECT_ANY_CHILD = "SELECT 1 FROM node WHERE parent = ? AND name > '' LIMIT 1"
_SELECT_EPHEMERALS = "SELECT parent, name FROM node WHERE owner != 0 AND (owner = ? OR ? = 0) ORDER BY czxid DESC"
_UPDATE_DATA = f"UPDATE node SET data = ?, version = version + 1, mzxid = ? {_HERE}"
_UPDATE_CVERSION = f"UPDATE node SET cversion = cversion + 1 {_HERE}"
_DELETE = f"DELETE FROM node {_HERE}"


def _key(path: str) -> tuple[str, str]:
    """Where the node lies in the table; the root is the nameless child of itself."""
    assert path[0] == "/" and (path[-1] != "/" or path == "/"), path
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class Transaction(NamedTuple):
    """A transaction that was committed."""

    zxid: int
    outcomes: list[Outcome]
    #: Nodes that came, went or were set, and those whose children came or went.
    touched: set[str]
    regrouped: set[str]


class Store:
    """One file, one process.  Calls other than ``sync`` belong to one thread."""

    def __init__(self, path: str) -> None:
        """Open the file, or make it; RegistryFailure in one line when it cannot be used.

        Whoever held it before is gone, so every ephemeral node is dropped, and like ZooKeeper under a new leader
        it counts transactions from a new epoch (the upper 32 bits): no id of an unsynced past can come again.
        """
        self._path = path
        self._is_file = path != MEMORY
        self._lock_fd = self._lock() if self._is_file else -1
        self._wal_fd = -1
        #: How large the WAL was when its pages were last moved.
        self._moved_bytes = 0
        try:
            self._db = self._connect()
            self._zxid = 0
            with self._failures():
                self._check_format()
                (self._zxid,) = self._db.execute("SELECT zxid FROM counter").fetchone()
                self._zxid = ((self._zxid >> 32) + 1 << 32) - 1
                self.drop_ephemerals()
            if self._is_file:
                self._wal_fd = os.open(f"{path}-wal", os.O_RDWR)
                self._sync_folder()
                self.sync()
        except BaseException:
            self.close()
            raise

    @property
    def is_durable(self) -> bool:
        """Whether ``sync`` has anything to do."""
        return self._is_file

    def close(self) -> None:
        """Move everything into the one file and let go of it; a store that was closed stays so."""
        if hasattr(self, "_db"):
            with suppress(sqlite3.Error):
                self._db.close()
        for fd in (self._wal_fd, self._lock_fd):
            if fd >= 0:
                os.close(fd)
        self._wal_fd = self._lock_fd = -1

    def apply(self, ops: Sequence[Op], session_id: int) -> Transaction:
        """Do all of ``ops`` in one transaction, or raise the error of the first that cannot be done."""
        with self._transaction() as transaction:
            for index, op in enumerate(ops):
                try:
                    transaction.outcomes.append(_APPLY[type(op)](self, op, session_id, transaction))
                except RegistryError as error:
                    error.index = index
                    raise
        return transaction

    def drop_ephemerals(self, session_id: int = NO_SESSION) -> Transaction:
        """Remove the ephemeral nodes of a session, or of all sessions."""
        with self._transaction() as transaction:
            for parent, name in self._db.execute(_SELECT_EPHEMERALS, (session_id, session_id)).fetchall():
                self._remove(parent, name, transaction)
        return transaction

    def get(self, path: str) -> Node:
        with self._failures():
            row = self._db.execute(_SELECT, _key(path)).fetchone()
        if row is None:
            raise NoNode(path)
        return Node._make(row)

    def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        execute = self._db.execute
        with self._failures():
            rows = [execute(_SELECT, _key(path)).fetchone() for path in paths]
        return [None if row is None else Node._make(row) for row in rows]

    def stat(self, path: str) -> Stat | None:
        with self._failures():
            return self._stat(path)

    def children(self, path: str) -> list[str]:
        with self._failures():
            names = [name for (name,) in self._db.execute(_SELECT_CHILDREN, (path,))]
            if not names:
                self._require(path)
        return names

    def sync(self) -> None:
        """Return when every commit before the call is on disk; any thread may call.

        An OSError or a RegistryFailure leaves open what is on disk: the store must not be written to again.
        """
        os.fdatasync(self._wal_fd)
        wal_bytes = os.fstat(self._wal_fd).st_size
        if wal_bytes < self._moved_bytes:  # All of it was moved, and the WAL begun anew.
            self._moved_bytes = 0
        if wal_bytes - self._moved_bytes >= CHECKPOINT_BYTES:
            with self._failures():
                self._checkpoint()
            self._moved_bytes = wal_bytes

    # Operations, each inside a transaction.

    def _create(self, op: Create, session_id: int, transaction: Transaction) -> str:
        parent, name = _key(op.path)
        above = self._require(parent)
        if above.ephemeral_owner:
            raise NoChildrenForEphemerals(op.path)
        if op.sequence:
            name = f"{name}{above.cversion:010d}"
        owner = session_id if op.ephemeral else NO_SESSION
        try:
            self._db.execute(_INSERT, (parent, name, op.data, transaction.zxid, transaction.zxid, owner))
        except sqlite3.IntegrityError as error:
            raise NodeExists(op.path) from error
        self._db.execute(_UPDATE_CVERSION, _key(parent))
        path = f"{parent.rstrip('/')}/{name}"
        transaction.touched.add(path)
        transaction.regrouped.add(parent)
        return path

    def _set(self, op: Set, session_id: int, transaction: Transaction) -> Stat:
        before = self._require(op.path, op.version)
        self._db.execute(_UPDATE_DATA, (op.data, transaction.zxid, *_key(op.path)))
        transaction.touched.add(op.path)
        return before._replace(version=before.version + 1, mzxid=transaction.zxid)

    def _delete(self, op: Delete, session_id: int, transaction: Transaction) -> None:
        assert op.path != "/", "the root stays"
        self._require(op.path, op.version)
        if self._db.execute(_SELECT_ANY_CHILD, (op.path,)).fetchone():
            raise NotEmpty(op.path)
        self._remove(*_key(op.path), transaction)

    def _check(self, op: Check, session_id: int, transaction: Transaction) -> None:
        self._require(op.path, op.version)

    def _stat(self, path: str) -> Stat | None:
        row = self._db.execute(_SELECT_STAT, _key(path)).fetchone()
        return None if row is None else Stat._make(row)

    def _require(self, path: str, version: int = ANY_VERSION) -> Stat:
        stat = self._stat(path)
        if stat is None:
            raise NoNode(path)
        if version not in (ANY_VERSION, stat.version):
            raise BadVersion(path, f"version {version} was named, it is at {stat.version}")
        return stat

    def _remove(self, parent: str, name: str, transaction: Transaction) -> None:
        self._db.execute(_DELETE, (parent, name))
        self._db.execute(_UPDATE_CVERSION, _key(parent))
        transaction.touched.add(f"{parent.rstrip('/')}/{name}")
        transaction.regrouped.add(parent)

    # The file.

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        """All that is executed inside is committed together, or nothing on any exception."""
        transaction = Transaction(self._zxid + 1, [], set(), set())
        with self._failures():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield transaction
                self._db.execute("UPDATE counter SET zxid = ?", (transaction.zxid,))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite rolls back by itself when the disk is full.
                    self._db.execute("ROLLBACK")
                raise
        self._zxid = transaction.zxid

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Name the file and the remedy where SQLite only names the fault."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                raise RegistryFailure(self._path, "the disk is full; free some space, then try again") from error
            raise RegistryFailure(
                self._path, f"the registry cannot be read or written ({error}); restore the file from a copy"
            ) from error

    def _lock(self) -> int:
        """Take the file for this process; the lock goes with the process, however it ends."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RegistryFailure(self._path, f"the registry cannot be opened ({error.strerror})") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise RegistryFailure(
                self._path, "the registry is in use by another broker; stop it, or choose another folder"
            ) from error
        return fd

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._db = db
        with self._failures():
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # Syncs at checkpoints only; commits are synced by ``sync``.
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("PRAGMA journal_size_limit = 0")  # A WAL that begins anew is cut to what it holds.
        return db

    def _check_format(self) -> None:
        """Make a new file's tables; refuse one that is not ours, too new, or damaged."""
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if not self._db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            self._db.executescript(_SCHEMA)
            return
        if application != APPLICATION_ID:
            raise RegistryFailure(self._path, "this is not a registry; choose another file")
        if version != FORMAT_VERSION:
            raise RegistryFailure(
                self._path,
                f"the registry is of version {version}, this broker knows {FORMAT_VERSION}; update the broker",
            )
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise RegistryFailure(
                self._path, f"the registry is damaged ({verdict.splitlines()[-1]}); restore the file from a copy"
            )

    def _checkpoint(self) -> None:
        """Move the WAL's pages into the database, on a connection of its own: writers are not held up."""
        db = sqlite3.connect(self._path, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in _PUT_OFF:
                raise
        finally:
            db.close()

    def _sync_folder(self) -> None:
        """The names of the file and its WAL must last as well."""
        fd = os.open(os.path.dirname(os.path.abspath(self._path)), os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


_APPLY: dict[type, Callable[[Store, Any, int, Transaction], Outcome]] = {
    Create: Store._create,
    Set: Store._set,
    Delete: Store._delete,
    Check: Store._check,
}
