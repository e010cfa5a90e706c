"""What every connector's config may say, as tables; Kafka Connect's names and defaults.

``validation`` shows them beside the options of a connector's own.
"""

import re
from collections.abc import Mapping
from typing import Any

from millstream.config.setting import BOOLEAN, INT, LIST, LONG, SHORT, STRING, Check, at_least, one_of
from millstream.pipelines.connect.options import CLASS, REQUIRED, Option
from millstream.pipelines.connect.patterns import is_pattern

_COMMON, _TRANSFORMS, _PREDICATES = "Common", "Transforms", "Predicates"
_ERRORS, _BATCHES = "Error Handling", "Batches"

#: Where neither the connector nor the worker names one.
DEFAULT_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
DEFAULT_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

_NAME = Check(
    "not empty and without control characters",
    lambda text: bool(text.strip()) and not re.search(r"[\x00-\x1f\x7f-\x9f]", text),
)
_UNIQUE = Check("a list of different names", lambda names: len(names) == len(set(names)))
_PATTERN = Check("a regular expression", is_pattern)

NAME = Option[str](
    "name",
    STRING,
    default=REQUIRED,
    check=_NAME,
    doc="The connector's name; no other has it.",
    importance="HIGH",
    group=_COMMON,
    display="Connector name",
)
CONNECTOR_CLASS = Option[str](
    "connector.class",
    STRING,
    default=REQUIRED,
    doc="What the connector is: a name from GET /connector-plugins, its last word, or package.module.Class.",
    importance="HIGH",
    group=_COMMON,
    width="LONG",
    display="Connector class",
)
TASKS_MAX = Option[int](
    "tasks.max",
    INT,
    default=1,
    check=at_least(1),
    doc="How many tasks may run side by side at most.",
    importance="HIGH",
    group=_COMMON,
    width="SHORT",
    display="Tasks max",
)
TASKS_MAX_ENFORCE = Option[bool](
    "tasks.max.enforce",
    BOOLEAN,
    default=True,
    doc="Taken for the sake of existing configs: there are never more tasks than tasks.max.",
    importance="LOW",
    group=_COMMON,
    width="SHORT",
    display="Enforce tasks max",
)
KEY_CONVERTER = Option[str | None](
    "key.converter",
    CLASS,
    default=None,
    doc="What keys are as bytes; the worker's when not given.",
    importance="LOW",
    group=_COMMON,
    width="SHORT",
    display="Key converter class",
)
VALUE_CONVERTER = Option[str | None](
    "value.converter",
    CLASS,
    default=None,
    doc="What values are as bytes; the worker's when not given.",
    importance="LOW",
    group=_COMMON,
    width="SHORT",
    display="Value converter class",
)
HEADER_CONVERTER = Option[str | None](
    "header.converter",
    CLASS,
    default=None,
    doc="What headers are as bytes; the worker's when not given.",
    importance="LOW",
    group=_COMMON,
    width="SHORT",
    display="Header converter class",
)
TRANSFORMS = Option[tuple[str, ...]](
    "transforms",
    LIST,
    default=(),
    check=_UNIQUE,
    doc="Aliases of the transforms that records pass, in order; transforms.ALIAS.type says what each is.",
    importance="LOW",
    group=_TRANSFORMS,
    width="LONG",
    display="Transforms",
)
PREDICATES = Option[tuple[str, ...]](
    "predicates",
    LIST,
    default=(),
    check=_UNIQUE,
    doc="Aliases of the predicates that transforms name; predicates.ALIAS.type says what each is.",
    importance="LOW",
    group=_PREDICATES,
    width="LONG",
    display="Predicates",
)
CONFIG_ACTION_RELOAD = Option[str](
    "config.action.reload",
    STRING,
    default="restart",
    check=one_of("none", "restart"),
    doc="What to do when a value that lies outside of the config changes there.",
    importance="LOW",
    group=_COMMON,
    display="Reload Action",
)
ERRORS_RETRY_TIMEOUT = Option[int](
    "errors.retry.timeout",
    LONG,
    default=0,
    doc="For how many milliseconds something that failed and may yet succeed is tried again; -1: for ever.",
    group=_ERRORS,
    display="Retry Timeout for Errors",
)
ERRORS_RETRY_DELAY_MAX_MS = Option[int](
    "errors.retry.delay.max.ms",
    LONG,
    default=60_000,
    check=at_least(0),
    doc="The longest wait between two tries.",
    group=_ERRORS,
    display="Maximum Delay Between Retries for Errors",
)
ERRORS_TOLERANCE = Option[str](
    "errors.tolerance",
    STRING,
    default="none",
    check=one_of("none", "all"),
    doc="none: a record that cannot be converted, transformed or taken stops the connector; all: it is passed over.",
    group=_ERRORS,
    width="SHORT",
    display="Error Tolerance",
    recommended=("none", "all"),
)
ERRORS_LOG_ENABLE = Option[bool](
    "errors.log.enable",
    BOOLEAN,
    default=False,
    doc="Whether each error is logged, and not only the last one of a connector that stops.",
    group=_ERRORS,
    width="SHORT",
    display="Log Errors",
)
ERRORS_LOG_INCLUDE_MESSAGES = Option[bool](
    "errors.log.include.messages",
    BOOLEAN,
    default=False,
    doc="Whether the log says which record it was.",
    group=_ERRORS,
    width="SHORT",
    display="Log Error Details",
)
COMMON: tuple[Option[Any], ...] = (
    NAME,
    CONNECTOR_CLASS,
    TASKS_MAX,
    TASKS_MAX_ENFORCE,
    KEY_CONVERTER,
    VALUE_CONVERTER,
    HEADER_CONVERTER,
    TRANSFORMS,
    PREDICATES,
    CONFIG_ACTION_RELOAD,
    ERRORS_RETRY_TIMEOUT,
    ERRORS_RETRY_DELAY_MAX_MS,
    ERRORS_TOLERANCE,
    ERRORS_LOG_ENABLE,
    ERRORS_LOG_INCLUDE_MESSAGES,
)

