"""Our schemas of the internal topics' records are, field by field, those that Apache Kafka ships in its jars."""

import json
import re
import zipfile
from functools import cache
from typing import Any

import pytest

from millstream.coordination.schemas import consumer_offsets, transaction_state
from millstream.protocol.schema import VERSION_MAX, Struct, Value, Versions
from millstream.protocol.types import Array, FieldType
from tests.compatibility.apache_kafka import VERSION, install, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

_JARS = {"kafka-group-coordinator": consumer_offsets.FORMAT, "kafka-transaction-coordinator": transaction_state.FORMAT}
_TYPES = [
    (jar, number, key, value)
    for jar, form in _JARS.items()
    for number, (key, value) in form.types.items()
    if (jar, number) != ("kafka-group-coordinator", 0)  # Kafka's is called Legacy and has only the first version.
]


@cache
def _schemas(jar: str) -> dict[str, dict[str, Any]]:
    """Every schema of a jar by its name; Kafka's JSON has comments."""
    with zipfile.ZipFile(install() / f"{jar}-{VERSION}.jar") as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/message/.*\.json", name)]
        texts = [re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE) for name in names]
    return {schema["name"]: schema for schema in map(json.loads, texts)}


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def _type_name(of: FieldType) -> str:
    if isinstance(of, Array):
        return f"[]{_type_name(of.of)}"
    return of.__name__ if isinstance(of, type) else of.name.lower()


@pytest.mark.parametrize(("jar", "number", "key", "value"), _TYPES)
def test_a_key_is_kafkas(jar: str, number: int, key: Any, value: type[Value]) -> None:
    schema = _schemas(jar)[key.__name__]
    kinds = {"string": str, "int32": int}
    assert schema["apiKey"] == number
    assert {_snake(each["name"]): kinds[each["type"]] for each in schema["fields"]} == key.__annotations__
    assert list(key._fields) == [_snake(each["name"]) for each in schema["fields"]]


@pytest.mark.parametrize(("jar", "number", "key", "value"), _TYPES)
def test_a_value_is_kafkas(jar: str, number: int, key: Any, value: type[Value]) -> None:
    schema = _schemas(jar)[value.__name__]
    assert schema["apiKey"] == number
    assert Versions.parse(schema["validVersions"]) == value.VERSIONS
    flexible = schema["flexibleVersions"]
    assert (VERSION_MAX if flexible == "none" else Versions.parse(flexible).first) == value.FLEXIBLE_FROM
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}
    _check_fields(value, schema["fields"], common)


def _check_fields(cls: type[Struct], fields: list[dict[str, Any]], common: dict[str, Any]) -> None:
    assert [each.name for each in cls.FIELDS] == [_snake(each["name"]) for each in fields]
    for ours, theirs in zip(cls.FIELDS, fields, strict=True):
        assert _type_name(ours.type) == theirs["type"]
        assert ours.versions == Versions.parse(theirs.get("versions") or theirs["taggedVersions"])
        assert ours.tag == theirs.get("tag")
        if "nullableVersions" in theirs:
            assert ours.nullable == Versions.parse(theirs["nullableVersions"])
        else:
            assert not any(ours.is_nullable(version) for version in range(10))
        if "default" in theirs:
            default = theirs["default"]
            assert ours.make_default() == (None if default in (None, "null") else int(default))
        of = ours.type.of if isinstance(ours.type, Array) else ours.type
        if isinstance(of, type):
            _check_fields(of, theirs.get("fields") or common[of.__name__], common)
