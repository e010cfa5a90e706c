"""Configs checked before anything runs, in Connect's shape."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from millstream.config.setting import INT, PASSWORD, STRING
from millstream.pipelines.connect.base import Sink, Source
from millstream.pipelines.connect.errors import Misconfigured, Unreachable
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.providers import Providers
from millstream.pipelines.connect.transforms.base import Transform
from millstream.pipelines.connect.validation import definitions, validate

TABLE = Option[str]("table", STRING, default=REQUIRED, doc="The table.", importance="HIGH", display="Table")
PASSWORD_OPTION = Option[str | None]("password", PASSWORD, default=None, doc="The password.")
DEFAULT_PASSWORD = Option[str | None]("other.password", PASSWORD, default="changeit", doc="Another.")
ROWS = Option[int]("rows", INT, default=10, doc="Rows at once.", recommended=("10", "100"))


class TableSource(Source):
    """Looks outside before it says yes."""

    options = (TABLE, PASSWORD_OPTION, DEFAULT_PASSWORD, ROWS)

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if config[TABLE] == "gone":
            raise Unreachable("no database answers")
        if config[TABLE] == "broken":
            raise ZeroDivisionError
        if config[TABLE] == "missing":
            return {"table": f"there is none, not even for {config[PASSWORD_OPTION]}"}
        return {}


class Stubborn(Transform):
    """Will not be made."""

    def __init__(self, config: Config) -> None:
        raise RuntimeError("not today")


class AnySink(Sink):
    """Takes anything."""


SOURCE = {"name": "mine", "connector.class": f"{__name__}.TableSource", "table": "t"}
SINK = {"name": "mine", "connector.class": f"{__name__}.AnySink", "topics": "a"}


def errors(given: Mapping[str, str | None]) -> dict[str, list[str]]:
    """What is wrong, by option."""
    found = validate(given)
    wrong = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"] if each["value"]["errors"]}
    assert found["error_count"] == sum(map(len, wrong.values()))
    assert all(name in words for name, several in wrong.items() for words in several), "every error names its option"
    return wrong


def option(name: str, given: Mapping[str, str | None]) -> dict[str, Any]:
    return next(each for each in validate(given)["configs"] if each["value"]["name"] == name)


def test_a_config_that_can_work_has_no_errors() -> None:
    assert errors(SOURCE) == {}
    assert errors(SINK) == {}


def test_the_answer_has_connects_shape() -> None:
    found = validate(SOURCE)
    assert list(found) == ["name", "error_count", "groups", "configs"]
    assert found["name"] == f"{__name__}.TableSource"
    assert found["groups"][:3] == ["Common", "Transforms", "Predicates"]
    assert option("table", SOURCE) == {
        "definition": {
            "name": "table",
            "type": "STRING",
            "required": True,
            "default_value": None,
            "importance": "HIGH",
            "documentation": "The table.",
            "group": "Connector",
            "width": "MEDIUM",
            "display_name": "Table",
            "dependents": [],
            "order": 1,
        },
        "value": {"name": "table", "value": "t", "recommended_values": [], "errors": [], "visible": True},
    }
    rows = option("rows", SOURCE)
    assert (rows["definition"]["default_value"], rows["value"]["value"]) == ("10", "10")
    assert rows["value"]["recommended_values"] == ["10", "100"]
    assert option("tasks.max", {**SOURCE, "tasks.max": " 4 "})["value"]["value"] == "4"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"tasks.max": "0"}, "tasks.max"),
        ({"tasks.max": "many"}, "tasks.max"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"errors.tolerance": "some"}, "errors.tolerance"),
        ({"rows": "ten"}, "rows"),
        ({"batch.max.rows": "0"}, "batch.max.rows"),
        ({"producer.override.compression.type": "rar"}, "producer.override.compression.type"),
        ({"table": "missing"}, "table"),
        ({"table": "gone"}, "connector.class"),
        ({"table": "broken"}, "connector.class"),
        ({"transforms": "a", "transforms.a.type": f"{__name__}.Stubborn"}, "transforms.a.type"),
        ({"key.converter": "NoSuch"}, "key.converter"),
        ({"value.converter": "no.such.Converter"}, "value.converter"),
        ({"header.converter": "AvroConverter"}, "header.converter"),
        (
            {"value.converter": "JsonConverter", "value.converter.schemas.enable": "no"},
            "value.converter.schemas.enable",
        ),
        ({"value.converter": "AvroConverter", "value.converter.schema": "{"}, "value.converter"),
        ({"value.converter": "AvroConverter", "value.converter.framing": "registry"}, "value.converter.framing"),
        ({"transforms": "a"}, "transforms.a.type"),
        ({"transforms": "a", "transforms.a.type": "NoSuch"}, "transforms.a.type"),
        ({"transforms": "a,a", "transforms.a.type": "Filter"}, "transforms"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value"}, "transforms.a.spec"),
        ({"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "x:y"}, "transforms.a.spec"),
        ({"transforms": "a", "transforms.a.type": "InsertField$Value"}, "transforms.a.topic.field"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negate": "true"}, "transforms.a.negate"),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, "transforms.a.predicate"),
        ({"predicates": "p", "predicates.p.type": "NoSuch"}, "predicates.p.type"),
        (
            {"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "("},
            "predicates.p.pattern",
        ),
    ],
)
def test_every_error_is_told_at_its_option(changes: dict[str, str], wrong: str) -> None:
    assert list(errors({**SOURCE, **changes})) == [wrong]


def test_whoever_says_how_topics_are_made_says_it_of_all() -> None:
    groups = {"topic.creation.groups": "big", "topic.creation.big.partitions": "0"}
    assert list(errors({**SOURCE, **groups})) == [
        "topic.creation.big.include",
        "topic.creation.big.partitions",
        "topic.creation.default.replication.factor",
        "topic.creation.default.partitions",
    ]
    default = {"topic.creation.default.replication.factor": "-1", "topic.creation.default.partitions": "3"}
    assert errors({**SOURCE, **default}) == {}


def test_what_must_be_given_is_asked_for() -> None:
    found = errors({"connector.class": SOURCE["connector.class"]})
    assert list(found) == ["name", "table"]
    assert "Missing required configuration 'table'" in found["table"][0]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"topics": ""}, ["topics", "topics.regex"]),
        ({"topics.regex": "a.*"}, ["topics", "topics.regex"]),
        ({"errors.deadletterqueue.topic.name": "a"}, ["topics"]),
        ({"topics": "", "topics.regex": "a.*", "errors.deadletterqueue.topic.name": "abc"}, ["topics.regex"]),
        ({"topics": "", "topics.regex": "("}, ["topics.regex"]),
        ({"batch.interval.ms": "-1"}, ["batch.interval.ms"]),
        ({"value.converter": "AvroConverter"}, ["value.converter.schema"]),
        ({"consumer.override.auto.offset.reset": "middle"}, ["consumer.override.auto.offset.reset"]),
    ],
)
def test_a_sink_has_topics_one_way_and_none_of_them_for_dead_letters(changes: dict[str, str], wrong: list[str]) -> None:
    assert list(errors({**SINK, **changes})) == wrong


def test_a_converter_is_asked_for_what_reading_needs_or_writing() -> None:
    avro = {"key.converter": "AvroConverter", "value.converter": "AvroConverter"}
    assert errors({**SOURCE, **avro}) == {}
    framed = {**avro, "key.converter.framing": "registry", "value.converter.framing": "registry"}
    schemas = {"key.converter.schema": '"string"', "value.converter.schema": '"string"'}
    assert errors({**SINK, **framed, **schemas}) == {}
    assert list(errors({**SINK, **framed})) == ["key.converter.schema", "value.converter.schema"]
    assert list(errors({**SOURCE, **framed, **schemas})) == ["key.converter.framing", "value.converter.framing"]


def test_a_sink_does_not_commit_as_its_workers_group() -> None:
    def wrong(given: dict[str, str]) -> list[str]:
        found = validate(given, worker_group="connect-mine")
        return [each["value"]["name"] for each in found["configs"] if each["value"]["errors"]]

    assert wrong(SINK) == ["name"]
    assert wrong({**SINK, "consumer.override.group.id": "other"}) == []
    assert wrong({**SINK, "name": "x", "consumer.override.group.id": "connect-mine"}) == ["consumer.override.group.id"]
    assert wrong(SOURCE) == []


def test_variables_are_checked_by_what_they_stand_for_and_shown_as_they_are() -> None:
    settings = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    providers = Providers.of(settings, {"TABLE": "missing", "ROWS": "25000", "WORD": "correct horse"})
    given = {**SOURCE, "table": "${env:TABLE}", "rows": "${env:ROWS}", "password": "${env:WORD}"}
    found = validate(given, providers)
    values = {each["value"]["name"]: each["value"] for each in found["configs"]}
    assert values["table"]["value"] == "${env:TABLE}" and values["rows"]["value"] == "${env:ROWS}"
    assert values["password"]["value"] == "[hidden]"
    assert found["error_count"] == 1 and values["table"]["errors"] == ["table: there is none, not even for [hidden]"]
    assert "correct horse" not in json.dumps(found) and "25000" not in json.dumps(found)
    found = validate({**SOURCE, "rows": "${env:NONE}", "unheard.of": "${env:NONE}"}, providers)
    wrong = {each["value"]["name"]: each["value"]["errors"] for each in found["configs"] if each["value"]["errors"]}
    assert wrong["unheard.of"] == ["unheard.of: ${env:NONE}: there is no such key"]
    assert wrong["rows"][-1] == "rows: ${env:NONE}: there is no such key"


def test_how_batches_are_made_is_among_the_options() -> None:
    sources = {told["name"] for told in definitions("FileSource")}
    sinks = {told["name"] for told in definitions("FileSink")}
    assert {"poll.interval.ms", "batch.max.rows"} <= sources - sinks
    assert "batch.interval.ms" in sinks - sources


def test_the_connector_looks_outside_only_when_the_rest_is_right() -> None:
    assert list(errors({**SOURCE, "table": "gone", "rows": "ten"})) == ["rows"]


def test_transforms_that_are_listed_have_options_of_their_own() -> None:
    given = {
        **SOURCE,
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "a",
        "transforms.route.replacement": "b",
        "transforms.route.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "RecordIsTombstone",
    }
    assert errors(given) == {}
    assert option("transforms.route.regex", given)["definition"]["group"] == "Transforms: route"
    kind = option("transforms.route.type", given)
    assert kind["definition"]["type"] == "CLASS"
    assert "org.apache.kafka.connect.transforms.Cast$Key" in kind["value"]["recommended_values"]
    assert option("predicates.p.type", given)["definition"]["group"] == "Predicates: p"


def test_secrets_are_never_shown() -> None:
    for table in ("t", "missing", "gone"):
        found = validate({**SOURCE, "table": table, "password": "correct horse"})
        assert "correct horse" not in json.dumps(found)
        assert "changeit" not in json.dumps(found)
    assert option("password", {**SOURCE, "password": "correct horse"})["value"]["value"] == "[hidden]"
    assert option("password", SOURCE)["value"]["value"] is None


def test_a_null_is_no_value() -> None:
    found = errors({**SOURCE, "rows": None, "unheard.of": None})
    assert found["rows"] == ["rows: Null value can not be supplied as the configuration value."]
    assert list(found) == ["unheard.of", "rows"]


@pytest.mark.parametrize("name", [None, "", "NoSuch", "no.such.Class"])
def test_without_a_connector_there_is_nothing_to_check(name: str | None) -> None:
    with pytest.raises(Misconfigured):
        validate({"name": "mine", "connector.class": name})


def test_what_a_plugin_may_be_told_can_be_asked() -> None:
    names = [told["name"] for told in definitions(SOURCE["connector.class"])]
    assert names[:4] == ["table", "password", "other.password", "rows"]
    assert "tasks.max" in names
    assert [told["name"] for told in definitions("TopicNameMatches")] == ["pattern"]
    for name in ("NoSuch", "decimal.Decimal", "json.dumps"):
        with pytest.raises(Misconfigured):
            definitions(name)