TOPICS = Option[tuple[str, ...]](
    "topics",
    LIST,
    default=(),
    doc="The topics whose records the sink takes.",
    importance="HIGH",
    group=_COMMON,
    width="LONG",
    display="Topics",
)
TOPICS_REGEX = Option[str](
    "topics.regex",
    STRING,
    default="",
    check=_PATTERN,
    doc="A regular expression for the names of those topics; either this or topics.",
    importance="HIGH",
    group=_COMMON,
    width="LONG",
    display="Topics regex",
)
LETTERS_TOPIC = Option[str](
    "errors.deadletterqueue.topic.name",
    STRING,
    default="",
    doc="Where records go that were passed over, as they were; nowhere when empty.",
    group=_ERRORS,
    display="Dead Letter Queue Topic Name",
)
LETTERS_REPLICATION_FACTOR = Option[int](
    "errors.deadletterqueue.topic.replication.factor",
    SHORT,
    default=3,
    doc="Of that topic, when it has to be made.",
    group=_ERRORS,
    display="Dead Letter Queue Topic Replication Factor",
)
LETTERS_HEADERS = Option[bool](
    "errors.deadletterqueue.context.headers.enable",
    BOOLEAN,
    default=False,
    doc="Whether they say what happened to them, in headers that begin with __connect.errors.",
    group=_ERRORS,
    display="Enable Error Context Headers",
)
BATCH_INTERVAL_MS = Option[int | None](
    "batch.interval.ms",
    LONG,
    default=None,
    check=at_least(0),
    doc="Time between batches; when not given, one begins as soon as there is something.",
    group=_BATCHES,
)
MAX_POLL_RECORDS = Option[int](
    "consumer.override.max.poll.records",
    INT,
    default=50_000,
    check=at_least(1),
    doc="How many records are in a batch at most, over all partitions.",
    group=_BATCHES,
)
ISOLATION_LEVEL = Option[str](
    "consumer.override.isolation.level",
    STRING,
    default="read_committed",
    check=one_of("read_committed", "read_uncommitted"),
    doc="Whether records of open and aborted transactions are left out.",
    group=_BATCHES,
)
AUTO_OFFSET_RESET = Option[str](
    "consumer.override.auto.offset.reset",
    STRING,
    default="earliest",
    check=one_of("earliest", "latest", "none"),
    doc="Where a new sink begins; none: it stops when records are gone before it read them.",
    group=_BATCHES,
)
GROUP_ID = Option[str | None](
    "consumer.override.group.id",
    STRING,
    default=None,
    check=Check("not empty", bool),
    doc="The consumer group that shows how far a sink is; connect-NAME when not given.",
    group=_BATCHES,
)
SINK: tuple[Option[Any], ...] = (
    *COMMON,
    *(TOPICS, TOPICS_REGEX, LETTERS_TOPIC, LETTERS_REPLICATION_FACTOR, LETTERS_HEADERS),
    *(BATCH_INTERVAL_MS, MAX_POLL_RECORDS, ISOLATION_LEVEL, AUTO_OFFSET_RESET, GROUP_ID),
)

