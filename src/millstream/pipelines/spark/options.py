"""The options of the source: a table, and the few that are more than one value read into what they stand for.

Names, defaults and precedence are those of Spark's Kafka source. A value that cannot be taken is a SettingError that
names the option and the value.
"""

import difflib
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

from millstream.client.partitions import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from millstream.client.wire import parse_addresses
from millstream.config.setting import (
    BOOLEAN,
    INT,
    LONG,
    MIB,
    MINUTE_MS,
    NOT_EMPTY,
    STRING,
    Kind,
    Setting,
    SettingError,
    at_least,
    one_of,
    table,
)
from millstream.model.ids import TopicPartition

T = TypeVar("T")
D = TypeVar("D")

_UNITS_MS = {"ms": 1, "s": 1000, "m": MINUTE_MS, "min": MINUTE_MS, "h": 60 * MINUTE_MS, "d": 24 * 60 * MINUTE_MS}


def _duration_ms(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if match is None:
        raise ValueError
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]


DURATION = Kind[int](LONG.code, "a time such as 500ms, 30s or 15m", _duration_ms)

BOOTSTRAP = Setting(
    "kafka.bootstrap.servers", STRING, default="", check=NOT_EMPTY, doc="Brokers to begin with, host:port, with commas."
)
PATH = Setting("path", STRING, default="", doc="A broker's log directory, read in place of asking a broker.")
SUBSCRIBE = Setting("subscribe", STRING, default="", check=NOT_EMPTY, doc="Topics, with commas.")
SUBSCRIBE_PATTERN = Setting(
    "subscribePattern", STRING, default="", check=NOT_EMPTY, doc="A regular expression that whole topic names match."
)
ASSIGN = Setting("assign", STRING, default="", check=NOT_EMPTY, doc='Partitions by topic: {"orders": [0, 1]}.')
STARTING_OFFSETS = Setting(
    "startingOffsets",
    STRING,
    default="",
    check=NOT_EMPTY,
    doc='earliest, latest (streams only) or {"orders": {"0": 23, "1": -2}}; -2 is the earliest, -1 the latest. '
    "Batches start at the earliest, new streams at the latest.",
)
ENDING_OFFSETS = Setting(
    "endingOffsets",
    STRING,
    default="latest",
    check=NOT_EMPTY,
    doc="latest, or offsets as in startingOffsets. Batches only.",
)
MOMENT = replace(LONG, wanted="milliseconds since 1970, such as 1767225600000")
STARTING_TIMESTAMP = Setting(
    "startingTimestamp", MOMENT, default=0, check=at_least(0), doc="Milliseconds; the first record that is not older."
)
ENDING_TIMESTAMP = Setting(
    "endingTimestamp",
    MOMENT,
    default=0,
    check=at_least(0),
    doc="Milliseconds; up to the first record that is not older.",
)
STARTING_BY_TIMESTAMP = Setting(
    "startingOffsetsByTimestamp",
    STRING,
    default="",
    doc='startingTimestamp for each partition: {"orders": {"0": 1700}}.',
)
ENDING_BY_TIMESTAMP = Setting("endingOffsetsByTimestamp", STRING, default="", doc="endingTimestamp for each partition.")
STRATEGY = Setting(
    "startingOffsetsByTimestampStrategy",
    STRING,
    default="error",
    check=one_of("error", "latest"),
    doc="What to do where no record is as young as the starting timestamp.",
)
MIN_PARTITIONS = Setting(
    "minPartitions", INT, default=0, check=at_least(1), doc="At least so many tasks, by splitting large partitions."
)
MAX_RECORDS_PER_PARTITION = Setting(
    "maxRecordsPerPartition", LONG, default=0, check=at_least(1), doc="No task reads more records than this."
)
MAX_OFFSETS = Setting(
    "maxOffsetsPerTrigger", LONG, default=0, check=at_least(1), doc="A micro-batch reads no more offsets than this."
)
MIN_OFFSETS = Setting(
    "minOffsetsPerTrigger",
    LONG,
    default=0,
    check=at_least(1),
    doc="A micro-batch waits until so many offsets are there…",
)
MAX_DELAY = Setting("maxTriggerDelay", DURATION, default=15 * MINUTE_MS, doc="…but no longer than this.")
FAIL_ON_DATA_LOSS = Setting(
    "failOnDataLoss", BOOLEAN, default=True, doc="Fail when records are gone that should have been read; else go on."
)
INCLUDE_HEADERS = Setting("includeHeaders", BOOLEAN, default=False, doc="A further column with the records' headers.")
GROUP_ID_PREFIX = Setting(
    "groupIdPrefix", STRING, default="", doc="How the connections name themselves to the broker; no group is joined."
)
ISOLATION = Setting(
    "kafka.isolation.level",
    STRING,
    default="read_uncommitted",
    check=one_of("read_uncommitted", "read_committed"),
    doc="Whether records of open and aborted transactions are left out.",
)
PARTITION_BYTES = Setting(
    "kafka.max.partition.fetch.bytes", INT, default=4 * MIB, check=at_least(1), doc="Bytes a task asks for at a time."
)
TIMEOUT_MS = Setting(
    "kafka.request.timeout.ms", INT, default=30_000, check=at_least(1), doc="How long an answer is waited for."
)
TIMESTAMP_DISORDER = Setting(
    "maxTimestampDisorder",
    DURATION,
    default=0,
    doc="A promise that no record is older than one before it in its partition by more than this; "
    "a query for records before a moment then stops reading where no more can come.",
)
READS_ANEW = Setting(
    "readsAnew",
    BOOLEAN,
    default=False,
    doc="A batch's range is settled by the one task that reads it, each time it does: a table that a stream is joined "
    "with is then as new as the micro-batch. Batches only.",
)
CHECK_CRCS = Setting("kafka.check.crcs", BOOLEAN, default=True, doc="Compare each batch with its checksum.")

