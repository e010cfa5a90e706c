"""Classes by the names that configs give them: Kafka's own, short ones, and a user's ``package.module.Class``.

Nothing is imported before it is asked for, so a connector whose library is missing disturbs no other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from millstream import __version__
from millstream.pipelines.connect.base import Connector, Sink, Source
from millstream.pipelines.connect.converters.base import Converter
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.transforms.base import Predicate, Side, SidedTransform, Transform

_HERE = "millstream.pipelines.connect."
_KAFKA = "org.apache.kafka.connect."


class Kind(StrEnum):
    """What a plugin is, as ``GET /connector-plugins`` says it."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A class, ours or one that was found: the name it is listed under, and where it is."""

    name: str
    kind: Kind
    #: ``module:Class``
    place: str
    #: Other names that are understood, such as what others call a connector with the same options.
    aliases: tuple[str, ...] = ()
    #: Which half of a record a transform works on.
    side: Side | None = None
    version: str = __version__

    def load(self) -> type[Any]:
        """The class; Misconfigured when what it needs is not installed."""
        module, _, name = self.place.partition(":")
        found: type[Any] = _attribute(module, name, self.name)
        return found if self.side is None else found.on(self.side)


#: short name -> module:Class below this package, and the names that other systems have for the same.
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "FileSource": ("sources.file:FileSource", "org.apache.kafka.connect.file.FileStreamSourceConnector"),
    "GeneratorSource": ("sources.generator:GeneratorSource",),
    "JdbcSource": ("sources.jdbc:JdbcSource", "io.confluent.connect.jdbc.JdbcSourceConnector"),
    "PostgresSource": ("sources.postgres:PostgresSource", "io.debezium.connector.postgresql.PostgresConnector"),
}
_SINKS: Mapping[str, tuple[str, ...]] = {
    "DeltaSink": ("sinks.lake.delta:DeltaSink",),
    "FileSink": ("sinks.file:FileSink", "org.apache.kafka.connect.file.FileStreamSinkConnector"),
    "HttpSink": ("sinks.http:HttpSink",),
    "IcebergSink": ("sinks.lake.iceberg:IcebergSink",),
    "JdbcSink": ("sinks.jdbc:JdbcSink", "io.confluent.connect.jdbc.JdbcSinkConnector"),
    "ParquetSink": ("sinks.lake.parquet:ParquetSink",),
}
#: Kafka's name below org.apache.kafka.connect -> module:Class below this package.
_CONVERTERS: Mapping[str, str] = {
    "converters.BooleanConverter": "converters.numbers:BooleanConverter",
    "converters.ByteArrayConverter": "converters.plain:ByteArrayConverter",
    "converters.DoubleConverter": "converters.numbers:DoubleConverter",
    "converters.FloatConverter": "converters.numbers:FloatConverter",
    "converters.IntegerConverter": "converters.numbers:IntegerConverter",
    "converters.LongConverter": "converters.numbers:LongConverter",
    "converters.ShortConverter": "converters.numbers:ShortConverter",
    "json.JsonConverter": "converters.json:JsonConverter",
    "storage.StringConverter": "converters.plain:StringConverter",
}
_HEADER_CONVERTERS: Mapping[str, str] = {
    **_CONVERTERS,
    "storage.SimpleHeaderConverter": "converters.plain:SimpleHeaderConverter",
}
_SIDED_TRANSFORMS: Mapping[str, str] = {
    "transforms.Cast": "transforms.cast:Cast",
    "transforms.ExtractField": "transforms.fields:ExtractField",
    "transforms.Flatten": "transforms.flatten:Flatten",
    "transforms.HeaderFrom": "transforms.headers:HeaderFrom",
    "transforms.HoistField": "transforms.fields:HoistField",
    "transforms.InsertField": "transforms.insert:InsertField",
    "transforms.MaskField": "transforms.mask:MaskField",
    "transforms.ReplaceField": "transforms.replace:ReplaceField",
    "transforms.SetSchemaMetadata": "transforms.metadata:SetSchemaMetadata",
    "transforms.TimestampConverter": "transforms.timestamps:TimestampConverter",
}
_TRANSFORMS: Mapping[str, str] = {
    "transforms.DropHeaders": "transforms.headers:DropHeaders",
    "transforms.Filter": "transforms.routing:Filter",
    "transforms.InsertHeader": "transforms.headers:InsertHeader",
    "transforms.RegexRouter": "transforms.routing:RegexRouter",
    "transforms.TimestampRouter": "transforms.routing:TimestampRouter",
    "transforms.ValueToKey": "transforms.fields:ValueToKey",
}
_PREDICATES: Mapping[str, str] = {
    "transforms.predicates.HasHeaderKey": "transforms.predicates:HasHeaderKey",
    "transforms.predicates.RecordIsTombstone": "transforms.predicates:RecordIsTombstone",
    "transforms.predicates.TopicNameMatches": "transforms.predicates:TopicNameMatches",
}
_AVRO = _HERE + "converters.avro:AvroConverter"


def _connectors(kind: Kind, places: Mapping[str, tuple[str, ...]]) -> list[Plugin]:
    return [
        Plugin(_HERE + place.replace(":", "."), kind, _HERE + place, tuple(dict.fromkeys(_aliases(short, others))))
        for short, (place, *others) in places.items()
    ]


