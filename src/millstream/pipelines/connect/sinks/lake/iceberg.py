"""Iceberg tables: files below the table's location, listed by a snapshot that names the query and the batch.

The batch's number is also a property of the table, changed in the same commit, for snapshots expire.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import ConnectError
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.sinks.lake import options
from millstream.pipelines.connect.sinks.lake.partitioning import Partitioner
from millstream.pipelines.connect.sinks.lake.sink import LakeSink
from millstream.pipelines.connect.sinks.lake.store import Store
from millstream.pipelines.connect.sinks.lake.table import Table, Written
from millstream.pipelines.connect.sinks.lake.types import plain_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as Listing

_PREFIX = "iceberg.catalog."
#: The catalog, where the config names none.
CATALOG_FILE = "catalog.db"
#: How often to look again when others change the table in the same moment.
TRIES_MAX = 8


@contextlib.contextmanager
def catalog(config: Config) -> Iterator["Catalog"]:
    """The catalog that a config names, until it is no longer needed."""
    from pyiceberg.catalog import load_catalog

    store = Store(config[options.STORE_URL])
    given = {name.removeprefix(_PREFIX): text for name, text in config.given.items() if name.startswith(_PREFIX)}
    properties = {"type": config[options.CATALOG_TYPE], "warehouse": store.uri, **given}
    if not properties.get("uri"):
        properties["uri"] = f"sqlite:///{store.location}/{CATALOG_FILE}"
    found = load_catalog(config[options.CATALOG], **properties)
    try:
        yield found
    finally:
        found.close()


class IcebergTable(Table):
    """A table in a catalog."""

    keeps_times = True
    data = "data"

    def __init__(self, store: Store, partitioner: Partitioner, config: Config, name: str) -> None:
        super().__init__(store, partitioner)
        self._config = config
        self._identifier = (*config[options.NAMESPACE].split("."), name)

    @contextlib.contextmanager
    def _loaded(self) -> Iterator["Listing | None"]:
        from pyiceberg.exceptions import NoSuchTableError

        if not self._config[options.CATALOG_URI] and Store(self._config[options.STORE_URL]).size(CATALOG_FILE) is None:
            yield None  # Workers do not make it, each in the other's way.
            return
        with catalog(self._config) as found:
            try:
                listing = found.load_table(self._identifier)
            except NoSuchTableError:
                yield None
                return
            names = {field.field_id: field.name for field in listing.schema().fields}
            self.check_partitions(
                names[field.source_id] if str(field.transform) == "identity" else f"{field.transform}({field.name})"
                for field in listing.spec().fields
            )
            yield listing

    def schema(self) -> Any:
        with self._loaded() as listing:
            return None if listing is None else plain_schema(listing.schema().as_arrow())

    def has(self, batch: Batch) -> bool:
        with self._loaded() as listing:
            return listing is not None and _has(listing, batch)

    def evolve(self, schema: Any) -> None:
        from pyiceberg.transforms import IdentityTransform

        with self._loaded() as listing:
            if listing is not None:
                with listing.update_schema() as update:
                    update.union_by_name(schema)
                return
        with catalog(self._config) as found:
            found.create_namespace_if_not_exists(self._identifier[:-1])
            making = found.create_table_transaction(self._identifier, schema, location=self.store.uri)
            with making, making.update_spec() as update:
                for column in self.partitioner.columns:
                    update.add_field(column, IdentityTransform(), column)

    def add(self, batch: Batch, files: Sequence[Written]) -> None:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.table import TableProperties

        named = {"millstream.query": batch.query, "millstream.batch": str(batch.number)}
        for _ in range(TRIES_MAX):
            with self._loaded() as listing:
                assert listing is not None, "a table is made before it is added to"
                if _has(listing, batch):
                    return
                # Here alone, not in the table: whoever lost a race must look again whether the batch is there.
                listing.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
                try:
                    with listing.transaction() as change:
                        change.set_properties({_property(batch): str(batch.number)})
                        paths = [f"{self.store.uri}/{file.path}" for file in files]
                        change.add_files(paths, snapshot_properties=named, check_duplicate_files=False)
                    return
                except CommitFailedException:
                    continue
        raise ConnectError(f"{'.'.join(self._identifier)} was changed by others {TRIES_MAX} times in a row")

    def listed(self) -> set[str]:
        with self._loaded() as listing:
            if listing is None:
                return set()
            return {unquote(task.file.file_path).rpartition("/")[2] for task in listing.scan().plan_files()}


def _property(batch: Batch) -> str:
    return f"millstream.batch.{batch.query}"


def _has(listing: "Listing", batch: Batch) -> bool:
    last = listing.properties.get(_property(batch))
    return last is not None and int(last) >= batch.number


class IcebergSink(LakeSink):
    """Records in Iceberg tables ``iceberg.namespace``.``table.name.format`` of a catalog, exactly once."""

    options = (
        *options.COMMON,
        *(options.TABLE_NAME_FORMAT, options.NAMESPACE, options.CATALOG, options.CATALOG_TYPE, options.CATALOG_URI),
    )

    @classmethod
    def missing(cls) -> str:
        return "" if find_spec("pyiceberg") else "pyiceberg"

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        found = dict(super().check(config))
        needs_uri = config[options.CATALOG_TYPE] != "sql" or not Store.is_here(config[options.STORE_URL])
        if needs_uri and not config[options.CATALOG_URI]:
            found[options.CATALOG_URI.name] = "Must be given, unless the catalog is a file beneath a local store.url."
        return found

    def table_name(self, topic: str) -> str:
        return self.config[options.TABLE_NAME_FORMAT].replace("${topic}", topic)

    def table(self, topic: str) -> Table:
        name = self.table_name(topic)
        store = self._below(*self.config[options.NAMESPACE].split("."), name)
        return IcebergTable(store, self._partitioner(), self.config, name)
