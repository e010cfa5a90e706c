"""A pipeline as a YAML file: where rows come from, what becomes of them, where they go.

What is wrong is told by file, line and key, before Spark is asked for anything.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from millstream.config.setting import SettingError
from millstream.pipelines.running.failures import PipelineError

_TRIGGER = re.compile(r"\d+ (millisecond|second|minute|hour)s?")
_NAME = re.compile(r"[\w.-]+")
AVAILABLE_NOW = "available-now"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a mapping: how its value is read, whether it must be there, and what it means."""

    read: "Callable[[Place, yaml.Node], Any]"
    doc: str
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in the file, by the keys that lead there."""

    file: str
    path: str = ""

    def of(self, name: str) -> "Place":
        return Place(self.file, f"{self.path}.{name}" if self.path else name)

    def refuse(self, node: yaml.Node, what: str) -> NoReturn:
        """The error of this place: file, line, key, and what is wrong."""
        keys = f"{self.path}: " if self.path else ""
        raise PipelineError(f"{self.file}:{node.start_mark.line + 1}: {keys}{what}")


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping that was read: values by key, and on which line each is."""

    place: Place
    values: Mapping[str, Any]
    lines: Mapping[str, int]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these keys that the file has."""
        return {name: self.values[name] for name in names if name in self.values}

    def error(self, name: str, what: str) -> PipelineError:
        """What is wrong with a key of this mapping, found after it was read."""
        place = self.place.of(name)
        line = self.lines.get(name) or min(self.lines.values(), default=1)
        return PipelineError(f"{place.file}:{line}: {place.path}: {what}")


def _text(place: Place, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        place.refuse(node, "must be text")
    return str(node.value).strip()


def _name(place: Place, node: yaml.Node) -> str:
    text = _text(place, node)
    if not _NAME.fullmatch(text):
        place.refuse(node, f"{text!r}: a name has letters, digits, '.', '_' and '-'")
    return text


def _trigger(place: Place, node: yaml.Node) -> str:
    text = _text(place, node)
    if text != AVAILABLE_NOW and not _TRIGGER.fullmatch(text):
        place.refuse(node, f"{text!r}: {AVAILABLE_NOW}, or a time such as '1 second' or '500 milliseconds'")
    return text


def _options(place: Place, node: yaml.Node) -> dict[str, str]:
    """Names and plain values, as Spark's options are."""
    if not isinstance(node, yaml.MappingNode):
        place.refuse(node, "must be a mapping of names to values")
    return {str(name.value): _text(place.of(str(name.value)), value) for name, value in node.value}


def _checked(check: Callable[[Mapping[str, str]], object]) -> Callable[[Place, yaml.Node], dict[str, str]]:
    """Options that ``check`` takes, beside those that the rest of the file says."""

    def read(place: Place, node: yaml.Node) -> dict[str, str]:
        given = _options(place, node)
        try:
            check(given)
        except SettingError as error:
            place.refuse(node, str(error))
        return given

    return read


def _check_source(given: Mapping[str, str]) -> None:
    from millstream.pipelines.spark.options import stream_options

    stream_options({"kafka.bootstrap.servers": "any:9092", "subscribe": "any", **given})


def _check_sink(given: Mapping[str, str]) -> None:
    from millstream.pipelines.spark.sink.options import sink_options

    sink_options({"kafka.bootstrap.servers": "any:9092", "topic": "any", **given})


def _one_of(*choices: str) -> Callable[[Place, yaml.Node], str]:
    def read(place: Place, node: yaml.Node) -> str:
        text = _text(place, node)
        if text not in choices:
            place.refuse(node, f"{text!r}: one of {', '.join(choices)}")
        return text

    return read


def _section(keys: Mapping[str, Key]) -> Callable[[Place, yaml.Node], Section]:
    """What reads a mapping with these keys and no others."""

    def read(place: Place, node: yaml.Node) -> Section:
        if not isinstance(node, yaml.MappingNode):
            place.refuse(node, f"must be a mapping with {', '.join(keys)}")
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for name_node, value in node.value:
            name = str(name_node.value)
            if name not in keys:
                place.of(name).refuse(name_node, f"unknown key; {hint(name, keys)}")
            if name in values:
                place.of(name).refuse(name_node, f"is there twice, on line {lines[name]} before")
            values[name] = keys[name].read(place.of(name), value)
            lines[name] = name_node.start_mark.line + 1
        for name, key in keys.items():
            if key.is_required and name not in values:
                place.refuse(node, f"no {name}: {key.doc}")
        return Section(place, values, lines)

    return read


