"""Classes by the names that configs give them."""

from typing import Any

import pytest

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.base import Connector, Sink, Source
from millstream.pipelines.connect.converters.base import Converter
from millstream.pipelines.connect.converters.json import JsonConverter
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.plugins import PLUGINS, Kind
from millstream.pipelines.connect.transforms.base import Predicate, Side, Transform
from millstream.pipelines.connect.transforms.cast import Cast

BASES: dict[Kind, type[Any]] = {
    Kind.SOURCE: Source,
    Kind.SINK: Sink,
    Kind.CONVERTER: Converter,
    Kind.HEADER_CONVERTER: Converter,
    Kind.TRANSFORMATION: Transform,
    Kind.PREDICATE: Predicate,
}


class MySource(Source):
    """A user's own."""


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: f"{plugin.kind}-{plugin.name.rpartition('.')[2]}")
def test_everything_that_is_listed_is_there(plugin: plugins.Plugin) -> None:
    found = plugin.load()
    assert issubclass(found, BASES[plugin.kind])
    names = [option.name for option in found.options]
    assert len(names) == len(set(names))
    assert found.__doc__


@pytest.mark.parametrize(
    "name",
    ["org.apache.kafka.connect.json.JsonConverter", "JsonConverter", f"{JsonConverter.__module__}.JsonConverter"],
)
def test_a_converter_has_several_names(name: str) -> None:
    assert plugins.converter(name) is JsonConverter


def test_a_transform_is_of_keys_or_of_values() -> None:
    assert plugins.transform("Cast$Key") is Cast.on(Side.KEY)
    assert plugins.transform("org.apache.kafka.connect.transforms.Cast$Value") is Cast.on(Side.VALUE)
    with pytest.raises(Misconfigured, match=r"Cast\$Key or .*Cast\$Value"):
        plugins.transform(f"{Cast.__module__}.Cast")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("FileStreamSource", "FileSource"),
        ("org.apache.kafka.connect.file.FileStreamSinkConnector", "FileSink"),
        ("FileSinkConnector", "FileSink"),
        ("FileSink", "FileSink"),
    ],
)
def test_connectors_that_others_have_too_are_known_by_those_names(name: str, ours: str) -> None:
    assert plugins.connector(name).__name__ == ours


def test_no_name_means_two_connectors() -> None:
    several = [alias for plugin in PLUGINS if plugin.kind in (Kind.SOURCE, Kind.SINK) for alias in plugin.aliases]
    assert len(several) == len(set(several))


def test_a_users_own_class_is_found_by_its_path() -> None:
    assert plugins.connector(f"{__name__}.MySource") is MySource


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("NoSuch", "available connectors are: .*FileSink"),
        ("no.such.Class", "No module named"),
        (f"{__name__}.Absent", "has no Absent"),
        (f"{__name__}.BASES", "is no Connector"),
        ("org.apache.kafka.connect.json.JsonConverter", "No module named 'org'"),
        (f"{Connector.__module__}.Connector", "neither a Source nor a Sink"),
        ("", "available"),
        ("..", "Failed to find"),
    ],
)
def test_what_is_no_connector_is_refused_by_name(name: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        plugins.connector(name)


def test_connectors_are_listed_first_and_the_rest_on_request() -> None:
    assert {row["type"] for row in plugins.listed()} == {"source", "sink"}
    everything = plugins.listed(connectors_only=False)
    assert {row["type"] for row in everything} == {kind.value for kind in Kind}
    assert len({(row["class"], row["type"]) for row in everything}) == len(everything)
