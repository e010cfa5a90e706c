"""Files into topics: a file or all of a directory, line by line, as they grow.

A place in a file is its name and a position, as with Kafka's own file source; what lies between two positions is read
the same again after a crash, for files are only ever appended to. One that is shorter than what was read of it is
another file, and is read from its beginning. What was to be read and is gone, with its file or without, is passed
over, and said: no further try would bring it back.
"""

import glob
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from millstream.config.setting import LONG, LONG_MAX, NOT_EMPTY, STRING, at_least
from millstream.model.clock import SystemClock
from millstream.pipelines.connect.base import Offset, Partition, Source
from millstream.pipelines.connect.errors import DataError, Unreachable
from millstream.pipelines.connect.lines import (
    DELIMITER,
    FORMAT,
    HAS_HEADER,
    NAMES,
    OPTIONS,
    fields_of,
    names_for,
    pieces,
    struct_of,
)
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.places import COUNT, unlike
from millstream.pipelines.connect.places import TEXT as NAME
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import STRING as TEXT
from millstream.pipelines.connect.settings import ERRORS_TOLERANCE

_log = logging.getLogger("millstream.connect")

FILE = Option[str](
    "file",
    STRING,
    default=REQUIRED,
    check=NOT_EMPTY,
    doc="A file, or a directory of files; it may come later.",
    importance="HIGH",
    width="LONG",
)
TOPIC = Option[str]("topic", STRING, default=REQUIRED, check=NOT_EMPTY, doc="Where the records go.", importance="HIGH")
PATTERN = Option[str](
    "file.pattern",
    STRING,
    default="*",
    check=NOT_EMPTY,
    doc="Which files of a directory, such as *.csv, or **/*.csv for those below it too; hidden ones never.",
)
UNTERMINATED_MS = Option[int](
    "unterminated.after.ms",
    LONG,
    default=10_000,
    check=at_least(-1),
    doc="A last line without an end counts once its file was not written to for so long; -1: never.",
)

#: A batch takes no more than this of a file, unless a single record is larger.
BATCH_BYTES = 64 << 20


class FileSource(Source):
    """A record for each line of text or JSON, or each record of CSV."""

    options = (FILE, TOPIC, PATTERN, UNTERMINATED_MS, *OPTIONS)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._format = config[FORMAT]
        self._clock = SystemClock()

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if config[NAMES] and len(set(config[NAMES])) < len(config[NAMES]):
            return {NAMES.name: "two fields have the same name"}
        return {}

    @classmethod
    def check_place(cls, partition: Partition, offset: Offset) -> str:
        return unlike("partition", partition, {"filename": NAME}) or unlike("offset", offset, {"position": COUNT})

    def partitions(self) -> Sequence[Partition]:
        path = self.config[FILE]
        if not os.path.isdir(path):
            return [{"filename": path}] if os.path.exists(path) else []
        found = glob.glob(os.path.join(glob.escape(path), self.config[PATTERN]), recursive=True)
        return [{"filename": name} for name in sorted(found) if os.path.isfile(name)]

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        position = start["position"] if start else 0
        try:
            if os.stat(partition["filename"]).st_size == position:
                return start  # As most files of a directory are, most of the time.
            with open(partition["filename"], "rb") as file:
                status = os.stat(file.fileno())
                position = position if position <= status.st_size else 0
                file.seek(position)
                end = self._whole(file, status.st_size, limit, status.st_mtime_ns // 1_000_000)
        except FileNotFoundError:
            return start
        except OSError as error:
            raise Unreachable(f"{partition['filename']}: {error.strerror}") from error
        return start if end == position else {"position": end}

    def _whole(self, file: BinaryIO, size: int, limit: int, written_ms: int) -> int:
        """Up to where there are whole records, so many at most."""
        start = end = file.tell()
        for number, piece in enumerate(pieces(file, size, self._format == "csv"), start=1):
            if not piece.is_whole:
                patience_ms = self.config[UNTERMINATED_MS]
                is_still = patience_ms >= 0 and self._clock.now_ms() - written_ms >= patience_ms
                return size if is_still else end
            end = piece.place + len(piece.data)
            if number >= limit or end - start >= BATCH_BYTES:
                break
        return end

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        path, stop = partition["filename"], end["position"]
        position = start["position"] if start else 0
        position = position if position < stop else 0
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size < stop:
                    _log.warning(
                        "%s is another file: what was at %d to %d was not read, and is gone", path, position, stop
                    )
                    return
                names = self._names(file) if self._format == "csv" else ()
                schema = struct_of(names) if self._format == "csv" else TEXT if self._format == "text" else None
                if not (position == 0 and self._has_header):
                    file.seek(position)
                for piece in pieces(file, stop, self._format == "csv"):
                    if self._format != "text" and not piece.data.strip():
                        continue
                    try:
                        value = self._value(piece.data, names)
                    except (DataError, ValueError) as error:
                        self._fail(f"{path}, position {piece.place}: {error}")
                    else:
                        yield Record(self.config[TOPIC], value, value_schema=schema)
        except FileNotFoundError:
            _log.warning("%s is gone: what was at %d to %d was not read", path, position, stop)

    @property
    def _has_header(self) -> bool:
        return self._format == "csv" and self.config[HAS_HEADER]

    def _names(self, file: BinaryIO) -> Sequence[str]:
        """The names of the fields; the file is behind its first record then."""
        first = next((piece.data for piece in pieces(file, LONG_MAX, has_quotes=True)), b"")
        if self.config[NAMES]:
            return self.config[NAMES]
        fields = fields_of(first.rstrip(b"\r\n").decode("utf-8-sig"), self.config[DELIMITER])
        return fields if self._has_header else names_for(fields)

    def _value(self, line: bytes, names: Sequence[str]) -> Any:
        text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
        if self._format == "text":
            return text
        if self._format == "json":
            return json.loads(text)
        fields = fields_of(text, self.config[DELIMITER])
        if len(fields) != len(names):
            raise DataError(f"a record of CSV with {len(fields)} fields, where the file has {len(names)}")
        return dict(zip(names, fields, strict=True))

    def _fail(self, what: str) -> None:
        if self.config[ERRORS_TOLERANCE] != "all":
            raise DataError(what)
        _log.warning("passed over: %s", what)
