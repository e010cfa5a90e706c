"""What all kinds of tables share: a batch is listed once, columns grow, and files of dead attempts are swept."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

import pyarrow as pa

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import ConnectError, Misconfigured
from millstream.pipelines.connect.sinks.lake.fitting import Misfit
from millstream.pipelines.connect.sinks.lake.partitioning import Partitioner, Place
from millstream.pipelines.connect.sinks.lake.shape import Dialect, Struct
from millstream.pipelines.connect.sinks.lake.store import Store

logger = logging.getLogger(__name__)

#: What is ours in a table's folder; engines pass over names that begin so.
OWN = "_millstream"


@dataclass(frozen=True, slots=True)
class Written:
    """A file that a worker wrote, for the driver to list."""

    topic: str
    #: In the table's folder; its last word has the attempt's mark in it.
    path: str
    mark: str
    place: Place
    #: All columns of its rows, those that only the place has included.
    schema: Any
    bytes: int
    #: What Delta keeps of a file.
    statistics: str = "{}"


class Table:
    """One table, in a worker or in the driver."""

    dialect: ClassVar[Dialect] = Dialect()
    #: Whether the columns it is partitioned by are in its files: those that records bring, and those of times.
    keeps_fields: ClassVar[bool] = True
    keeps_times: ClassVar[bool] = False
    #: Whether its partitions are columns of it.
    has_columns: ClassVar[bool] = True
    #: The folder of its files, in its own.
    data: ClassVar[str] = ""

    def __init__(self, store: Store, partitioner: Partitioner) -> None:
        self.store = store
        self.partitioner = partitioner

    # What each kind says for itself.

    def schema(self) -> Any:
        """Its columns; None when it is not there yet."""
        raise NotImplementedError

    def has(self, batch: Batch) -> bool:
        """Whether the batch is in it, or was when this one came again; it is for good when this says so."""
        raise NotImplementedError

    def evolve(self, schema: Any) -> None:
        """Make the table, or give it the columns that it lacks."""
        raise NotImplementedError

    def add(self, batch: Batch, files: Sequence[Written]) -> None:
        """List the files, unless the batch is in it by now."""
        raise NotImplementedError

    def listed(self) -> set[str]:
        """The last words of all files that it has."""
        raise NotImplementedError

    def begin(self, batch: Batch, mark: str, path: str) -> str:
        """Where to write the file for now; noted before, so that it is found if nobody ever lists it."""
        self.store.put(f"{attempts(batch)}/{mark}", path.encode())
        return path

    def statistics(self, metadata: Any) -> str:
        """What to keep of a file's footer."""
        return "{}"

    # What they share.

    def check_partitions(self, found: Iterable[str]) -> None:
        """A table that is partitioned otherwise is nobody's mistake but the config's."""
        columns = list(found)
        if columns != list(self.partitioner.columns):
            there, wanted = (", ".join(names) or "nothing" for names in (columns, self.partitioner.columns))
            raise Misconfigured(f"{self.store.location} is partitioned by {there}, and the config says {wanted}")

    def commit(self, batch: Batch, files: Sequence[Written]) -> None:
        """Have the batch in the table, once."""
        if self.has(batch):
            logger.info("%s has batch %d of %s", self.store.location, batch.number, batch.query)
            return
        current = self.schema()
        wanted, odd = together(current, files, self.dialect)
        if current is None or wanted != current:
            self.evolve(wanted)
        if odd:
            raise ConnectError(
                f"{self.store.location}: {odd}; the table's columns are settled now, and the batch is written again"
            )
        self.add(batch, files)
        try:
            self.sweep(batch, files)
        except OSError as error:
            logger.warning("%s: files of dead attempts stay for now: %s", self.store.location, error)

    def sweep(self, batch: Batch, files: Sequence[Written]) -> None:
        """Forget the attempts that were listed, and remove what others of earlier batches left.

        Those of this batch may still be at it, so they have until the next.
        """
        for file in files:
            self.store.delete(f"{attempts(batch)}/{file.mark}")
        folders = [f"{OWN}/{quote(batch.query, safe='')}/{number}" for number in earlier(self.store, batch)]
        notes = [f"{folder}/{name}" for folder in folders for name in self.store.names(folder)]
        listed = self.listed() if notes else set()
        for note in notes:
            path = (self.store.get(note) or b"").decode()
            if path and path.rpartition("/")[2] not in listed:
                self.store.delete(path)
        for folder in folders:
            self.store.delete_folder(folder)


def attempts(batch: Batch) -> str:
    """The folder that notes what a batch's attempts write, before they do."""
    return f"{OWN}/{quote(batch.query, safe='')}/{batch.number}"


def earlier(store: Store, batch: Batch) -> list[int]:
    """The batches before this one that left something."""
    names = store.names(f"{OWN}/{quote(batch.query, safe='')}")
    return [int(name) for name in names if name.isdigit() and int(name) < batch.number]


def together(current: Any, files: Sequence[Written], dialect: Dialect) -> tuple[Any, str]:
    """The columns of a table once these files are in it, and what keeps some file out of it; mostly nothing."""
    shape = Struct(dialect)
    if current is not None:
        shape.grow_fields(current, True)
    odd = ""
    for file in files:
        try:
            shape.grow_fields(file.schema, False)
        except Misfit as misfit:
            odd = odd or f"in one batch, {misfit}"
    wanted = pa.schema(shape.fields)
    for file in files:
        for field in file.schema:
            if not odd and not _agree(field.type, wanted.field(field.name).type):
                odd = f"field {field.name} is {field.type} and {wanted.field(field.name).type} in one batch"
    return wanted, odd


def _agree(kind: Any, wanted: Any) -> bool:
    """Whether a file's column is as the table's; fields of structs may be missing in it."""
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return all(_agree(field.type, wanted.field(field.name).type) for field in fields)
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return _agree(kind.value_type, wanted.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        return _agree(kind.key_type, wanted.key_type) and _agree(kind.item_type, wanted.item_type)
    return bool(kind == wanted)
