"""Topics into files: all records into one file, or a file for each partition of each topic; exactly once.

How long a file is with which batch is noted beside it (``Ledger``). What a crash left behind that length is cut off
before more is appended, and a batch that comes again is cut off and written again.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from millstream.config.setting import STRING
from millstream.pipelines.connect.base import Batch, Sink
from millstream.pipelines.connect.errors import DataError, Unreachable
from millstream.pipelines.connect.lines import (
    DELIMITER,
    FORMAT,
    HAS_HEADER,
    NAMES,
    OPTIONS,
    csv_line,
    json_line,
    text_line,
)
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record

FILE = Option[str]("file", STRING, default="", doc="One file for all records.", importance="HIGH", width="LONG")
DIRECTORY = Option[str](
    "directory",
    STRING,
    default="",
    doc="A directory, in which each partition of each topic has a file: TOPIC-PARTITION.txt, .jsonl or .csv.",
    importance="HIGH",
    width="LONG",
)
_ENDINGS = {"text": "txt", "json": "jsonl", "csv": "csv"}


class Entry(NamedTuple):
    """A file's length before and after the last batch."""

    query: str
    number: int
    before: int
    after: int


class Ledger:
    """A file that is appended to batch by batch, each of them once."""

    def __init__(self, path: str) -> None:
        self.path = path
        folder, name = os.path.split(path)
        self._note = os.path.join(folder, f".{name}.millstream")

    def append(self, batch: Batch, lines: Iterable[bytes], header: bytes = b"") -> None:
        """Have these lines in the file, once, however often they come, and a header before the first of all.

        All is on disk on return.
        """
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        with open(self.path, "ab") as file:
            length = self._length(batch, os.fstat(file.fileno()).st_size)
            file.truncate(length)
            if not length:
                file.write(header)
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
            after = os.fstat(file.fileno()).st_size
        self._write(Entry(batch.query, batch.number, length, after))

    def _length(self, batch: Batch, size: int) -> int:
        """Where the batch begins, in a file that is now so long."""
        last = self._read()
        if last is None:
            # Whatever is there was there before us; should we die now, the next one must know it.
            self._write(Entry(batch.query, batch.number, size, size))
            return size
        is_again = (last.query, last.number) == (batch.query, batch.number)
        return min(size, last.before if is_again else last.after)

    def _read(self) -> Entry | None:
        try:
            with open(self._note, encoding="utf-8") as file:
                return Entry(*json.load(file))
        except FileNotFoundError:
            return None

    def _write(self, entry: Entry) -> None:
        with open(f"{self._note}.new", "w", encoding="utf-8") as file:
            json.dump(entry, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self._note}.new", self._note)


class FileSink(Sink):
    """Lines of text or JSON, or records of CSV, of the values."""

    options = (FILE, DIRECTORY, *OPTIONS)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._format = config[FORMAT]

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if bool(config[FILE]) == bool(config[DIRECTORY]):
            not_both = ", and not both" if config[FILE] else ""
            return {FILE.name: f"either {FILE.name} or {DIRECTORY.name} must be given{not_both}"}
        if config[FORMAT] == "csv" and not config[NAMES]:
            return {NAMES.name: "the fields must be named for CSV to be written"}
        return {}

    def write(self, records: Iterator[Record], batch: Batch) -> str | None:
        first = next(records)
        try:
            if self.config[DIRECTORY]:
                name = f"{first.origin or first.topic}-{first.partition}.{_ENDINGS[self._format]}"
                path = os.path.join(self.config[DIRECTORY], name)
                Ledger(path).append(batch, self._lines(chain((first,), records)), self._header)
                return None
            return self._part(first, records, batch)
        except OSError as error:
            raise Unreachable(f"{error.filename or self.config[FILE]}: {error.strerror}") from error

    def commit(self, batch: Batch, parts: Sequence[str | None]) -> None:
        """Append the parts to the one file; those of a directory are where they belong."""
        path = self.config[FILE]
        if not path:
            return
        try:
            Ledger(path).append(batch, _joined([part for part in parts if part]), self._header)
            shutil.rmtree(self._parts_folder, ignore_errors=True)
        except OSError as error:
            raise Unreachable(f"{error.filename or path}: {error.strerror}") from error

    @property
    def _parts_folder(self) -> str:
        folder, name = os.path.split(self.config[FILE])
        return os.path.join(folder, f".{name}.parts")

    def _part(self, first: Record, records: Iterator[Record], batch: Batch) -> str:
        """A task's lines, for ``commit`` to append; under a name of this batch's own."""
        os.makedirs(self._parts_folder, exist_ok=True)
        name = quote(f"{batch.query}-{batch.number}-{first.origin or first.topic}-{first.partition}", safe="")
        part = os.path.join(self._parts_folder, name)
        with open(part, "wb") as file:
            file.writelines(self._lines(chain((first,), records)))
        return part

    @property
    def _header(self) -> bytes:
        if self._format != "csv" or not self.config[HAS_HEADER]:
            return b""
        return csv_line(self.config[NAMES], self.config[DELIMITER]).encode() + b"\n"

    def _lines(self, records: Iterable[Record]) -> Iterator[bytes]:
        for record in records:
            try:
                yield self._line(record.value).encode() + b"\n"
            except DataError as error:
                self.refuse(record, error)

    def _line(self, value: Any) -> str:
        if self._format == "text":
            return text_line(value)
        if self._format == "json":
            return json_line(value)
        if not isinstance(value, dict):
            raise DataError(f"CSV is made of structs and maps, not of {type(value).__name__}")
        names = self.config[NAMES]
        if strange := value.keys() - set(names):
            raise DataError(f"{NAMES.name} does not name {', '.join(sorted(map(str, strange)))}")
        return csv_line([value.get(name) for name in names], self.config[DELIMITER])


def _joined(parts: Sequence[str]) -> Iterator[bytes]:
    """What is in these files."""
    for part in parts:
        with open(part, "rb") as file:
            while piece := file.read(1 << 20):
                yield piece
