"""Data of any shape survives its way into a topic and out of it, and no bytes at all do more than fail."""

import copy
import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.chain import Raw, SinkChain, SourceChain, Surroundings
from millstream.pipelines.connect.converters.avro import AvroConverter
from millstream.pipelines.connect.converters.avro_schemas import avro_of
from millstream.pipelines.connect.converters.base import Data
from millstream.pipelines.connect.converters.json import JsonConverter
from millstream.pipelines.connect.converters.plain import StringConverter
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.literals import parse_literal, write_literal
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type, decimal
from tests.unit.pipelines.connect.converters.made import made

Described = tuple[Schema, st.SearchStrategy[Any]]

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def _in_milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


#: Types without others in them, and their values.
PLAIN: list[Described] = [
    (Schema(Type.INT8), _integers(8)),
    (Schema(Type.INT16), _integers(16)),
    (Schema(Type.INT32), _integers(32)),
    (Schema(Type.INT64), _integers(64)),
    (Schema(Type.FLOAT32), st.floats(width=32, allow_nan=False)),
    (Schema(Type.FLOAT64), st.floats(allow_nan=False)),
    (Schema(Type.BOOLEAN), st.booleans()),
    (Schema(Type.STRING), TEXT),
    (Schema(Type.BYTES), st.binary(max_size=8)),
    (Schema(Type.INT32, name=DATE, version=1), st.dates()),
    (Schema(Type.INT32, name=TIME, version=1), MOMENTS.map(lambda moment: _in_milliseconds(moment).time())),
    (Schema(Type.INT64, name=TIMESTAMP, version=1), MOMENTS.map(_in_milliseconds)),
    (decimal(3), st.integers(-(10**20), 10**20).map(lambda digits: Decimal(digits).scaleb(-3))),
]


@st.composite
def described(draw: st.DrawFn, depth: int = 2) -> Described:
    """A schema, and what makes values of it."""
    kind = draw(st.sampled_from(["plain", "plain", "array", "map", "struct"] if depth else ["plain"]))
    if kind == "plain":
        schema, values = draw(st.sampled_from(PLAIN))
    elif kind == "array":
        inner, items = draw(described(depth - 1))
        schema, values = Schema(Type.ARRAY, values=inner), st.lists(items, max_size=3)
    elif kind == "map":
        inner, items = draw(described(depth - 1))
        schema, values = (
            Schema(Type.MAP, keys=Schema(Type.STRING), values=inner),
            st.dictionaries(TEXT, items, max_size=3),
        )
    else:
        names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
        fields = {name: draw(described(depth - 1)) for name in names}
        schema = Schema(Type.STRUCT, fields=tuple(Field(name, inner) for name, (inner, _) in fields.items()))
        values = st.fixed_dictionaries({name: items for name, (_, items) in fields.items()})
    if draw(st.booleans()):
        return schema.as_optional(), st.none() | values
    return schema, values


DATA = described().flatmap(lambda found: st.tuples(st.just(found[0]), found[1]))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


#: Where each example does much.
FEW = settings(max_examples=40)


class _Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0


AROUND = Surroundings(_Clock(), lambda seconds: None, lambda line, error: None)


@pytest.mark.parametrize("decimals", ["BASE64", "NUMERIC"])
@given(found=DATA)
def test_json_with_schemas_brings_everything_back(decimals: str, found: tuple[Schema, Any]) -> None:
    schema, value = found
    converter = made(JsonConverter, decimal_format=decimals)
    data = converter.encode("t", schema, value)
    for _ in range(2):  # The second time by a schema that is known.
        assert converter.decode("t", data) == Data(schema, value)


@given(JSON_VALUES)
def test_json_without_schemas_brings_plain_values_back(value: Any) -> None:
    bare, enveloped = made(JsonConverter, schemas_enable="false"), made(JsonConverter)
    assert bare.decode("t", bare.encode("t", None, value)) == Data(None, value)
    assert enveloped.decode("t", enveloped.encode("t", None, value)) == Data(None, value)


@pytest.mark.parametrize("framing", ["none", "single-object"])
@FEW
@given(found=DATA)
def test_avro_brings_every_value_back(framing: str, found: tuple[Schema, Any]) -> None:
    schema, value = found
    data = made(AvroConverter, framing=framing).encode("t", schema, value)
    read = made(AvroConverter, framing=framing, schema=json.dumps(avro_of(schema))).decode("t", data)
    assert read.value == value


