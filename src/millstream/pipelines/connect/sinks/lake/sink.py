"""What the sinks into lakes share: workers write files, the driver has each table list them once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from millstream.model.clock import SystemClock
from millstream.pipelines.connect.base import Batch, Sink
from millstream.pipelines.connect.errors import ConnectError, DataError, Unreachable
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.sinks.lake import options
from millstream.pipelines.connect.sinks.lake.partitioning import Partitioner, partitioner
from millstream.pipelines.connect.sinks.lake.store import Store, complaint
from millstream.pipelines.connect.sinks.lake.table import Table, Written
from millstream.pipelines.connect.sinks.lake.writing import TableWriter


class LakeSink(Sink):
    """Turns records into the files of tables."""

    options = options.COMMON
    #: Whether partitions are columns of a table, and not folders alone.
    is_table: ClassVar[bool] = True

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        found = options.complaints(config, is_table=cls.is_table)
        if url := complaint(config[options.STORE_URL]):
            found[options.STORE_URL.name] = url
        if missing := cls.missing():
            found["connector.class"] = f"{missing} is not installed; pip install 'millstream[lake]' brings it."
        return found

    @classmethod
    def missing(cls) -> str:
        """What it needs and cannot be found."""
        return ""

    def table(self, topic: str) -> Table:
        """Where a topic's records go."""
        raise NotImplementedError

    def write(self, records: Iterator[Record], batch: Batch) -> list[Written]:
        now_ms = SystemClock().now_ms()
        writers: dict[str, TableWriter] = {}
        for record in records:
            try:
                self._take(record, writers, batch, now_ms)
            except DataError as error:
                self.refuse(record, error)
            except ConnectError:
                raise
            except Exception as error:
                raise self._unreachable(error) from error
        try:
            return [file for writer in writers.values() for file in writer.close()]
        except ConnectError:
            raise
        except Exception as error:
            raise self._unreachable(error) from error

    def _take(self, record: Record, writers: dict[str, TableWriter], batch: Batch, now_ms: int) -> None:
        if record.value is None:
            if self.config[options.NULL_VALUES] == "ignore":
                return
            raise DataError("the record has no value, which behavior.on.null.values=ignore would pass over")
        writer = writers.get(record.topic)
        if writer is None:
            table = self.table(_checked(record.topic))
            writer = writers[record.topic] = TableWriter(record.topic, table, batch, self.config, now_ms)
        writer.take(record)

    def commit(self, batch: Batch, parts: Sequence[Any]) -> None:
        files: dict[str, list[Written]] = {}
        for part in parts:
            for file in part or ():
                files.setdefault(self.table_name(file.topic), []).append(file)
        try:
            for written in files.values():
                self.table(written[0].topic).commit(batch, written)
        except ConnectError:
            raise
        except Exception as error:
            raise self._unreachable(error) from error

    def table_name(self, topic: str) -> str:
        """What a topic's table is called; topics may share one."""
        return topic

    def _unreachable(self, error: Exception) -> Unreachable:
        """What libraries raise, as connectors say it: whoever knows better has said so before."""
        return Unreachable(f"{self.config[options.STORE_URL]}: {type(error).__name__}: {error}")

    def _below(self, *names: str) -> Store:
        return Store(self.config[options.STORE_URL]).below(*names)

    def _partitioner(self) -> Partitioner:
        return partitioner(self.config, is_table=self.is_table)


def _checked(topic: str) -> str:
    """A transform may have made anything of it."""
    if "/" in topic or topic in ("", ".", ".."):
        raise DataError(f"topic {topic!r} cannot be a folder's name")
    return topic
