"""The contracts of transforms and predicates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Self

from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Schema


class Transform:
    """Makes another record of a record, or none.

    A given record is not changed: whoever hands it over may need it again.  What cannot be transformed raises
    ``DataError``.
    """

    #: What may be said of it: ``transforms.ALIAS.NAME``.
    options: ClassVar[Sequence[Option[Any]]] = ()

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        """What is wrong with options that each are right, by the option to blame."""
        return {}

    def apply(self, record: Record) -> Record | None:
        """What becomes of the record; None lets it go."""
        raise NotImplementedError


class Predicate:
    """Says of a record whether a transform concerns it."""

    #: What may be said of it: ``predicates.ALIAS.NAME``.
    options: ClassVar[Sequence[Option[Any]]] = ()

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        """What is wrong with options that each are right, by the option to blame."""
        return {}

    def test(self, record: Record) -> bool:
        """Whether it holds."""
        raise NotImplementedError


class Side(Enum):
    """The half of a record that a transform works on; the end of Kafka's name for it (``Cast$Key``)."""

    KEY = "Key"
    VALUE = "Value"


class SidedTransform(Transform):
    """Changes a record's key, or its value."""

    side: ClassVar[Side] = Side.VALUE

    @classmethod
    def on(cls, side: Side) -> type[Self]:
        """The transform of that half."""
        whole: Any = cls
        return _on(whole, side)

    def apply(self, record: Record) -> Record | None:
        if self.side is Side.KEY:
            schema, value = self.change(record.key_schema, record.key, record)
            return replace(record, key_schema=schema, key=value)
        schema, value = self.change(record.value_schema, record.value, record)
        return replace(record, value_schema=schema, value=value)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """What becomes of the half that this transform works on."""
        raise NotImplementedError


@cache
def _on(transform: type[Any], side: Side) -> type[Any]:
    """Once for each, so that they are the same class to everyone."""
    return type(f"{transform.__name__}${side.value}", (transform,), {"side": side, "__doc__": transform.__doc__})
