"""What is made of schemas, once each."""

from dataclasses import replace

from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.schema import INT32, STRING, Schema, Type, struct


def test_equal_schemas_are_one_and_others_are_not() -> None:
    made: list[Schema] = []

    def make(schema: Schema) -> int:
        made.append(schema)
        return len(made)

    kept = PerSchema(make)
    assert [kept(struct(a=INT32)) for _ in range(300)] == [1] * 300
    assert kept(struct(a=STRING)) == 2
    assert kept(struct(a=INT32)) == 1
    assert len(made) == 2


def test_a_default_that_has_no_hash_does_no_harm() -> None:
    schema = Schema(Type.ARRAY, values=INT32, default=[1])
    kept = PerSchema(lambda found: found.default)
    assert kept(schema) is schema.default
    assert kept(replace(schema, default=[2])) == [2]


def test_no_more_is_kept_than_allowed_and_nothing_is_mixed_up() -> None:
    kept = PerSchema(lambda schema: schema.version, kept_max=3)
    for _ in range(3):
        for version in range(10):
            assert kept(Schema(Type.INT32, version=version)) == version
