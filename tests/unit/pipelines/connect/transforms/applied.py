"""Transforms by the names and options that configs have for them."""

from typing import Any

from millstream.pipelines.connect import plugins
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Schema
from millstream.pipelines.connect.transforms.base import Transform


def transform(name: str, **options: str) -> Transform:
    """The transform; an underscore in an option's name is a point."""
    found = plugins.transform(name)
    given = {option.replace("_", "."): text for option, text in options.items()}
    config, errors = parse(found.options, given)
    assert not errors, errors
    assert not found.check(config)
    return found(config)


def wrong(name: str, **options: str) -> dict[str, str]:
    """What a transform says of options that each are right."""
    found = plugins.transform(name)
    config, errors = parse(found.options, {option.replace("_", "."): text for option, text in options.items()})
    assert not errors, errors
    return dict(found.check(config))


def value_of(applied: Transform, value: Any, schema: Schema | None = None) -> Any:
    """What becomes of a value, without its schema."""
    record = applied.apply(Record("topic", value, value_schema=schema))
    assert record is not None
    return record.value


def schema_of(applied: Transform, value: Any, schema: Schema) -> Schema:
    """What becomes of a value's schema."""
    record = applied.apply(Record("topic", value, value_schema=schema))
    assert record is not None
    assert record.value_schema is not None
    return record.value_schema
