"""Connectors that a script plays: what they do is in their configs, and nothing of Spark is needed for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from millstream.config.setting import INT, STRING, one_of
from millstream.pipelines.connect.base import Batch, Offset, Partition, Sink, Source
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.record import Record

DOES = Option[str](
    "does", STRING, default=REQUIRED, check=one_of("works", "dies", "fails", "breaks", "hangs"), doc="What it does."
)
TASKS = Option[int]("tasks", INT, default=1, doc="How many tasks it says it has.")
OPTIONS = (DOES, TASKS)


class ScriptedSource(Source):
    """A source that brings nothing."""

    version = "7.1"
    options: ClassVar[Sequence[Option[Any]]] = OPTIONS

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        return {"tasks": "may not be 13"} if config[TASKS] == 13 else {}

    @classmethod
    def check_place(cls, partition: Partition, offset: Offset) -> str:
        return "lines are counted from 0" if offset.get("line", 0) < 0 else ""

    def partitions(self) -> Sequence[Partition]:
        return []

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        return start

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        return []


class ScriptedSink(Sink):
    """A sink that takes nothing."""

    options: ClassVar[Sequence[Option[Any]]] = OPTIONS

    def write(self, records: Iterator[Record], batch: Batch) -> None:
        """Nothing."""
