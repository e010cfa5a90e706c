"""What the configs of lake sinks may say, in the words of Confluent's storage connectors where they have some."""

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from millstream.config.setting import DAY_MS, HOUR_MS, INT, LIST, LONG, NOT_EMPTY, STRING, Check, at_least, one_of
from millstream.pipelines.connect.options import CLASS, REQUIRED, Config, Option
from millstream.pipelines.connect.sinks.lake.time_format import PathFormatError, segments

_STORAGE, _PARTITIONER = "Storage", "Partitioner"
_PACKAGE = "io.confluent.connect.storage.partitioner."
_TIMED = ("TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner")
_PARTITIONERS = ("DefaultPartitioner", "FieldPartitioner", *_TIMED)
_DAILY = "'year'=YYYY/'month'=MM/'day'=dd"
_FORMATS = {"DailyPartitioner": _DAILY, "HourlyPartitioner": _DAILY + "/'hour'=HH"}
_DURATIONS_MS = {"DailyPartitioner": DAY_MS, "HourlyPartitioner": HOUR_MS}


def short_name(partitioner: str) -> str:
    """A partitioner by its last word."""
    return partitioner.removeprefix(_PACKAGE)


def _is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


STORE_URL = Option[str](
    "store.url",
    STRING,
    default=REQUIRED,
    check=NOT_EMPTY,
    doc="Where the lake is: a folder that every machine sees, or s3://bucket/path and the like.",
    importance="HIGH",
    group=_STORAGE,
    width="LONG",
    display="Store URL",
)
TOPICS_DIR = Option[str](
    "topics.dir",
    STRING,
    default="topics",
    doc="The folder below store.url that has a folder for each topic.",
    importance="HIGH",
    group=_STORAGE,
    display="Topics directory",
)
TABLE_NAME_FORMAT = Option[str](
    "table.name.format",
    STRING,
    default="${topic}",
    check=NOT_EMPTY,
    doc="The table of a topic's records; ${topic} stands for the topic.",
    group=_STORAGE,
    display="Table name format",
)
FLUSH_SIZE = Option[int](
    "flush.size",
    INT,
    default=1_000_000,
    check=at_least(1),
    doc="A file has no more records than this; a batch ends its files in any case.",
    importance="HIGH",
    group=_STORAGE,
    display="Flush size",
)
CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
PARQUET_CODEC = Option[str](
    "parquet.codec",
    STRING,
    default="snappy",
    check=one_of(*CODECS),
    doc="How the files are compressed.",
    importance="LOW",
    group=_STORAGE,
    display="Parquet compression codec",
    recommended=CODECS,
)
NULL_VALUES = Option[str](
    "behavior.on.null.values",
    STRING,
    default="fail",
    check=one_of("fail", "ignore"),
    doc="What becomes of a record without a value: an error of that record, or nothing.",
    importance="LOW",
    group=_STORAGE,
    display="Behavior on null values",
    recommended=("fail", "ignore"),
)
PARTITIONER = Option[str](
    "partitioner.class",
    CLASS,
    default="DefaultPartitioner",
    check=Check(f"one of {', '.join(_PARTITIONERS)}", lambda name: short_name(name) in _PARTITIONERS),
    doc="What a table is partitioned by. By default files lie by the topic's partitions, and tables have none.",
    importance="HIGH",
    group=_PARTITIONER,
    width="LONG",
    display="Partitioner class",
    recommended=_PARTITIONERS,
)
PARTITION_FIELDS = Option[tuple[str, ...]](
    "partition.field.name",
    LIST,
    default=(),
    doc="The fields of FieldPartitioner, from the outermost folder in.",
    group=_PARTITIONER,
    display="Partition field name",
)
PARTITION_DURATION_MS = Option[int](
    "partition.duration.ms",
    LONG,
    default=-1,
    doc="How long the span of a TimeBasedPartitioner's folder is.",
    group=_PARTITIONER,
    display="Partition duration (ms)",
)
PATH_FORMAT = Option[str](
    "path.format",
    STRING,
    default="",
    doc="The folders of a TimeBasedPartitioner, as 'year'=YYYY/'month'=MM/'day'=dd.",
    group=_PARTITIONER,
    width="LONG",
    display="Path format",
)
LOCALE = Option[str](
    "locale",
    STRING,
    default="en",
    doc="Taken for the sake of existing configs: names of months and days are English.",
    importance="LOW",
    group=_PARTITIONER,
    display="Locale",
)
TIMEZONE = Option[str](
    "timezone",
    STRING,
    default="UTC",
    check=Check("a time zone as Europe/Amsterdam", _is_zone),
    doc="Where the clock hangs that times are read from for folders.",
    group=_PARTITIONER,
    display="Timezone",
)
EXTRACTORS = ("Wallclock", "Record", "RecordField")
TIMESTAMP_EXTRACTOR = Option[str](
    "timestamp.extractor",
    STRING,
    default="Wallclock",
    check=one_of(*EXTRACTORS),
    doc="Whose time it is: the moment of writing, the record's timestamp, or what timestamp.field says.",
    group=_PARTITIONER,
    display="Timestamp extractor",
    recommended=EXTRACTORS,
)
TIMESTAMP_FIELD = Option[str](
    "timestamp.field",
    STRING,
    default="timestamp",
    check=NOT_EMPTY,
    doc="The field of RecordField: milliseconds, a timestamp, or text as of ISO 8601.",
    group=_PARTITIONER,
    display="Record field for timestamp extractor",
)
CATALOG = Option[str](
    "iceberg.catalog",
    STRING,
    default="iceberg",
    check=NOT_EMPTY,
    doc="The catalog's name; in a database, catalogs of several names have tables of their own.",
    group=_STORAGE,
)
CATALOG_TYPE = Option[str](
    "iceberg.catalog.type",
    STRING,
    default="sql",
    check=one_of("sql", "rest"),
    doc="The kind of the Iceberg catalog; whatever else it needs goes by iceberg.catalog.NAME, too.",
    importance="HIGH",
    group=_STORAGE,
    recommended=("sql", "rest"),
)
CATALOG_URI = Option[str](
    "iceberg.catalog.uri",
    STRING,
    default="",
    doc="Where the catalog is; a SQLite file beneath store.url when not given.",
    importance="HIGH",
    group=_STORAGE,
    width="LONG",
)
NAMESPACE = Option[str](
    "iceberg.namespace",
    STRING,
    default="default",
    check=NOT_EMPTY,
    doc="The namespace of the tables.",
    group=_STORAGE,
)

