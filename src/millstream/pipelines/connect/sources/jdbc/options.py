"""What a config may say, by Confluent's names."""

from typing import Any

from millstream.config.setting import BOOLEAN, INT, LIST, LONG, STRING, at_least, one_of
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.postgres.options import SECRET, URL, USER

BULK, INCREMENTING, TIMESTAMP, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
_GROUP = "Rows"

MODE = Option[str](
    "mode",
    STRING,
    default=REQUIRED,
    check=one_of(BULK, INCREMENTING, TIMESTAMP, BOTH),
    doc="bulk: everything, each time; incrementing: rows with a higher number than any before; timestamp: rows with a "
    "later time; timestamp+incrementing: both, so that rows of one moment are told apart.",
    importance="HIGH",
    group=_GROUP,
    recommended=(BULK, INCREMENTING, TIMESTAMP, BOTH),
)
NUMBER_COLUMN = Option[str](
    "incrementing.column.name",
    STRING,
    default="",
    doc="The column whose numbers only rise; the only column of the primary key when empty.",
    group=_GROUP,
)
TIME_COLUMNS = Option[tuple[str, ...]](
    "timestamp.column.name",
    LIST,
    default=(),
    doc="The columns with the time of a row's last change; the first that is not null counts.",
    group=_GROUP,
)
TIME_INITIAL = Option[int | None](
    "timestamp.initial",
    LONG,
    default=None,
    doc="Rows up to this time, in milliseconds since 1970, are left out at first; -1: up to now.",
    importance="LOW",
    group=_GROUP,
)
TIME_DELAY_MS = Option[int](
    "timestamp.delay.interval.ms",
    LONG,
    default=0,
    check=at_least(0),
    doc="How old a row's time must be before it is read, for transactions that write it late.",
    group=_GROUP,
)
NON_NULL = Option[bool](
    "validate.non.null",
    BOOLEAN,
    default=True,
    doc="Whether those columns must be declared NOT NULL; rows that have null there are never read.",
    importance="LOW",
    group=_GROUP,
)
TABLES = Option[tuple[str, ...]](
    "table.whitelist",
    LIST,
    default=(),
    doc="The tables to read, TABLE or SCHEMA.TABLE, with * for any letters; all when empty.",
    group=_GROUP,
)
TABLES_NOT = Option[tuple[str, ...]](
    "table.blacklist", LIST, default=(), doc="The tables not to read; either this or table.whitelist.", group=_GROUP
)
SCHEMA_PATTERN = Option[str](
    "schema.pattern", STRING, default="", doc="The schema whose tables are read; all when empty.", group=_GROUP
)
QUERY = Option[str](
    "query",
    STRING,
    default="",
    doc="A query whose rows are read in place of tables; it goes into the topic that topic.prefix names.",
    group=_GROUP,
    width="LONG",
)
PREFIX = Option[str](
    "topic.prefix",
    STRING,
    default=REQUIRED,
    doc="Put before a table's name to make its topic's.",
    importance="HIGH",
    group=_GROUP,
)
NUMERIC = Option[str](
    "numeric.mapping",
    STRING,
    default="none",
    check=one_of("none", "precision_only", "best_fit", "best_fit_eager_double"),
    doc="none: NUMERIC is Connect's Decimal, and text where it has no limits; best_fit: a whole number where it has no "
    "digits behind the point and fits, else a double.",
    importance="LOW",
    group=_GROUP,
)
POLL_MS = Option[int](
    "poll.interval.ms",
    INT,
    default=5_000,
    check=at_least(0),
    doc="How long a table rests that had nothing new, or, in bulk, was read.",
    importance="HIGH",
    group=_GROUP,
)
BATCH_ROWS = Option[int](
    "batch.max.rows",
    INT,
    default=20_000,
    check=at_least(1),
    doc="About how many rows of a table are read at once.",
    importance="LOW",
    group=_GROUP,
)

OPTIONS: tuple[Option[Any], ...] = (
    *(URL, USER, SECRET, MODE, NUMBER_COLUMN, TIME_COLUMNS, TIME_INITIAL, TIME_DELAY_MS, NON_NULL),
    *(TABLES, TABLES_NOT, SCHEMA_PATTERN, QUERY, PREFIX, NUMERIC, POLL_MS, BATCH_ROWS),
)


def inconsistent(config: Config) -> dict[str, str]:
    """What options say against each other."""
    if config[QUERY] and (config[TABLES] or config[TABLES_NOT]):
        return {QUERY.name: "a query and lists of tables exclude each other"}
    if config[TABLES] and config[TABLES_NOT]:
        return {TABLES_NOT.name: "table.whitelist and table.blacklist exclude each other"}
    if config[MODE] in (TIMESTAMP, BOTH) and not config[TIME_COLUMNS]:
        return {TIME_COLUMNS.name: f"mode={config[MODE]} needs it"}
    if config[MODE] in (INCREMENTING, BOTH) and config[QUERY] and not config[NUMBER_COLUMN]:
        return {NUMBER_COLUMN.name: f"mode={config[MODE]} with a query needs it"}
    return {}