#: Everything the source looks at.
TABLE: Mapping[str, Setting[Any]] = table(list(globals().values()))

#: Options of Spark's source that tune its consumers and mean nothing here: taken, so that code moves unchanged.
IGNORED = frozenset(
    {"kafkaconsumer.polltimeoutms", "fetchoffset.numretries", "fetchoffset.retryintervalms", "kafka.group.id"}
)
#: What Spark's source refuses because it must decide it itself.
DECIDED_HERE = frozenset(
    {
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
    }
)
_SECURITY_PREFIXES = ("kafka.sasl.", "kafka.ssl.", "kafka.clusters.")
_NEARLY = 0.85
#: Other settings of Kafka's clients may look much like one that means something here.
_NEARLY_KAFKAS = 0.92


def refuse(setting: Setting[Any] | str, value: object, must: str) -> NoReturn:
    """The SettingError of an option whose value cannot be taken."""
    name = setting if isinstance(setting, str) else setting.name
    raise SettingError(f"{name}={value}: {must}")


class Options:
    """The options as given, case-insensitive, each read when asked for."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def __contains__(self, setting: Setting[Any]) -> bool:
        return setting.name.lower() in self._given

    def text(self, setting: Setting[Any]) -> str:
        """The value as it was given."""
        return self._given[setting.name.lower()]

    def __getitem__(self, setting: Setting[T]) -> T:
        return self.get(setting, setting.default)

    def get(self, setting: Setting[T], default: D) -> T | D:
        """The value, or ``default`` where none was given."""
        return setting.parse(self.text(setting)) if setting in self else default

    def check_names(self, known: Iterable[str], decided_here: Container[str], why: str) -> None:
        """SettingError for an option that cannot be honoured, or that is surely a misspelling of a ``known`` one."""
        by_lower = {name.lower(): name for name in known}
        for name, value in self._given.items():
            if name == "kafka.security.protocol" and value.upper() != "PLAINTEXT":
                refuse(name, value, "only PLAINTEXT is spoken here")
            if name.startswith(_SECURITY_PREFIXES):
                refuse(name, "[hidden]", "encryption and authentication are not spoken here")
            if name in decided_here:
                refuse(name, value, why)
            if name in by_lower or name in IGNORED:
                continue
            nearly = _NEARLY_KAFKAS if name.startswith("kafka.") else _NEARLY
            for near in difflib.get_close_matches(name, by_lower, n=1, cutoff=nearly):
                refuse(name, value, f"unknown option; did you mean {by_lower[near]}?")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions are read: those of named topics, of topics by pattern, or exactly those named."""

    option: str
    value: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None

    def refuse(self, must: str) -> NoReturn:
        refuse(self.option, self.value, must)


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where reading starts or stops: one place or moment for all partitions, or one for each.

    ``EARLIEST`` and ``LATEST`` stand for places among ``everywhere`` and ``offsets``.
    """

    option: str
    value: str
    everywhere: int | None = None
    timestamp_ms: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamps: Mapping[TopicPartition, int] | None = None

    def refuse(self, must: str) -> NoReturn:
        refuse(self.option, self.value, must)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source was asked for, checked as far as that can be done without a cluster."""

    bootstrap: str
    path: str
    selection: Selection
    starting: Boundary
    ending: Boundary
    strategy: str
    tasks_min: int
    task_records_max: int
    trigger_offsets_max: int
    trigger_offsets_min: int
    trigger_delay_max_ms: int
    fails_on_data_loss: bool
    includes_headers: bool
    isolation: int
    client_id: str
    partition_bytes_max: int
    timeout_ms: int
    checks_crcs: bool
    reads_anew: bool
    #: None where nothing is known of the order of timestamps.
    disorder_max_ms: int | None

    @property
    def may_pack(self) -> bool:
        """Whether small ranges may be read by one task: nobody said how many tasks there should be."""
        return not (self.tasks_min or self.task_records_max)

    @property
    def may_start_at_latest(self) -> bool:
        """Whether where a stream starts may move with every record that comes."""
        is_timed = self.starting.timestamp_ms is not None or self.starting.timestamps is not None
        return self.strategy == "latest" if is_timed else LATEST in _places(self.starting)