COMMON: Sequence[Option[Any]] = (
    *(STORE_URL, FLUSH_SIZE, PARQUET_CODEC, NULL_VALUES, PARTITIONER, PARTITION_FIELDS, PARTITION_DURATION_MS),
    *(PATH_FORMAT, LOCALE, TIMEZONE, TIMESTAMP_EXTRACTOR, TIMESTAMP_FIELD),
)


def path_format(config: Config) -> str:
    """The folders of a partitioner by time."""
    return _FORMATS.get(short_name(config[PARTITIONER])) or config[PATH_FORMAT]


def duration_ms(config: Config) -> int:
    """The span of a partitioner by time."""
    return _DURATIONS_MS.get(short_name(config[PARTITIONER])) or config[PARTITION_DURATION_MS]


def complaints(config: Config, *, is_table: bool) -> dict[str, str]:
    """What is wrong with a config whose options each are right, by the option."""
    kind = short_name(config[PARTITIONER])
    fields = config[PARTITION_FIELDS]
    if kind == "FieldPartitioner" and (not fields or not all(fields) or len(set(fields)) < len(fields)):
        return {PARTITION_FIELDS.name: "FieldPartitioner needs the names of fields, each once."}
    if kind not in _TIMED:
        return {}
    found = {}
    if duration_ms(config) <= 0:
        found[PARTITION_DURATION_MS.name] = f"{kind} needs a duration above 0."
    try:
        parts = segments(path_format(config))
    except PathFormatError as error:
        return {**found, PATH_FORMAT.name: f"{path_format(config)!r}: {error}."}
    if not parts:
        found[PATH_FORMAT.name] = f"{kind} needs a format, as {_DAILY}."
    elif is_table and (any(part.name is None for part in parts) or len({part.name for part in parts}) < len(parts)):
        found[PATH_FORMAT.name] = "Every folder must be as 'year'=YYYY, for its name is a column of the table."
    return found
