"""What a config may say, by Debezium's names and with its defaults."""

import re
from typing import Any

from millstream.config.setting import BOOLEAN, INT, LIST, NOT_EMPTY, PASSWORD, STRING, Check, between, one_of
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.patterns import compile_pattern, is_pattern
from millstream.pipelines.connect.postgres.connection import Database

_GROUP, _TABLES, _VALUES = "Postgres", "Tables", "Values"
_PATTERNS = Check("a list of regular expressions", lambda texts: all(map(is_pattern, texts)))
#: A slot's name is a folder's on the server.
_SLOT = Check("of small letters, digits and _", lambda text: bool(re.fullmatch(r"[a-z0-9_]{1,63}", text)))

INITIAL, INITIAL_ONLY, NEVER = "initial", "initial_only", ("never", "no_data", "schema_only")

HOST = Option[str](
    "database.hostname", STRING, default=REQUIRED, doc="Where the server is.", importance="HIGH", group=_GROUP
)
PORT = Option[int](
    "database.port", INT, default=5432, check=between(1, 65535), doc="Its port.", importance="HIGH", group=_GROUP
)
USER = Option[str](
    "database.user", STRING, default=REQUIRED, doc="As whom to connect.", importance="HIGH", group=_GROUP
)
SECRET = Option[str](
    "database.password", PASSWORD, default="", doc="What to show for it.", importance="HIGH", group=_GROUP
)
NAME = Option[str]("database.dbname", STRING, default=REQUIRED, doc="The database.", importance="HIGH", group=_GROUP)
SSL = Option[str](
    "database.sslmode",
    STRING,
    default="prefer",
    check=one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    doc="Whether the way to the server is encrypted.",
    group=_GROUP,
)
PREFIX = Option[str](
    "topic.prefix",
    STRING,
    default=REQUIRED,
    check=Check("of letters, digits, ., _ and -", lambda text: bool(re.fullmatch(r"[\w.-]+", text, re.ASCII))),
    doc="The server's name to its readers: topics are PREFIX.SCHEMA.TABLE.",
    importance="HIGH",
    group=_GROUP,
)
SLOT = Option[str](
    "slot.name",
    STRING,
    default="debezium",
    check=_SLOT,
    doc="The replication slot, which keeps what was not read; no two connectors share one. Made when it is missing.",
    group=_GROUP,
)
DROPS_SLOT = Option[bool](
    "slot.drop.on.stop",
    BOOLEAN,
    default=False,
    check=Check("false, for what happens meanwhile would be lost", lambda drops: not drops),
    doc="Taken for the sake of existing configs.",
    importance="LOW",
    group=_GROUP,
)
PLUGIN = Option[str](
    "plugin.name",
    STRING,
    default="pgoutput",
    check=one_of("pgoutput"),
    doc="How the server writes changes: as it does of its own accord.",
    importance="LOW",
    group=_GROUP,
)
PUBLICATION = Option[str](
    "publication.name",
    STRING,
    default="dbz_publication",
    check=NOT_EMPTY,
    doc="What the server publishes, by name.",
    group=_GROUP,
)
AUTOCREATE = Option[str](
    "publication.autocreate.mode",
    STRING,
    default="all_tables",
    check=one_of("all_tables", "filtered", "disabled"),
    doc="What a publication that is missing is made of: all tables, those that are chosen, or, disabled, not at all.",
    group=_GROUP,
)
SNAPSHOT = Option[str](
    "snapshot.mode",
    STRING,
    default=INITIAL,
    check=one_of(INITIAL, INITIAL_ONLY, *NEVER),
    doc="initial: the rows that are there, then changes; initial_only: only these rows; no_data: only changes.",
    group=_GROUP,
)
TABLES = Option[tuple[str, ...]](
    "table.include.list",
    LIST,
    default=(),
    check=_PATTERNS,
    doc="The tables, as regular expressions for SCHEMA.TABLE; all when empty.",
    importance="HIGH",
    group=_TABLES,
)
TABLES_NOT = Option[tuple[str, ...]](
    "table.exclude.list", LIST, default=(), check=_PATTERNS, doc="The tables that are left out.", group=_TABLES
)
SCHEMAS = Option[tuple[str, ...]](
    "schema.include.list", LIST, default=(), check=_PATTERNS, doc="The schemas; all when empty.", group=_TABLES
)
SCHEMAS_NOT = Option[tuple[str, ...]](
    "schema.exclude.list", LIST, default=(), check=_PATTERNS, doc="The schemas that are left out.", group=_TABLES
)
TOMBSTONES = Option[bool](
    "tombstones.on.delete",
    BOOLEAN,
    default=True,
    doc="Whether a delete is followed by a record without a value, so that compaction forgets the key.",
    group=_VALUES,
)
SKIPPED = Option[tuple[str, ...]](
    "skipped.operations",
    LIST,
    default=("t",),
    check=Check("none, or some of c, u, d, t", lambda names: names == ("none",) or set(names) <= set("cudt")),
    doc="Changes that are left out: c(reate), u(pdate), d(elete), t(runcate); none for none.",
    group=_VALUES,
)
DECIMALS = Option[str](
    "decimal.handling.mode",
    STRING,
    default="precise",
    check=one_of("precise", "double", "string"),
    doc="What NUMERIC becomes: Connect's Decimal (Debezium's VariableScaleDecimal without limits), a double, or text.",
    group=_VALUES,
)
TIMES = Option[str](
    "time.precision.mode",
    STRING,
    default="adaptive",
    check=one_of("adaptive", "adaptive_time_microseconds", "connect"),
    doc="What times become: Debezium's types, to the microsecond, or Connect's, to the millisecond.",
    group=_VALUES,
)
PLACEHOLDER = Option[str](
    "unavailable.value.placeholder",
    STRING,
    default="__debezium_unavailable_value",
    doc="What stands for a large value that an update left as it was, and the server does not send.",
    group=_VALUES,
)
OPTIONS: tuple[Option[Any], ...] = (
    *(HOST, PORT, USER, SECRET, NAME, SSL, PREFIX, SLOT, DROPS_SLOT, PLUGIN, PUBLICATION, AUTOCREATE, SNAPSHOT),
    *(TABLES, TABLES_NOT, SCHEMAS, SCHEMAS_NOT, TOMBSTONES, SKIPPED, DECIMALS, TIMES, PLACEHOLDER),
)


def database(config: Config) -> Database:
    """Where the config says."""
    return Database.at(
        host=config[HOST],
        port=config[PORT],
        user=config[USER],
        password=config[SECRET],
        dbname=config[NAME],
        sslmode=config[SSL],
    )


class Choice:
    """Which tables a config means."""

    def __init__(self, config: Config) -> None:
        self._tables, self._tables_not = _matcher(config[TABLES]), _matcher(config[TABLES_NOT])
        self._schemas, self._schemas_not = _matcher(config[SCHEMAS]), _matcher(config[SCHEMAS_NOT])

    def has(self, schema: str, table: str) -> bool:
        """Whether the table is one of them."""
        name = f"{schema}.{table}"
        return (
            (self._tables is None or self._tables.fullmatch(name) is not None)
            and (self._tables_not is None or self._tables_not.fullmatch(name) is None)
            and (self._schemas is None or self._schemas.fullmatch(schema) is not None)
            and (self._schemas_not is None or self._schemas_not.fullmatch(schema) is None)
        )


def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    """Any of these, in letters large or small; None without any."""
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{compile_pattern(pattern).pattern})" for pattern in patterns), re.IGNORECASE)
