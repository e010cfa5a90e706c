"""The registry: a tree of small nodes that the whole cluster agrees on, as ZooKeeper defines it.

Every room talks to ``Registry``; what stands behind it (SQLite in the broker, or a ZooKeeper ensemble) shows
nowhere else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

#: A version that matches every version.
ANY_VERSION = -1
#: The owner of a node that outlives its session.
NO_SESSION = 0


class RegistryError(Exception):
    """The registry refused or failed; ``path`` is the node concerned, ``index`` the operation of a multi."""

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(f"{path}: {detail}" if detail else path)
        self.path = path
        self.index = 0


class NodeExists(RegistryError):
    """The node to be created is there already."""


class NoNode(RegistryError):
    """The node, or the parent of the node to be created, is not there."""


class BadVersion(RegistryError):
    """The node has changed since the version that the caller named."""


class NotEmpty(RegistryError):
    """The node to be deleted has children."""


class NoChildrenForEphemerals(RegistryError):
    """The parent of the node to be created is ephemeral."""


class SessionExpired(RegistryError):
    """The session is over, and every ephemeral node it made is gone."""


class RegistryFailure(RegistryError):
    """The registry itself is damaged, full, taken or out of reach; the text says what to do."""


class Stat(NamedTuple):
    """What the tree knows of a node besides its data."""

    version: int  #: how often the data was set
    cversion: int  #: how often a child came or went
    czxid: int  #: the transaction that created it
    mzxid: int  #: the transaction that last set it
    ephemeral_owner: int  #: the session it dies with, or NO_SESSION


class Node(NamedTuple):
    """A node as it was read: its data and its stat."""

    data: bytes
    version: int
    cversion: int
    czxid: int
    mzxid: int
    ephemeral_owner: int


class Created(NamedTuple):
    """A node that was just created; a sequence node's path ends in the number it got."""

    path: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Add a node; see ``Registry.create``."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Replace a node's data; see ``Registry.set``."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node; see ``Registry.delete``."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Changes nothing; fails the multi unless the node is there at this version."""

    path: str
    version: int


Op = Create | Set | Delete | Check
#: What an operation of a multi gave: a Create its path, a Set its new stat, the others nothing.
Outcome = str | Stat | None


class Watch(Protocol):
    """A watch that was set."""

    def cancel(self) -> None:
        """No call begins after this returns."""
        ...


class Registry(Protocol):
    """One session with the tree.

    A write that returned is durable, and later reads of this session see it.  A call waits through a lost
    connection; SessionExpired is raised only when the session is known to be over.
    """

    @property
    def session_id(self) -> int:
        """The current session; it changes when one expires."""
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Created:
        """Add a node; with ``sequence`` a rising number of ten digits is put behind its name.

        NodeExists, NoNode (its parent), NoChildrenForEphemerals.
        """
        ...

    async def get(self, path: str) -> Node:
        """The node; NoNode when there is none."""
        ...

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        """The nodes in the order asked, None for each that is not there; made for thousands."""
        ...

    async def exists(self, path: str) -> Stat | None:
        """The node's stat, or None when there is none."""
        ...

    async def children(self, path: str) -> list[str]:
        """The names of its children, sorted; NoNode when there is no such node."""
        ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data; NoNode, BadVersion."""
        ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node; NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, ops: Sequence[Op]) -> list[Outcome]:
        """All of ``ops`` in one transaction, each seeing those before it; or none.

        The first that cannot be done raises its error, with ``index`` set.
        """
        ...

    async def watch(self, path: str, callback: Callable[[], None], *, children: bool = False) -> Watch:
        """Call back on the loop after each change, until cancelled: the node came, went or was set; with
        ``children``, its list of children changed.

        Changes may share a call, and a call may come without a change; but a change that a read did not yet see
        is always followed by a call.  The node need not be there.
        """
        ...

    def on_session_expired(self, callback: Callable[[], None]) -> None:
        """Call back on the loop whenever the session was lost; a new one is open by then, watches still stand."""
        ...

    async def close(self) -> None:
        """End the session: its ephemeral nodes go, its watches are silent."""
        ...


def parent_of(path: str) -> str:
    """The path one step up; the root has none."""
    assert path.startswith("/") and len(path) > 1, path
    return path.rpartition("/")[0] or "/"


async def ensure(registry: Registry, path: str) -> None:
    """Make a lasting node and its parents where they are missing."""
    if path == "/" or await registry.exists(path):
        return
    await ensure(registry, parent_of(path))
    try:
        await registry.create(path)
    except NodeExists:
        return  # Another broker starts at the same time.
