"""Converters, transforms and predicates of connectors do what Apache Kafka's own classes of those names do."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from millstream.pipelines.connect import plugins, settings
from millstream.pipelines.connect.converters.base import Data
from millstream.pipelines.connect.converters.json import JsonConverter
from millstream.pipelines.connect.converters.plain import StringConverter
from millstream.pipelines.connect.errors import ConnectError
from millstream.pipelines.connect.literals import parse_literal, write_literal
from millstream.pipelines.connect.options import Option, parse
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import Schema
from millstream.pipelines.connect.validation import Form
from tests.compatibility import apache_kafka, connect_cases
from tests.compatibility.connect_cases import LITERALS, SCHEMAS_AND_VALUES, TEXTS, Case

CLASSES = apache_kafka.CACHE / "classes"
JVM_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
PACKAGE = "org.apache.kafka.connect.transforms."


def _missing() -> str | None:
    if shutil.which("java") is None:
        return "java is not installed"
    return None if (CLASSES / "ConnectData.class").exists() else "the Java judge is not compiled"


pytestmark = pytest.mark.skipif(_missing() is not None, reason=str(_missing()))


def _judged(cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Apache Kafka says, in one process for all of them."""
    done = subprocess.run(
        ["java", *JVM_OPTIONS, "-cp", apache_kafka.classpath(CLASSES), "ConnectData"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def _json(**config: str) -> JsonConverter:
    return JsonConverter(_config(JsonConverter.options, config))


def _config(options: Sequence[Option[Any]], given: dict[str, str]) -> Any:
    config, errors = parse(options, given)
    assert not errors
    return config


def _envelope(schema: Schema | None, value: Any) -> str | None:
    data = _json().encode("topic", schema, value)
    return None if data is None else data.decode()


def _parsed(envelope: str | None) -> Any:
    return None if envelope is None else json.loads(envelope)


def _record(record: Record) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "key": _envelope(record.key_schema, record.key),
        "value": _envelope(record.value_schema, record.value),
        "headers": [[header.name, _envelope(header.schema, header.value)] for header in record.headers],
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }


def _told(record: Record | None) -> dict[str, Any]:
    """What the judge tells of a record."""
    if record is None:
        return {"gone": True}
    told = _record(record)
    return {name: told[name] for name in ("topic", "key", "value", "headers")}


def _comparable(answer: dict[str, Any]) -> Any:
    """An answer with its envelopes opened, and only the fact of an error: its words are our own."""
    if "error" in answer:
        return "error"
    opened = dict(answer)
    for name in ("key", "value", "envelope"):
        if name in opened:
            opened[name] = _parsed(opened[name])
    if "headers" in opened:
        opened["headers"] = [[name, _parsed(envelope)] for name, envelope in opened["headers"]]
    return opened


def _applied(case: Case) -> dict[str, Any]:
    """What we say."""
    found = plugins.transform(PACKAGE + case.plugin)
    try:
        transform = found(_config(found.options, case.config))
        return _told(transform.apply(_reread(case.record)))
    except ConnectError as error:
        return {"error": str(error)}


def _reread(record: Record) -> Record:
    """The record as it is when its JSON is read, which is what the judge has of it."""
    converter = _json()

    def read(schema: Schema | None, value: Any) -> Data:
        envelope = _envelope(schema, value)
        return converter.decode("topic", None if envelope is None else envelope.encode())

    key, value = read(record.key_schema, record.key), read(record.value_schema, record.value)
    headers = [(header.name, read(header.schema, header.value)) for header in record.headers]
    return replace(
        record,
        key=key.value,
        key_schema=key.schema,
        value=value.value,
        value_schema=value.schema,
        headers=[Header(name, data.value, data.schema) for name, data in headers],
    )


def _differences(cases: Sequence[Any], ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> list[str]:
    assert len(cases) == len(ours) == len(theirs)
    return [
        f"{case}\n  ours:   {mine}\n  theirs: {judged}"
        for case, mine, judged in zip(cases, ours, theirs, strict=True)
        if _comparable(mine) != _comparable(judged)
    ]


def test_transforms_make_of_records_what_kafka_makes_of_them() -> None:
    cases = list(connect_cases.transforms())
    asked = [
        {"do": "transform", "class": PACKAGE + case.plugin, "config": case.config, **_record(case.record)}
        for case in cases
    ]
    different = _differences(
        [(case.plugin, case.config, case.record.value) for case in cases], list(map(_applied, cases)), _judged(asked)
    )
    assert not different, "\n".join(different)


def test_predicates_hold_when_kafka_says_so() -> None:
    cases = list(connect_cases.predicates())
    package = f"{PACKAGE}predicates."
    asked = [
        {"do": "predicate", "class": package + case.plugin, "config": case.config, **_record(case.record)}
        for case in cases
    ]
    ours = []
    for case in cases:
        found = plugins.predicate(package + case.plugin)
        ours.append({"holds": found(_config(found.options, case.config)).test(case.record)})
    assert ours == _judged(asked)


def test_json_is_written_as_kafka_writes_it_to_the_byte() -> None:
    asked: list[dict[str, Any]] = []
    for envelopes, decimals in product(("true", "false"), ("BASE64", "NUMERIC")):
        config = {"schemas.enable": envelopes, "decimal.format": decimals}
        converter = JsonConverter(_config(JsonConverter.options, config))
        for schema, value in SCHEMAS_AND_VALUES:
            data = converter.encode("topic", schema, value)
            assert data is not None
            envelope = _envelope(schema, value)
            asked.append({"do": "convert", "config": config, "data": data.decode(), "envelope": envelope})
    for case, answer in zip(asked, _judged(asked), strict=True):
        if _parsed(case["envelope"])["schema"] is None:
            assert json.loads(answer["data"]) == json.loads(case["data"])  # Kafka shuffles maps.
        else:
            assert answer["data"] == case["data"]
        # And what it reads of ours is what we wrote.
        if case["config"]["schemas.enable"] == "true":
            assert _parsed(answer["envelope"]) == _parsed(case["envelope"])


def _literal(text: str) -> dict[str, Any]:
    schema, value = parse_literal(text)
    try:
        written = None if value is None else write_literal(schema, value)
        return {"envelope": _envelope(schema, value), "written": written}
    except ConnectError as error:
        return {"error": str(error)}


def test_literals_are_read_and_written_as_kafka_does() -> None:
    theirs = _judged([{"do": "literal", "text": text} for text in LITERALS])
    different = _differences(LITERALS, list(map(_literal, LITERALS)), theirs)
    assert not different, "\n".join(different)


def test_text_is_made_of_values_as_java_makes_it() -> None:
    converter = StringConverter(_config(StringConverter.options, {}))
    ours = []
    for schema, value in TEXTS:
        data = converter.encode("topic", schema, value)
        assert data is not None
        ours.append({"text": data.decode()})
    theirs = _judged([{"do": "text", "envelope": _envelope(schema, value)} for schema, value in TEXTS])
    different = _differences(TEXTS, ours, theirs)
    assert not different, "\n".join(different)


def _options(options: Sequence[Option[Any]]) -> dict[str, dict[str, Any]]:
    form = Form({})
    form.add(options)
    return {
        row.option.name: {
            "type": row.definition["type"],
            "importance": row.definition["importance"],
            "required": row.definition["required"],
            "default": row.definition["default_value"],
        }
        for row in form.rows.values()
    }


def test_plugins_have_the_options_that_kafkas_have() -> None:
    ours = [plugin for plugin in plugins.PLUGINS if plugin.name.startswith("org.apache.kafka.connect.")]
    theirs = _judged([{"do": "options", "class": plugin.name} for plugin in ours])
    for plugin, judged in zip(ours, theirs, strict=True):
        judged.pop("converter.type", None)  # Told by the place that a converter has in a config.
        assert _options(plugin.load().options) == judged, plugin.name


def test_connectors_have_the_options_that_kafkas_have() -> None:
    kinds = {"sink": settings.SINK, "source": settings.SOURCE}
    theirs = _judged([{"do": "options", "class": kind} for kind in kinds])
    for options, judged in zip(kinds.values(), theirs, strict=True):
        ours = _options(options)
        # Of plugins there is one version each, and a batch is a transaction.
        missing = {name for name in judged if name not in ours}
        assert all(name.endswith("plugin.version") or name.startswith("transaction.boundary") for name in missing)
        both = ours.keys() & judged.keys()
        assert len(both) > len(settings.COMMON)
        assert {name: ours[name] for name in both} == {name: judged[name] for name in both}
