"""Made-up records: the same for the same seed and place, as fast and as many as asked for."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from millstream.pipelines.connect.base import Offset
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Type
from millstream.pipelines.connect.settings import SOURCE
from millstream.pipelines.connect.sources.generator import GeneratorSource

EVERYTHING = """{"id": "sequence", "at": "time", "n": "int -3 3", "f": "float 1 2", "d": "decimal 0.50 9.99 2",
 "b": "bool 0.9", "w": "word", "c": "choice x y", "u": "uuid", "t": "text 20", "k": "constant a  b",
 "in": {"n": "int 1 1"}}"""


def _source(**given: str) -> tuple[GeneratorSource, dict[str, str]]:
    config, errors = parse(
        (*SOURCE, *GeneratorSource.options),
        {"name": "made", "connector.class": "GeneratorSource", "topic": "t", **given},
    )
    assert not errors
    return GeneratorSource(config), dict(GeneratorSource.check(config))


def _read(source: GeneratorSource, start: Offset | None, end: Offset, generator: int = 0) -> list[Record]:
    return list(source.read({"generator": generator}, start, end))


def test_records_are_the_same_however_the_way_to_them_is_cut() -> None:
    source, wrong = _source(fields=EVERYTHING)
    assert not wrong
    whole = _read(source, None, {"count": 50, "ms": 5_000})
    first, rest = {"count": 20, "ms": 5_000}, {"count": 50, "ms": 5_000}
    assert _read(source, None, first) + _read(source, first, rest) == whole
    assert _read(_source(fields=EVERYTHING, seed="1")[0], None, {"count": 50, "ms": 5_000}) != whole


def test_values_are_what_their_fields_say() -> None:
    source, _ = _source(fields=EVERYTHING, key="c")
    records = _read(source, {"count": 100, "ms": 1_000}, {"count": 200, "ms": 2_000})
    assert [record.value["id"] for record in records] == list(range(100, 200))
    assert [record.timestamp_ms for record in records] == list(range(1_010, 2_001, 10))
    assert records[-1].value["at"] == datetime.fromtimestamp(2, UTC)
    assert {record.value["n"] for record in records} == set(range(-3, 4))
    assert all(1 <= record.value["f"] < 2 for record in records)
    assert all(Decimal("0.50") <= record.value["d"] <= Decimal("9.99") for record in records)
    assert 70 < sum(record.value["b"] for record in records) < 100
    assert {(record.key, record.value["c"]) for record in records} == {("x", "x"), ("y", "y")}
    assert len({record.value["u"] for record in records}) == 100
    assert {len(record.value["t"]) for record in records} == {20}
    assert records[0].value["k"] == "a b"
    assert records[0].value["in"] == {"n": 1}
    schema = records[0].value_schema
    assert schema is not None
    assert [field.schema.type for field in schema.fields][:3] == [Type.INT64, Type.INT64, Type.INT64]
    assert records[0].key_schema == schema.field("c")


def test_generators_share_the_count_and_the_sequence() -> None:
    source, _ = _source(count="7", rate="0", generators="3", fields='{"id": "sequence"}')
    found = []
    for partition in source.partitions():
        end = source.latest(partition, None, 100)
        assert end is not None
        assert source.latest(partition, end, 100) == end
        found += [record.value["id"] for record in source.read(partition, None, end)]
    assert sorted(found) == list(range(7))


def test_a_rate_lets_no_more_through_than_time_does() -> None:
    slow, _ = _source(rate="0.001")
    assert slow.latest({"generator": 0}, None, 100) is None
    assert slow.latest({"generator": 0}, {"count": 5, "ms": 1}, 100) == {"count": 5, "ms": 1}
    fast, _ = _source(rate="0")
    end = fast.latest({"generator": 0}, {"count": 5, "ms": 1}, 100)
    assert end is not None
    assert end["count"] == 105


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a mapping"),
        ('{"a": {"b": "nothing"}}', "a.b: 'nothing' is none of"),
        ('{"a": "int 5 1"}', "a: 'int 5 1': the first number is the smaller one"),
        ('{"a": "int 5"}', "a: 'int 5'"),
        ('{"a": 5}', "a: must be text"),
    ],
)
def test_fields_that_cannot_be_made_are_refused_by_name(fields: str, words: str) -> None:
    _, wrong = _source(fields=fields)
    assert words in wrong["fields"]


def test_a_key_that_is_no_field_is_refused() -> None:
    assert "key" in _source(key="nothing")[1]