def batch_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a batch: from the earliest, unless told otherwise, to the latest."""
    options = Options(given)
    found = _parse(options, "earliest")
    if LATEST in _places(found.starting):
        found.starting.refuse("a batch cannot start at the latest offset")
    if EARLIEST in _places(found.ending):
        found.ending.refuse("a batch cannot end at the earliest offset")
    return found


def stream_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a stream: from the latest, unless told otherwise, and without an end."""
    options = Options(given)
    for setting in (ENDING_OFFSETS, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP):
        if setting in options:
            refuse(setting, options.text(setting), "a stream has no end")
    return _parse(options, "latest")


def check_options(given: Mapping[str, str]) -> bool:
    """What can be checked of any read, batch or stream; whether headers were asked for."""
    return _parse(Options(given), "earliest").includes_headers


def _parse(options: Options, starting: str) -> SourceOptions:
    options.check_names(
        TABLE, DECIDED_HERE, "the source decides this itself; where to start is told by startingOffsets"
    )
    least, most = options[MIN_OFFSETS], options[MAX_OFFSETS]
    if most and least > most:
        refuse(MIN_OFFSETS, least, f"more than {MAX_OFFSETS.name}={most}")
    bootstrap, path = options[BOOTSTRAP], options[PATH]
    if not bootstrap and not path:
        refuse(BOOTSTRAP, "", "must name a broker as host:port (or give path, to read a log directory)")
    if bootstrap:
        _read(BOOTSTRAP, bootstrap, parse_addresses)
    return SourceOptions(
        bootstrap=bootstrap,
        path=path,
        selection=_selection(options),
        starting=_boundary(options, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP, STARTING_OFFSETS, starting),
        ending=_boundary(options, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP, ENDING_OFFSETS, "latest"),
        strategy=options[STRATEGY],
        tasks_min=options[MIN_PARTITIONS],
        task_records_max=options[MAX_RECORDS_PER_PARTITION],
        trigger_offsets_max=most,
        trigger_offsets_min=least,
        trigger_delay_max_ms=options[MAX_DELAY],
        fails_on_data_loss=options[FAIL_ON_DATA_LOSS],
        includes_headers=options[INCLUDE_HEADERS],
        isolation=READ_COMMITTED if options[ISOLATION] == "read_committed" else READ_UNCOMMITTED,
        client_id=options[GROUP_ID_PREFIX] or "millstream-spark",
        partition_bytes_max=options[PARTITION_BYTES],
        timeout_ms=options[TIMEOUT_MS],
        checks_crcs=options[CHECK_CRCS],
        reads_anew=options[READS_ANEW],
        disorder_max_ms=options.get(TIMESTAMP_DISORDER, None),
    )


