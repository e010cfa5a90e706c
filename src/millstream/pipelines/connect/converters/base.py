"""The contract of converters."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.schema import Schema


class Data(NamedTuple):
    """A value, and its schema where it has one."""

    schema: Schema | None
    value: Any


#: What no bytes at all stand for.
NOTHING = Data(None, None)


class Converter:
    """Turns data into bytes and back.  What cannot be converted raises ``DataError``."""

    #: What may be said of it: ``value.converter.NAME`` for the one of values.
    options: ClassVar[Sequence[Option[Any]]] = ()

    def __init__(self, config: Config) -> None:
        self.config = config

    @classmethod
    def check(cls, config: Config, *, reads: bool) -> Mapping[str, str]:
        """What is wrong, by option, with a config whose options each are right: for one that reads, or that writes."""
        return {}

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a value; None where the record shall have none, as a tombstone."""
        raise NotImplementedError

    def decode(self, topic: str, data: bytes | None) -> Data:
        """What the bytes stand for."""
        raise NotImplementedError
