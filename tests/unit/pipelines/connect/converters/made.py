"""Converters by the options that configs have for them."""

from typing import TypeVar

from millstream.pipelines.connect.converters.base import Converter
from millstream.pipelines.connect.options import parse

C = TypeVar("C", bound=Converter)


def made(converter: type[C], **options: str) -> C:
    """The converter; an underscore in an option's name is a point."""
    given = {option.replace("_", "."): text for option, text in options.items()}
    config, errors = parse(converter.options, given)
    assert not errors, errors
    return converter(config)