def _places(boundary: Boundary) -> set[int | None]:
    return {boundary.everywhere, *(boundary.offsets or {}).values()}


def _read(setting: Setting[Any], text: str, parse: Callable[[str], T]) -> T:
    """What ``parse`` makes of the text; its ValueError is a refusal of the option."""
    try:
        return parse(text)
    except ValueError as error:
        refuse(setting, text, str(error))


# Which partitions.


def _selection(options: Options) -> Selection:
    ways = [setting for setting in (ASSIGN, SUBSCRIBE, SUBSCRIBE_PATTERN) if setting in options]
    if len(ways) != 1:
        given = ", ".join(f"{way.name}={options.text(way)}" for way in ways) or "none is given"
        raise SettingError(f"exactly one of subscribe, subscribePattern and assign says what to read: {given}")
    way = ways[0]
    text = options[way]
    if way is SUBSCRIBE:
        topics = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
        if not topics:
            refuse(way, text, "must name a topic")
        return Selection(way.name, text, topics=topics)
    if way is SUBSCRIBE_PATTERN:
        try:
            re.compile(text)
        except re.error as error:
            refuse(way, text, f"is no regular expression: {error}")
        return Selection(way.name, text, pattern=text)
    return Selection(way.name, text, partitions=_read(way, text, _assigned))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    found = []
    for topic, indexes in _document(text).items():
        if not isinstance(indexes, list) or not all(type(index) is int and index >= 0 for index in indexes):
            raise ValueError('must give each topic a list of partitions: {"orders": [0, 1]}')
        found += [TopicPartition(topic, index) for index in indexes]
    if not found:
        raise ValueError("must name a partition")
    return tuple(dict.fromkeys(found))


# Where to start and to stop.


def _boundary(
    options: Options, moment: Setting[int], moments: Setting[str], offsets: Setting[str], default: str
) -> Boundary:
    """The first of the three that is given, as in Spark: one timestamp, timestamps, offsets."""
    if moment in options:
        return Boundary(moment.name, options.text(moment), timestamp_ms=options[moment])
    if moments in options:
        text = options[moments]
        return Boundary(moments.name, text, timestamps=_read(moments, text, lambda text: per_partition(text, least=0)))
    text = options.get(offsets, default)
    place = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if place is not None:
        return Boundary(offsets.name, text, everywhere=place)
    if not text.lstrip().startswith("{"):
        refuse(offsets, text, 'must be earliest, latest or JSON such as {"orders": {"0": 23}}')
    return Boundary(offsets.name, text, offsets=_read(offsets, text, lambda text: per_partition(text, least=EARLIEST)))


def per_partition(text: str, least: int) -> dict[TopicPartition, int]:
    """``{"topic": {"0": 23}}`` as numbers by partition; ValueError when it is not that, or one is below ``least``."""
    found = {}
    for topic, numbers in _document(text).items():
        if not isinstance(numbers, dict):
            raise ValueError(f'must give each partition of {topic} a number: {{"{topic}": {{"0": 23}}}}')
        for index, number in numbers.items():
            if not index.isdigit() or type(number) is not int or number < least:
                raise ValueError(f"must give each partition a number from {least} on, not {index!r}: {number!r}")
            found[TopicPartition(topic, int(index))] = number
    return found


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ValueError("must be JSON, an object with topics as its names")
    return document
