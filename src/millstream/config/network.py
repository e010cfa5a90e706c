"""Broker settings of listeners, connections and the requests that come through them."""

from millstream.config.listeners import LIMITS_CHECK, LISTENERS_CHECK, PLACE_CHECK, PROTOCOL_MAP_CHECK
from millstream.config.setting import (
    INT,
    INT_MAX,
    KIB,
    LIST,
    LONG,
    MIB,
    MINUTE_MS,
    STRING,
    Setting,
    at_least,
)

#: The value of a limit that is none.
UNLIMITED = -1

LISTENERS = Setting(
    "listeners",
    LIST,
    default=("PLAINTEXT://:9092",),
    check=LISTENERS_CHECK,
    doc="Where the broker listens, as NAME://host:port with commas; an empty host means every interface.",
)
ADVERTISED_LISTENERS = Setting[tuple[str, ...] | None](
    "advertised.listeners",
    LIST,
    default=None,
    check=LISTENERS_CHECK,
    doc="Where clients are told to find the broker, where that is not where it listens.",
)
LISTENER_SECURITY_PROTOCOL_MAP = Setting(
    "listener.security.protocol.map",
    LIST,
    default=("PLAINTEXT:PLAINTEXT", "SSL:SSL", "SASL_PLAINTEXT:SASL_PLAINTEXT", "SASL_SSL:SASL_SSL"),
    check=PROTOCOL_MAP_CHECK,
    doc="Which security protocol each listener name speaks, as NAME:PROTOCOL with commas.",
)
METRICS_LISTENER = Setting[str | None](
    "metrics.listener",
    STRING,
    default=None,
    check=PLACE_CHECK,
    doc="Where /metrics, /health/live and /health/ready are shown over HTTP, as HOST:PORT; nowhere if not set.",
)
SOCKET_REQUEST_MAX_BYTES = Setting(
    "socket.request.max.bytes",
    INT,
    default=100 * MIB,
    check=at_least(1),
    doc="The largest request taken; a connection that announces a larger one is closed.",
)
SOCKET_SEND_BUFFER_BYTES = Setting(
    "socket.send.buffer.bytes",
    INT,
    default=256 * KIB,
    check=at_least(UNLIMITED),
    doc=(
        "How much of its answers the system holds for a client; -1 leaves it to the system. A near reader is quickest "
        "with little, which is still in the processor's cache; one that is far away wants -1."
    ),
)
SOCKET_RECEIVE_BUFFER_BYTES = Setting(
    "socket.receive.buffer.bytes",
    INT,
    default=UNLIMITED,
    check=at_least(UNLIMITED),
    doc="How much of its requests the system holds for a client; -1 leaves it to the system.",
)
SOCKET_LISTEN_BACKLOG_SIZE = Setting(
    "socket.listen.backlog.size",
    INT,
    default=50,
    check=at_least(1),
    doc="How many connections may wait to be accepted.",
)
MAX_CONNECTIONS = Setting(
    "max.connections",
    INT,
    default=INT_MAX,
    check=at_least(0),
    dynamic=True,
    doc="How many connections the broker holds; further ones are closed at once.",
)
MAX_CONNECTIONS_PER_IP = Setting(
    "max.connections.per.ip",
    INT,
    default=INT_MAX,
    check=at_least(0),
    dynamic=True,
    doc="How many connections one address may hold; further ones are closed at once.",
)
MAX_CONNECTIONS_PER_IP_OVERRIDES = Setting(
    "max.connections.per.ip.overrides",
    LIST,
    default=(),
    check=LIMITS_CHECK,
    dynamic=True,
    doc="Addresses that have a limit of their own, as address:number with commas.",
)
CONNECTIONS_MAX_IDLE_MS = Setting(
    "connections.max.idle.ms",
    LONG,
    default=10 * MINUTE_MS,
    doc="A connection that says nothing for this long is closed.",
)
QUEUED_MAX_REQUEST_BYTES = Setting(
    "queued.max.request.bytes",
    LONG,
    default=-1,
    check=at_least(-1),
    doc="How many bytes of unanswered requests are held before the broker stops reading more; -1 for no limit.",
)
FETCH_MAX_BYTES = Setting(
    "fetch.max.bytes",
    INT,
    default=55 * MIB,
    check=at_least(1024),
    doc="The most that one fetch is answered, whatever the client asks for.",
)
MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS = Setting(
    "max.incremental.fetch.session.cache.slots",
    INT,
    default=1000,
    check=at_least(0),
    doc="How many fetch sessions the broker remembers.",
)
MAX_REQUEST_PARTITION_SIZE_LIMIT = Setting(
    "max.request.partition.size.limit",
    INT,
    default=2000,
    check=at_least(1),
    doc="How many partitions one page of a topic description holds.",
)
