"""Entries of the topics that keep connectors: keys as text, values as JSON without a schema, as Connect has them."""

import json
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A record of a compacted topic; without a value, what the key named is no more."""

    key: bytes
    value: bytes | None = None


class BadEntry(Exception):
    """A record that is none of Connect's; it is told, and passed over."""


def entry(key: str, value: Any = None) -> Entry:
    """An entry; None as its value takes the key back."""
    if value is None:
        return Entry(key.encode())
    return Entry(key.encode(), json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def parsed(found: Entry) -> tuple[str, Any]:
    """Key and value of an entry; BadEntry when they cannot be read."""
    try:
        return found.key.decode(), None if found.value is None else json.loads(found.value)
    except ValueError:
        raise BadEntry(f"the record with the key {found.key[:100]!r} cannot be read") from None


def named(document: Any, field: str, kind: type[Any], key: str) -> Any:
    """A field of a value; BadEntry unless it is there and of this kind."""
    value = document.get(field) if isinstance(document, dict) else None
    if not isinstance(value, kind):
        raise BadEntry(f"the record with the key {key!r} has no {field!r} that is a {kind.__name__}")
    return value


def task_of(text: str, key: str) -> tuple[str, int]:
    """The connector's name and the task's number of ``NAME-NUMBER``."""
    name, dash, number = text.rpartition("-")
    if not dash or not name or not number.isdecimal():
        raise BadEntry(f"the key {key!r} names no task")
    return name, int(number)
