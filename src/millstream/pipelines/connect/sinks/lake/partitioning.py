"""Where in a table a record belongs, by Confluent's partitioners: as in the topic, by fields, or by a time."""

import datetime
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sinks.lake import options
from millstream.pipelines.connect.sinks.lake.fitting import shown
from millstream.pipelines.connect.sinks.lake.time_format import Segment, segments

#: A folder's name and value, from the outermost in; without a name, the value is all there is.
Place = tuple[tuple[str | None, Any], ...]
#: Hive's word for no value.
NOTHING = "__HIVE_DEFAULT_PARTITION__"
#: What file systems allow a name.
FOLDER_BYTES_MAX = 255
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOMENTS = (datetime.datetime, str, int, float)


class Partitioner:
    """Says where a record belongs; its value's fields are what the columns have."""

    #: The columns of a table that is partitioned so.
    columns: tuple[str, ...] = ()
    #: Whether records bring these columns.
    is_by_fields = False

    def place(self, record: Record, row: Mapping[str, Any], now_ms: int) -> Place:
        """The folders of a record."""
        return ()


class ByTopicPartition(Partitioner):
    """``partition=3``: as the topic has it."""

    columns = ("partition",)

    def place(self, record: Record, row: Mapping[str, Any], now_ms: int) -> Place:
        return (("partition", record.partition),)


class ByField(Partitioner):
    """``country=NL/kind=new``: by what some fields say."""

    is_by_fields = True

    def __init__(self, names: tuple[str, ...]) -> None:
        self.columns = names

    def place(self, record: Record, row: Mapping[str, Any], now_ms: int) -> Place:
        for name in self.columns:
            value = row.get(name)
            if not isinstance(value, str | int | datetime.date | None) or isinstance(value, datetime.datetime):
                raise DataError(
                    f"field {name}: {shown(value)}: a table is partitioned by texts, whole numbers and days"
                )
        return tuple((name, row.get(name)) for name in self.columns)


class ByTime(Partitioner):
    """``year=2026/month=11``: by a time, brought down to the start of its span in a time zone."""

    def __init__(
        self,
        parts: list[Segment],
        zone: ZoneInfo,
        duration_ms: int,
        extract: Callable[[Record, int], datetime.datetime],
    ) -> None:
        self.columns = tuple(part.name for part in parts if part.name is not None)
        self._parts = parts
        self._zone = zone
        self._duration = datetime.timedelta(milliseconds=duration_ms)
        self._extract = extract
        self._places: dict[datetime.datetime, Place] = {}

    def place(self, record: Record, row: Mapping[str, Any], now_ms: int) -> Place:
        try:
            local = self._extract(record, now_ms).astimezone(self._zone).replace(tzinfo=None)
            start = local - (local - EPOCH.replace(tzinfo=None)) % self._duration
        except (OverflowError, ValueError) as error:
            raise DataError(f"the record's time is out of bounds: {error}") from None
        found = self._places.get(start)
        if found is None:
            found = self._places[start] = tuple((part.name, part.value(start)) for part in self._parts)
        return found


def _now(record: Record, now_ms: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=now_ms)


def _of_record(record: Record, now_ms: int) -> datetime.datetime:
    if record.timestamp_ms is None:
        raise DataError("the record has no timestamp")
    return EPOCH + datetime.timedelta(milliseconds=record.timestamp_ms)


def _of_field(name: str) -> Callable[[Record, int], datetime.datetime]:
    names = name.split(".")

    def extract(record: Record, now_ms: int) -> datetime.datetime:
        value = record.value
        for part in names:
            value = value.get(part) if isinstance(value, Mapping) else None
        if not isinstance(value, _MOMENTS) or isinstance(value, bool):
            raise DataError(f"field {name}: {shown(value)} is no time (milliseconds, a timestamp, or ISO 8601)")
        return _moment(value, name)

    return extract


def _moment(value: Any, name: str) -> datetime.datetime:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise DataError(f"field {name}: {shown(value)} is no time of ISO 8601") from None
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return EPOCH + datetime.timedelta(milliseconds=value)


def partitioner(config: Config, *, is_table: bool) -> Partitioner:
    """What a config that was checked asks for; tables are not partitioned unless it says so."""
    match options.short_name(config[options.PARTITIONER]):
        case "DefaultPartitioner":
            return Partitioner() if is_table else ByTopicPartition()
        case "FieldPartitioner":
            return ByField(config[options.PARTITION_FIELDS])
    extract = {"Wallclock": _now, "Record": _of_record}.get(config[options.TIMESTAMP_EXTRACTOR])
    return ByTime(
        segments(options.path_format(config)),
        ZoneInfo(config[options.TIMEZONE]),
        options.duration_ms(config),
        extract or _of_field(config[options.TIMESTAMP_FIELD]),
    )


def folders(place: Place) -> str:
    """A place as a path."""
    return "/".join(_folder(name, value) for name, value in place)


def _folder(name: str | None, value: Any) -> str:
    text = quote(text_of(value) or "", safe=" +,@:") if value is not None else NOTHING
    folder = f"{quote(name, safe=' +,@:')}={text}" if name is not None else text
    if len(folder) > FOLDER_BYTES_MAX or folder in (".", ".."):
        raise DataError(f"field {name}: {shown(value)} is too long for a folder's name")
    return folder


def text_of(value: Any) -> str | None:
    """A partition's value as text, as Hive and Delta write it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
