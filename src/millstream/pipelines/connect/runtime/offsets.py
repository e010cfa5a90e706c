"""How far sources are, as Connect's topic keeps it: a record for each partition of each of them."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from millstream.pipelines.connect.base import Offset, Partition
from millstream.pipelines.connect.job import Place
from millstream.pipelines.connect.places import key_of, text_of, value_of
from millstream.pipelines.connect.runtime.entries import BadEntry, Entry


class _Kept(NamedTuple):
    """An offset, and the key that it stands under: others may write the same partition in another way."""

    key: bytes
    partition: Partition
    offset: Offset


class Offsets:
    """What the topic says; only ``replay`` changes it."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, _Kept]] = {}

    def replay(self, found: Entry) -> None:
        """Take an entry in; BadEntry where it is none of Connect's."""
        try:
            name, partition = json.loads(found.key)
            offset = None if found.value is None else json.loads(found.value)
        except (TypeError, ValueError):
            raise BadEntry(f"the record with the key {found.key[:100]!r} cannot be read") from None
        if not isinstance(name, str) or not isinstance(partition, dict) or not isinstance(offset, dict | None):
            raise BadEntry(f"the record with the key {found.key[:100]!r} is no connector's offset")
        kept = self._kept.setdefault(name, {})
        if offset is None:
            kept.pop(text_of(partition), None)
        else:
            kept[text_of(partition)] = _Kept(found.key, partition, offset)

    def of(self, name: str) -> list[Place]:
        """How far a connector is."""
        return [{"partition": each.partition, "offset": each.offset} for each in self._kept.get(name, {}).values()]

    def altered(self, name: str, places: Iterable[Place]) -> list[Entry]:
        """The entries that put a connector's partitions elsewhere."""
        kept = self._kept.get(name, {})
        entries = []
        for place in places:
            known = kept.get(text_of(place["partition"]))
            key = known.key if known else key_of(name, place["partition"])
            entries.append(Entry(key, value_of(place["offset"])))
        return entries

    def reset(self, name: str) -> list[Entry]:
        """The entries that take all of a connector's offsets back."""
        return [Entry(each.key) for each in self._kept.get(name, {}).values()]
