"""A record's way between a connector and a topic: transforms, converters, and what is made of those that fail.

``SourceChain`` makes bytes of what a source read, ``SinkChain`` makes of bytes what a sink takes.  Both are built from
a connector's config wherever they are needed, and are cheap to build.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.converters.base import Converter
from millstream.pipelines.connect.errors import ConnectError, Misconfigured, Unreachable
from millstream.pipelines.connect.letters import Raw, dead_letter
from millstream.pipelines.connect.options import Config, Option, parse
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.settings import (
    COMMON,
    CONNECTOR_CLASS,
    DEFAULT_CONVERTER,
    DEFAULT_HEADER_CONVERTER,
    HEADER_CONVERTER,
    KEY_CONVERTER,
    LETTERS_HEADERS,
    LETTERS_TOPIC,
    SINK,
    TRANSFORMS,
    VALUE_CONVERTER,
)
from millstream.pipelines.connect.tolerance import Counts, Failure, Stage, Surroundings, Tolerance
from millstream.pipelines.connect.transforms.base import Predicate, Transform

__all__ = ["Raw", "SinkChain", "SourceChain", "Surroundings"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is on its way, for when it fails there."""

    stage: Stage
    class_name: str


@dataclass(frozen=True, slots=True)
class Step:
    """A transform, and which records it concerns."""

    transform: Transform
    place: Place
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: Record) -> Record | None:
        if self.predicate is None or self.predicate.test(record) is not self.negate:
            return self.transform.apply(record)
        return record


class _Chain:
    """What both directions share."""

    def __init__(self, config: Config, task: int, around: Surroundings) -> None:
        self._tolerance: Final = Tolerance(config, task, around)
        self._key, self._key_place = _converter(config, KEY_CONVERTER, Stage.KEY_CONVERTER)
        self._value, self._value_place = _converter(config, VALUE_CONVERTER, Stage.VALUE_CONVERTER)
        self._header, self._header_place = _converter(config, HEADER_CONVERTER, Stage.HEADER_CONVERTER)
        self._steps = _steps(config)
        self._place = self._key_place

    @property
    def counts(self) -> Counts:
        """What became of the records so far."""
        return self._tolerance.counts

    def _transformed(self, record: Record) -> Record | None:
        for step in self._steps:
            self._place = step.place
            changed = step.apply(record)
            if changed is None:
                return None
            record = changed
        return record

    def _tried(self, way: Callable[[T], Any], record: T) -> Any:
        """What the way makes of the record, again and again while somebody does not answer; else the failure."""
        deadline_ms = None
        attempt = 0
        while True:
            attempt += 1
            try:
                return way(record)
            except Unreachable as error:
                if deadline_ms is None:
                    deadline_ms = self._tolerance.deadline_ms()
                if not self._tolerance.wait(attempt, deadline_ms):
                    return Failure(self._place.stage, self._place.class_name, error)
            except Misconfigured:
                raise
            except Exception as error:
                self._tolerance.counts.total_record_failures += 1
                return Failure(self._place.stage, self._place.class_name, error)


class SourceChain(_Chain):
    """What a source read, on its way into topics."""

    def __init__(self, given: Mapping[str, str], around: Surroundings, task: int = 0) -> None:
        super().__init__(_config(COMMON, given), task, around)

    def encode(self, record: Record) -> Raw | None:
        """The record as bytes; None when a transform let it go, or when it failed and is passed over."""
        found = self._tried(self._encoded, record)
        if type(found) is not Failure:
            raw: Raw | None = found
            return raw
        self._tolerance.take(found, lambda: f"source record is = {record}")
        return None

    def encode_all(self, records: Iterable[Record]) -> Iterator[Raw]:
        """Those that are left of many."""
        return (raw for raw in map(self.encode, records) if raw is not None)

    def _encoded(self, record: Record) -> Raw | None:
        changed = self._transformed(record)
        if changed is None:
            return None
        topic, headers = changed.topic, changed.headers
        self._place = self._header_place
        encoded = [(header.name, self._header.encode(topic, header.schema, header.value)) for header in headers]
        self._place = self._key_place
        key = self._key.encode(topic, changed.key_schema, changed.key)
        self._place = self._value_place
        value = self._value.encode(topic, changed.value_schema, changed.value)
        return Raw(topic, key, value, encoded, changed.partition, None, changed.timestamp_ms)