EXACTLY_ONCE_SUPPORT = Option[str](
    "exactly.once.support",
    STRING,
    default="requested",
    check=Check("one of requested, required", lambda text: text.lower() in ("requested", "required")),
    doc="Taken for the sake of existing configs: a source's records are in its topics exactly once.",
    group="Exactly Once Support",
    width="SHORT",
    display="Exactly once support",
    recommended=("requested", "required"),
)
OFFSETS_TOPIC = Option[str | None](
    "offsets.storage.topic",
    STRING,
    default=None,
    check=Check("not empty", bool),
    doc="A topic of its own for the connector's offsets; the worker's when not given.",
    importance="LOW",
    group="offsets.topic",
    width="LONG",
    display="Offsets topic",
)
POLL_INTERVAL_MS = Option[int](
    "poll.interval.ms",
    LONG,
    default=500,
    check=at_least(0),
    doc="How long a source rests that had nothing new.",
    group=_BATCHES,
)
BATCH_MAX_ROWS = Option[int](
    "batch.max.rows",
    INT,
    default=20_000,
    check=at_least(1),
    doc="How many records of a partition are in a batch, about.",
    group=_BATCHES,
)
COMPRESSION_TYPE = Option[str](
    "producer.override.compression.type",
    STRING,
    default="none",
    check=one_of("none", "gzip", "snappy", "lz4", "zstd"),
    doc="How records are compressed.",
    group=_BATCHES,
)
TOPIC_CREATION_GROUPS = Option[tuple[str, ...]](
    "topic.creation.groups",
    LIST,
    default=(),
    check=_UNIQUE,
    doc="Groups of topics that are made alike; topic.creation.GROUP.* says how.",
    importance="LOW",
    group="Topic Creation",
    width="LONG",
    display="Topic Creation Groups",
)
SOURCE: tuple[Option[Any], ...] = (
    *(*COMMON, TOPIC_CREATION_GROUPS, EXACTLY_ONCE_SUPPORT, OFFSETS_TOPIC),
    *(POLL_INTERVAL_MS, BATCH_MAX_ROWS, COMPRESSION_TYPE),
)


def layered(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """A config over what the worker says; the worker's options of a converter are not for one that a config names."""
    converters = (KEY_CONVERTER, VALUE_CONVERTER, HEADER_CONVERTER)
    own = tuple(f"{option.name}." for option in converters if option.name in given)
    return {**{name: text for name, text in defaults.items() if not name.startswith(own)}, **given}


def sink_group(given: Mapping[str, str]) -> str:
    """The consumer group that a sink commits as."""
    return given.get(GROUP_ID.name, "").strip() or f"connect-{given.get(NAME.name, '')}"


def topic_creation(is_default: bool) -> tuple[Option[Any], ...]:
    """What may be said of a group of topics, or, below topic.creation.default, of all others."""
    count = Check("positive, or -1 for the broker's own", lambda number: number > 0 or number == -1)
    patterns = Check("regular expressions", lambda texts: all(map(is_pattern, texts)))
    which = Option[tuple[str, ...]](
        "include", LIST, default=(".*",) if is_default else REQUIRED, check=patterns, doc="Names of its topics."
    )
    return (
        which,
        Option[tuple[str, ...]]("exclude", LIST, default=(), check=patterns, doc="Names of topics that it has not."),
        Option[int | None](
            "replication.factor",
            SHORT,
            default=REQUIRED if is_default else None,
            check=count,
            doc="Copies of each partition; that of topic.creation.default when not given.",
        ),
        Option[int | None](
            "partitions",
            INT,
            default=REQUIRED if is_default else None,
            check=count,
            doc="Partitions of each topic; those of topic.creation.default when not given.",
        ),
    )
