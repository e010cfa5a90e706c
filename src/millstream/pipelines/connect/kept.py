"""What is made of schemas, once each."""

from collections.abc import Callable
from typing import Generic, TypeVar

from millstream.pipelines.connect.schema import Schema

T = TypeVar("T")


class PerSchema(Generic[T]):
    """Makes something of a schema and keeps it.

    A schema is known by identity, for to hash one costs more than to convert a record; one that is met for the first
    time is then known by its contents, for a connector may make it anew for each record.
    """

    def __init__(self, make: Callable[[Schema], T], kept_max: int = 100) -> None:
        self._make = make
        self._kept_max = kept_max
        #: The schema is kept beside what was made of it, so that no other takes its identity.
        self._by_identity: dict[int, tuple[Schema, T]] = {}
        self._by_contents: dict[Schema, T] = {}

    def __call__(self, schema: Schema) -> T:
        """What was made of the schema."""
        found = self._by_identity.get(id(schema))
        if found is not None:
            return found[1]
        made = self._of(schema)
        if len(self._by_identity) >= self._kept_max:
            self._by_identity.clear()
        self._by_identity[id(schema)] = (schema, made)
        return made

    def _of(self, schema: Schema) -> T:
        try:
            if schema in self._by_contents:
                return self._by_contents[schema]
        except TypeError:
            # A default that is a list or a dict cannot be hashed.
            return self._make(schema)
        made = self._make(schema)
        if len(self._by_contents) >= self._kept_max:
            self._by_contents.clear()
        self._by_contents[schema] = made
        return made