def hint(name: str, keys: Iterable[str]) -> str:
    """What somebody may have meant who wrote ``name``."""
    keys = list(keys)
    near = difflib.get_close_matches(name, keys, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(keys)}"


def _sources(place: Place, node: yaml.Node) -> list[Section]:
    if isinstance(node, yaml.SequenceNode):
        return [_source(place.of(str(number)), each) for number, each in enumerate(node.value)]
    return [_source(place, node)]


#: How the records of a topic are read or written, on either side.
_TYPES = {
    "format": Key(_one_of("json", "avro", "protobuf", "csv", "raw"), "what values are: json"),
    "schema": Key(_text, "what values hold"),
    "key_format": Key(_one_of("json", "avro", "protobuf", "csv", "raw"), "what keys are: raw"),
    "format_options": Key(_options, "options of the format"),
    "key_options": Key(_options, "options of the key's format"),
}
_OPTIONS_DOC = 'options of format("millstream")'
SOURCE = {
    "topic": Key(_text, "which topic to read", is_required=True),
    "as": Key(_text, "the name that SQL knows it by; the topic's, with _ for what no name can have"),
    "read": Key(
        _one_of("stream", "latest"), "stream, or the latest record of each key, read anew for each micro-batch"
    ),
    **_TYPES,
    "options": Key(_checked(_check_source), _OPTIONS_DOC),
    "key": Key(_text, "what keys hold"),
    "time": Key(_text, "the column with the event's time"),
    "lateness": Key(_text, "how late a row may come and still count"),
    "errors": Key(_text, "fail, column, or the topic for records that do not fit"),
    "start": Key(_text, "where a new pipeline begins: earliest"),
}
SINK = {
    "topic": Key(_text, "which topic to write", is_required=True),
    **_TYPES,
    "options": Key(_checked(_check_sink), _OPTIONS_DOC),
    "key": Key(_text, "the columns of the key"),
    "mode": Key(_one_of("append", "update"), "append: rows are final; update: a row replaces the one before it"),
}
_source = _section(SOURCE)
PIPELINE = {
    "name": Key(_name, "the name that owns the progress; the file's"),
    "bootstrap": Key(_text, "brokers to begin with"),
    "source": Key(_sources, "the topic to read, or a list of them", is_required=True),
    "sql": Key(_text, "a query over the sources; all rows of the one source"),
    "sink": Key(_section(SINK), "the topic to write", is_required=True),
    "trigger": Key(_trigger, f"{AVAILABLE_NOW}, or how often; as often as there is something"),
    "checkpoint": Key(_text, "where the progress is kept"),
    "delivery": Key(_one_of("exactly-once", "at-least-once"), "exactly-once"),
    "conf": Key(_options, "settings of Spark"),
}


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline's file, read and checked as far as that goes without Spark and a broker."""

    whole: Section
    sources: list[Section] = field(default_factory=list)

    @property
    def sink(self) -> Section:
        sink = self.whole["sink"]
        assert isinstance(sink, Section)
        return sink


def view_name(source: Section) -> str:
    """The name that SQL knows a source by."""
    return str(source.get("as") or re.sub(r"\W", "_", source["topic"]))


def parse(text: str, file: str) -> Definition:
    """The pipeline that a YAML text describes; PipelineError with its line and key where it does not."""
    place = Place(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise PipelineError(f"{file}{line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise PipelineError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    if node is None:
        raise PipelineError(f"{file}: is empty; it needs source and sink")
    whole = _section(PIPELINE)(place, node)
    definition = Definition(whole, whole["source"])
    for fault in _faults(definition):
        raise fault
    return definition


def _faults(definition: Definition) -> Iterator[PipelineError]:
    """What no key shows by itself."""
    sources, whole = definition.sources, definition.whole
    if not sources:
        yield whole.error("source", "an empty list; name a topic to read")
    if len(sources) > 1 and "sql" not in whole.values:
        yield whole.error("source", "several sources need sql, which says what becomes of them")
    seen: set[str] = set()
    for source in sources:
        name = view_name(source)
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            yield source.error(
                "as" if "as" in source.values else "topic", f"{name!r} is no name in SQL; give one by as"
            )
        if name in seen:
            yield source.error("as", f"two sources are called {name!r}; give one of them another name")
        seen.add(name)
        if source.get("read") == "latest" and "key" not in source.values:
            yield source.error("read", "the latest record of each key needs key")
    if all(source.get("read") == "latest" for source in sources) and sources:
        yield whole.error("source", "no source is a stream: one must be read as it comes")
