"""The contracts of transforms and predicates."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache
from operator import attrgetter
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


#: A record's values in their order, and where in it each half lies: quicker than ``dataclasses.replace``.
_NAMES = [field.name for field in fields(Record)]
_VALUES = attrgetter(*_NAMES)
_PLACES = {
    Side.KEY: (_NAMES.index("key_schema"), _NAMES.index("key")),
    Side.VALUE: (_NAMES.index("value_schema"), _NAMES.index("value")),
}


class SidedTransform(Transform):
    """Changes a record's key, or its value."""

    side: ClassVar[Side] = Side.VALUE

    @classmethod
    def on(cls, side: Side) -> type[Self]:
        """The transform of that half."""
        whole: Any = cls
        return _on(whole, side)

    def apply(self, record: Record) -> Record | None:
        values = list(_VALUES(record))
        of_schema, of_data = _PLACES[self.side]
        values[of_schema], values[of_data] = self.change(values[of_schema], values[of_data], record)
        return Record(*values)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        """What becomes of the half that this transform works on."""
        raise NotImplementedError


@cache
def _on(transform: type[Any], side: Side) -> type[Any]:
    """Once for each, so that they are the same class to everyone."""
    return type(f"{transform.__name__}${side.value}", (transform,), {"side": side, "__doc__": transform.__doc__})
