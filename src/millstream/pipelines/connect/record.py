"""What connectors bring and take: a record with its key, value and headers as data, not yet or no longer bytes."""

from dataclasses import dataclass, field
from typing import Any

from millstream.pipelines.connect.schema import Schema


@dataclass(slots=True)
class Header:
    """A header; without a schema its value is what Python has for it."""

    name: str
    value: Any
    schema: Schema | None = None


@dataclass(slots=True)
class Record:
    """One record.  Transforms make another of it, with ``dataclasses.replace``.

    A source leaves ``partition`` to the partitioner and ``timestamp_ms`` to the clock where it does not care; a sink is
    always told both, the ``offset``, and the ``origin``: the topic that these are of, while transforms may have changed
    the ``topic``.
    """

    topic: str
    value: Any
    key: Any = None
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    headers: list[Header] = field(default_factory=list)
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    origin: str | None = None