def _aliases(short: str, others: Sequence[str]) -> Iterator[str]:
    """A name in full, its last word, and that without the word that says nothing, as Kafka takes them too."""
    for name in (f"{short}Connector", *others):
        yield from (name, name.rpartition(".")[2], name.rpartition(".")[2].removesuffix("Connector"))


def _ours(kind: Kind, places: Mapping[str, str], side: Side | None = None) -> list[Plugin]:
    end = f"${side.value}" if side is not None else ""
    return [Plugin(_KAFKA + name + end, kind, _HERE + place, side=side) for name, place in places.items()]


#: Everything of ours, in the order in which it is listed.
PLUGINS: Sequence[Plugin] = (
    *_connectors(Kind.SINK, _SINKS),
    *_connectors(Kind.SOURCE, _SOURCES),
    *_ours(Kind.CONVERTER, _CONVERTERS),
    Plugin(_AVRO.replace(":", "."), Kind.CONVERTER, _AVRO, ("io.confluent.connect.avro.AvroConverter",)),
    *_ours(Kind.HEADER_CONVERTER, _HEADER_CONVERTERS),
    *_ours(Kind.TRANSFORMATION, _SIDED_TRANSFORMS, Side.KEY),
    *_ours(Kind.TRANSFORMATION, _SIDED_TRANSFORMS, Side.VALUE),
    *_ours(Kind.TRANSFORMATION, _TRANSFORMS),
    *_ours(Kind.PREDICATE, _PREDICATES),
)
#: A user's own, as ``discovery`` found them: they are listed as well, and named in full.
FOUND: list[Plugin] = []


def connector(name: str) -> type[Source] | type[Sink]:
    """The connector of that name; Misconfigured when there is none."""
    found = _find((Kind.SOURCE, Kind.SINK), name, Connector, "connectors")
    if not issubclass(found, Source | Sink):
        raise Misconfigured(f"{name} is neither a Source nor a Sink")
    return found


def converter(name: str) -> type[Converter]:
    """The converter of keys or values of that name; Misconfigured when there is none."""
    return _find((Kind.CONVERTER,), name, Converter, "converters")


def header_converter(name: str) -> type[Converter]:
    """The converter of headers of that name; Misconfigured when there is none."""
    return _find((Kind.HEADER_CONVERTER,), name, Converter, "header converters")


def transform(name: str) -> type[Transform]:
    """The transform of that name; Misconfigured when there is none."""
    found = _find((Kind.TRANSFORMATION,), name, Transform, "transformations")
    if issubclass(found, SidedTransform) and "side" not in vars(found):
        raise Misconfigured(f"{name} works on keys or on values: {name}$Key or {name}$Value")
    return found


def predicate(name: str) -> type[Predicate]:
    """The predicate of that name; Misconfigured when there is none."""
    return _find((Kind.PREDICATE,), name, Predicate, "predicates")


def names(*kinds: Kind) -> list[str]:
    """The names under which plugins of these kinds are listed."""
    return sorted(plugin.name for plugin in (*PLUGINS, *FOUND) if plugin.kind in kinds)


def listed(connectors_only: bool = True) -> list[dict[str, str]]:
    """What ``GET /connector-plugins`` answers."""
    kinds = (Kind.SINK, Kind.SOURCE) if connectors_only else tuple(Kind)
    return [
        {"class": plugin.name, "type": plugin.kind.value, "version": plugin.version}
        for plugin in (*PLUGINS, *FOUND)
        if plugin.kind in kinds
    ]


def any_plugin(name: str) -> type[Any]:
    """A plugin of any kind, for ``GET /connector-plugins/NAME/config``; Misconfigured when there is none."""
    found = _find(tuple(Kind), name, object, "plugins")
    if not issubclass(found, Connector | Converter | Transform | Predicate):
        raise Misconfigured(f"{name} is no plugin")
    return found


def _find(kinds: tuple[Kind, ...], name: str, base: type[Any], plural: str) -> type[Any]:
    for plugin in PLUGINS:
        if plugin.kind in kinds and name in (plugin.name, plugin.name.rpartition(".")[2], *plugin.aliases):
            return plugin.load()
    module, dot, class_name = name.rpartition(".")
    if not dot:
        raise Misconfigured(
            f"Failed to find any class that implements {base.__name__} and which name matches {name}, "
            f"available {plural} are: {', '.join(_understood(*kinds))}"
        )
    found = _attribute(module, class_name, name)
    if not isinstance(found, type) or not issubclass(found, base):
        raise Misconfigured(f"{name} is no {base.__name__}")
    return found


def _understood(*kinds: Kind) -> list[str]:
    """The shortest names that are understood."""
    ours = sorted(plugin.name.rpartition(".")[2] for plugin in PLUGINS if plugin.kind in kinds)
    return ours + sorted(plugin.name for plugin in FOUND if plugin.kind in kinds)


def _attribute(module: str, name: str, asked_for: str) -> Any:
    try:
        found = getattr(import_module(module), name, None)
    except Exception as error:
        # Whatever a user's module raises while it is imported.
        raise Misconfigured(f"Failed to find the class {asked_for}: {type(error).__name__}: {error}") from error
    if found is None:
        raise Misconfigured(f"Failed to find the class {asked_for}: {module} has no {name}")
    return found
