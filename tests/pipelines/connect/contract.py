"""Sources and sinks driven as their queries drive them, without Spark: ranges planned, read, read again, committed."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from millstream.pipelines.connect.base import Batch, Connector, Offset, Sink, Source
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import Config, parse
from millstream.pipelines.connect.places import text_of
from millstream.pipelines.connect.record import Record

C = TypeVar("C", bound=Connector)


def config_of(kind: type[Connector], given: Mapping[str, str]) -> Config:
    """A config that every option accepts."""
    config, errors = parse(kind.options, {"name": "test", **given})
    assert not errors, errors
    return config


def built(kind: type[C], given: Mapping[str, str]) -> C:
    """A connector of that config, which its check lets pass."""
    config = config_of(kind, given)
    wrong = kind.check(config)
    assert not wrong, wrong
    return kind(config)


def refused(kind: type[Connector], given: Mapping[str, str]) -> Mapping[str, Any]:
    """What is wrong with a config, by option."""
    config, errors = parse(kind.options, {"name": "test", **given})
    return errors or kind.check(config)


class Reading:
    """A source that is read batch after batch, each with a driver's and a worker's connector of its own."""

    def __init__(self, kind: type[Source], given: Mapping[str, str]) -> None:
        self._kind, self._given = kind, given
        self.driver = built(kind, given)
        self.offsets: dict[str, Offset] = {}
        self.planned: list[tuple[Mapping[str, Any], Offset | None, Offset]] = []

    def plan(self, limit: int = 1000) -> bool:
        """Whether there is a batch to be read."""
        self.planned = []
        for partition in self.driver.partitions():
            start = self.offsets.get(text_of(partition))
            end = self.driver.latest(partition, start, limit)
            if end is not None and end != start:
                self.planned.append((partition, start, end))
        return bool(self.planned)

    def read(self) -> list[Record]:
        """The batch that is planned; the same again when it is asked again."""
        worker = self._kind(config_of(self._kind, self._given))
        try:
            return [record for planned in self.planned for record in worker.read(*planned)]
        finally:
            worker.close()

    def commit(self) -> None:
        """The batch is in the topics."""
        for partition, _, end in self.planned:
            self.offsets[text_of(partition)] = end
            self.driver.committed(partition, end)
        self.planned = []

    def next(self, limit: int = 1000) -> list[Record]:
        """A batch, planned, read and committed; nothing when there is none."""
        if not self.plan(limit):
            return []
        records = self.read()
        self.commit()
        return records

    def all(self, limit: int = 1000) -> list[Record]:
        """Batches until there is none."""
        records: list[Record] = []
        while self.plan(limit):
            records += self.read()
            self.commit()
        return records

    def restart(self) -> None:
        """The process ended, in whatever way, and another begins; what is planned stays so, as in a checkpoint."""
        self.driver.close()
        self.driver = self._kind(config_of(self._kind, self._given))

    def close(self) -> None:
        self.driver.close()


class Writing:
    """A sink that is given batches of one topic partition."""

    def __init__(self, kind: type[Sink], given: Mapping[str, str]) -> None:
        self._kind, self._given = kind, given
        built(kind, given).close()
        self.letters: list[tuple[int | None, str]] = []

    def write(self, records: Iterable[Record], number: int, query: str = "query") -> None:
        """A batch, with those that are refused kept in ``letters``."""
        sink = self._kind(config_of(self._kind, self._given))
        sink.refuse = self._refuse  # type: ignore[method-assign]
        try:
            part = sink.write(iter(list(records)), Batch(query, number))
            sink.commit(Batch(query, number), [part])
        finally:
            sink.close()

    def _refuse(self, record: Record, error: DataError) -> None:
        self.letters.append((record.offset, str(error)))