class SinkChain(_Chain):
    """What lies in topics, on its way into a sink.  Those that are passed over are left in ``letters``."""

    def __init__(self, given: Mapping[str, str], around: Surroundings, task: int = 0) -> None:
        config = _config(SINK, given)
        super().__init__(config, task, around)
        self._name, self._task = given.get("name", ""), task
        self._class_name = given.get(CONNECTOR_CLASS.name, "")
        self._letters_topic = config[LETTERS_TOPIC].strip()
        self._letters_headers = config[LETTERS_HEADERS]
        self._letters: list[Raw] = []

    def decode(self, raw: Raw) -> Record | None:
        """The record as data; None when a transform let it go, or when it failed and is passed over."""
        found = self._tried(self._decoded, raw)
        if type(found) is not Failure:
            record: Record | None = found
            return record
        self._fail(raw, found)
        return None

    def decode_all(self, raws: Iterable[Raw]) -> Iterator[Record]:
        """Those that are left of many."""
        return (record for record in map(self.decode, raws) if record is not None)

    def reject(self, raw: Raw, error: ConnectError) -> None:
        """The sink cannot take this record: pass it over, or raise ``Intolerable``."""
        self._tolerance.counts.total_record_failures += 1
        self._fail(raw, Failure(Stage.TASK_PUT, self._class_name, error))

    def take_letters(self) -> list[Raw]:
        """The dead letters since it was asked last, for the topic of dead letters."""
        letters, self._letters = self._letters, []
        return letters

    def _fail(self, raw: Raw, failure: Failure) -> None:
        # The letter comes first: even the record that stops a connector is to be found there, as with Kafka's.
        if self._letters_topic:
            told = failure if self._letters_headers else None
            self._letters.append(dead_letter(self._letters_topic, raw, told, self._name, self._task))
        self._tolerance.take(failure, lambda: _described(raw))

    def _decoded(self, raw: Raw) -> Record | None:
        topic = raw.topic
        self._place = self._key_place
        key = self._key.decode(topic, raw.key)
        self._place = self._value_place
        value = self._value.decode(topic, raw.value)
        self._place = self._header_place
        headers = []
        for name, data in raw.headers:
            found = self._header.decode(topic, data)
            headers.append(Header(name, found.value, found.schema))
        return self._transformed(
            Record(
                topic,
                value.value,
                key.value,
                value.schema,
                key.schema,
                headers,
                raw.partition,
                raw.offset,
                raw.timestamp_ms,
                topic,
            )
        )


def _described(raw: Raw) -> str:
    when = f", timestamp={raw.timestamp_ms}" if raw.timestamp_ms is not None else ""
    return f"consumed record is {{topic='{raw.topic}', partition={raw.partition}, offset={raw.offset}{when}}}"


def below(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """What is said below a prefix, without it."""
    return {name[len(prefix) :]: text for name, text in given.items() if name.startswith(prefix)}


def _config(options: Iterable[Option[Any]], given: Mapping[str, str]) -> Config:
    """The config, which ``validation`` has seen; Misconfigured all the same when it is wrong."""
    config, errors = parse(options, given)
    if errors:
        raise Misconfigured("; ".join(words for several in errors.values() for words in several))
    return config


def _converter(config: Config, option: Option[str | None], stage: Stage) -> tuple[Converter, Place]:
    if stage is Stage.HEADER_CONVERTER:
        name = config[option] or DEFAULT_HEADER_CONVERTER
        found = plugins.header_converter(name)
    else:
        name = config[option] or DEFAULT_CONVERTER
        found = plugins.converter(name)
    given = below(config.given, f"{option.name}.")
    return found(_config(found.options, given)), Place(stage, name)


def _steps(config: Config) -> list[Step]:
    steps = []
    for alias in config[TRANSFORMS]:
        given = below(config.given, f"transforms.{alias}.")
        if "type" not in given:
            raise Misconfigured(f"transforms.{alias}.type is missing")
        found = plugins.transform(given["type"])
        own = _config(found.options, given)
        if wrong := found.check(own):
            raise Misconfigured("; ".join(f"transforms.{alias}.{name}: {words}" for name, words in wrong.items()))
        predicate = _predicate(config, given["predicate"]) if "predicate" in given else None
        negate = given.get("negate", "false").strip().lower() == "true"
        steps.append(Step(found(own), Place(Stage.TRANSFORMATION, given["type"]), predicate, negate))
    return steps


def _predicate(config: Config, alias: str) -> Predicate:
    given = below(config.given, f"predicates.{alias}.")
    if "type" not in given:
        raise Misconfigured(f"predicates.{alias}.type is missing")
    found = plugins.predicate(given["type"])
    return found(_config(found.options, given))
