"""Broker settings of a registry that is a ZooKeeper ensemble, and how one is named."""

import re
from typing import NamedTuple
from urllib.parse import unquote

from millstream.config.setting import BOOLEAN, INT, PASSWORD, SECOND_MS, STRING, Check, Setting, at_least

#: How an ensemble is told from other registries on a command line.
SCHEME = "zk://"
DEFAULT_PORT = 2181
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@, ]+)(?::([0-9]{1,5}))?")
_CHROOT = re.compile(r"(/[^/ ]+)+")


class Ensemble(NamedTuple):
    """ZooKeeper servers that hold one tree, and the node of it that is our root (empty for the tree's own)."""

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""

    def __str__(self) -> str:
        return self.hosts + self.chroot

    @property
    def hosts(self) -> str:
        """The servers alone."""
        return ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in self.servers)


def parse_ensemble(text: str) -> Ensemble:
    """The ensemble that ``host:port,host:port/chroot`` names; ValueError when it names none."""
    hosts, slash, rest = text.partition("/")
    chroot = (slash + rest).rstrip("/")
    servers = []
    for server in hosts.split(","):
        found = _SERVER.fullmatch(server.strip())
        port = int(found[2] or DEFAULT_PORT) if found else 0
        if not found or not 0 < port <= 65535:
            raise ValueError(f"{server!r} is not host:port")
        servers.append((found[1].strip("[]"), port))
    if chroot and not _CHROOT.fullmatch(chroot):
        raise ValueError(f"{chroot!r} is not the path of a node")
    return Ensemble(tuple(servers), chroot)


def parse_registry(text: str) -> tuple[str, str | None]:
    """What zookeeper.connect and zookeeper.digest say where ``--registry`` says ``zk://[user:password@]ensemble``.

    ValueError when it says nothing of the kind.
    """
    scheme, found, rest = text.partition(SCHEME)
    if scheme or not found:
        raise ValueError(f"{text!r} is not {SCHEME}host:port,host:port/chroot")
    credentials, at, ensemble = rest.rpartition("@")
    parse_ensemble(ensemble)
    if at and not _are_credentials(unquote(credentials)):
        raise ValueError(f"{SCHEME}…@: what stands before the @ is not user:password")
    return ensemble, unquote(credentials) if at else None


def _are_credentials(text: str) -> bool:
    user, colon, password = text.partition(":")
    return bool(user and colon and password)


ZOOKEEPER_CONNECT = Setting[str | None](
    "zookeeper.connect",
    STRING,
    default=None,
    check=Check("host:port,host:port/chroot", lambda text: bool(parse_ensemble(text))),
    doc="The ZooKeeper ensemble that holds the cluster's state; without one the broker holds it, and is alone.",
)
ZOOKEEPER_SESSION_TIMEOUT_MS = Setting(
    "zookeeper.session.timeout.ms",
    INT,
    default=6 * SECOND_MS,
    check=at_least(1),
    doc="After so long a silence ZooKeeper takes the broker for dead; Kafka says 18000.",
)
ZOOKEEPER_CONNECTION_TIMEOUT_MS = Setting(
    "zookeeper.connection.timeout.ms",
    INT,
    default=18 * SECOND_MS,
    check=at_least(1),
    doc="How long a broker that starts waits for a ZooKeeper server to answer.",
)
ZOOKEEPER_DIGEST = Setting[str | None](
    "zookeeper.digest",
    PASSWORD,
    default=None,
    check=Check("user:password", _are_credentials),
    doc="Who we are to ZooKeeper, as user:password of its digest scheme.",
)
ZOOKEEPER_SET_ACL = Setting[bool | None](
    "zookeeper.set.acl",
    BOOLEAN,
    default=None,
    doc="Whether nodes may be changed by their maker alone; if not set, wherever zookeeper.digest says who that is.",
)
