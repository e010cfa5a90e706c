"""A record of an internal topic, as the machines know it."""

from typing import Any, NamedTuple


class CoordinatorRecord(NamedTuple):
    """A key struct, and a value struct or None for a tombstone."""

    key: Any
    value: Any | None