@given(TEXT)
def test_text_comes_back(text: str) -> None:
    converter = made(StringConverter)
    assert converter.decode("t", converter.encode("t", None, text)).value == text


@given(st.binary(max_size=40) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_do_more_than_fail(data: bytes) -> None:
    for converter in (
        made(JsonConverter),
        made(JsonConverter, schemas_enable="false"),
        made(
            AvroConverter,
            schema='{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"map","values":"int"}}]}',
        ),
        made(AvroConverter, schema='"int"', framing="single-object"),
    ):
        with suppress(DataError):
            converter.decode("t", data)


@given(JSON_VALUES, JSON_VALUES)
def test_no_envelope_does_more_than_fail(schema: Any, payload: Any) -> None:
    converter = made(JsonConverter)
    for data in (
        json.dumps({"schema": schema, "payload": payload}).encode(),
        json.dumps({"schema": {"type": "struct", "fields": [schema]}, "payload": payload}).encode(),
        json.dumps({"schema": {"type": "int32", "default": schema}, "payload": payload}).encode(),
    ):
        with suppress(DataError):
            converter.decode("t", data)


@given(TEXT | st.text('[]{}:,"\\ 1a.-', max_size=12))
def test_every_text_is_some_literal_that_can_be_written(text: str) -> None:
    schema, value = parse_literal(text)
    if value is not None:
        write_literal(schema, value)


def _configs(names: list[str]) -> dict[str, dict[str, str]]:
    fields = ",".join(names)
    return {
        "Cast$Value": {"spec": ",".join(f"{name}:int8" for name in names)},
        "ExtractField$Value": {"field": names[0], "field.syntax.version": "V2"},
        "Flatten$Value": {},
        "HeaderFrom$Value": {"fields": fields, "headers": fields, "operation": "move"},
        "HoistField$Value": {"field": "whole"},
        "InsertField$Value": {"topic.field": "topic_", "timestamp.field": "at!"},
        "MaskField$Value": {"fields": fields},
        "ReplaceField$Value": {"exclude": names[0]},
        "SetSchemaMetadata$Value": {"schema.name": "New"},
        "TimestampConverter$Value": {"target.type": "unix", "field": names[0], "format": "yyyy"},
        "ValueToKey": {"fields": fields},
    }


@FEW
@given(DATA, st.booleans())
def test_transforms_never_change_the_record_they_were_given_and_do_no_more_than_fail(
    found: tuple[Schema, Any], with_schema: bool
) -> None:
    schema, value = found
    names = [field.name for field in schema.fields] or ["absent"]
    record = Record("t", value, "k", schema if with_schema else None, headers=[Header("h", 1)], timestamp_ms=5)
    before = copy.deepcopy(record)
    for name, config in _configs(names).items():
        transform = plugins.transform(name)(parse(plugins.transform(name).options, config)[0])
        with suppress(DataError):
            changed = transform.apply(record)
            assert changed is not None
            made(JsonConverter).encode("t", changed.value_schema, changed.value)
        assert record == before


@given(st.lists(st.tuples(st.none() | st.binary(max_size=12), st.none() | st.binary(max_size=12)), max_size=5))
def test_of_all_records_each_is_taken_or_is_a_dead_letter(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    config = {
        "name": "n",
        "connector.class": "FileSink",
        "topics": "t",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    chain = SinkChain(config, AROUND)
    raws = [Raw("t", key, value, [], 0, offset) for offset, (key, value) in enumerate(pairs)]
    records, letters = list(chain.decode_all(raws)), chain.take_letters()
    assert len(records) + len(letters) == len(raws)
    assert all((letter.key, letter.value) in pairs for letter in letters)


@FEW
@given(DATA, DATA)
def test_what_a_source_chain_writes_a_sink_chain_reads(key: tuple[Schema, Any], value: tuple[Schema, Any]) -> None:
    config = {"name": "n", "connector.class": "FileSource", "topics": "t"}
    record = Record("t", value[1], key[1], value[0], key[0], [Header("h", True, Schema(Type.BOOLEAN))], 1, None, 5)
    raw = SourceChain(config, AROUND).encode(record)
    assert raw is not None
    found = SinkChain(config, AROUND).decode(raw)
    assert found is not None
    assert (found.key, found.key_schema, found.value, found.value_schema) == (key[1], key[0], value[1], value[0])
    assert found.headers == record.headers
