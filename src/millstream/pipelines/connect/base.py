"""The contract of connectors: what a source and a sink are, no more than needed to write one in a page.

Both are built from their config wherever they are needed, in the driver and in Spark's workers, so building one must
be cheap; connections are opened when first used, and closed by ``close``.  What they raise says what happens:
``DataError`` concerns one record, ``Unreachable`` is tried again, ``Misconfigured`` waits for a new config.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record

#: What is read side by side, each with an offset of its own: a file, a table.  Plain JSON.
Partition = Mapping[str, Any]
#: How far a partition was read.  Plain JSON; None is before the beginning.
Offset = Mapping[str, Any]


class Connector:
    """What sources and sinks share."""

    #: Shown beside the class in ``GET /connector-plugins``.
    version: ClassVar[str] = "1"
    #: What its config may say, beyond what every connector's may.
    options: ClassVar[Sequence[Option[Any]]] = ()

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        """What is wrong with a config whose options each are right, by the option to blame; it may look outside."""
        return {}

    def close(self) -> None:
        """Let go of connections."""


class Source(Connector):
    """Brings records into topics.

    A range is read in a worker, perhaps again after a crash, and its records are in the topics once: what was read
    first and never committed is not seen by anyone.
    """

    @classmethod
    def check_place(cls, partition: Partition, offset: Offset) -> str:
        """Why it could not go on from there, and what is expected, in a line; nothing where it could."""
        return ""

    def partitions(self) -> Sequence[Partition]:
        """What there is to read now; asked again and again, so it may grow."""
        raise NotImplementedError

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        """How far one may read now, about ``limit`` records at most; ``start`` itself when nothing is new."""
        raise NotImplementedError

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        """The records behind ``start`` up to and with ``end``."""
        raise NotImplementedError

    def committed(self, partition: Partition, end: Offset) -> None:
        """Everything up to ``end`` is in the topics for good, and is never asked for again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A step of a sink: the same records again after a crash, under the same number."""

    #: Whose it is; other for a connector whose offsets were altered, for its numbers begin anew then.
    query: str
    number: int


class Sink(Connector):
    """Takes records out of topics.

    A task is given the records of one topic partition in a batch, in order.  After a crash the last batch comes
    again; a sink is exactly-once when ``write`` or ``commit`` recognises that.
    """

    def write(self, records: Iterator[Record], batch: Batch) -> Any:
        """Take these; in a worker.  What it returns (it must pickle) goes to ``commit``."""
        raise NotImplementedError

    def refuse(self, record: Record, error: DataError) -> None:
        """Called by ``write`` for a record that cannot be taken, so that the rest can: it goes to the dead letters.

        It raises where ``errors.tolerance`` is ``none``, and whatever it raises must pass.
        """
        raise error

    def commit(self, batch: Batch, parts: Sequence[Any]) -> None:
        """All tasks of the batch have written; in the driver, once or, after a crash, again."""
