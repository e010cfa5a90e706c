"""How far sources are: as Spark's checkpoints keep it, and as Connect's topic of offsets does."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from millstream.pipelines.connect.base import Offset, Partition
from millstream.pipelines.connect.job import Place

#: Offsets by the one text that a partition has (``text_of``).
Document = dict[str, Any]


class Kind(NamedTuple):
    """What a field of a partition or an offset may be."""

    words: str
    holds: Callable[[Any], bool]


def _is_whole(data: Any) -> bool:
    return isinstance(data, int) and not isinstance(data, bool)


TEXT = Kind("a text", lambda data: isinstance(data, str))
WHOLE = Kind("a whole number", _is_whole)
COUNT = Kind("a whole number, 0 or more", lambda data: _is_whole(data) and data >= 0)


def unlike(what: str, data: Mapping[str, Any], fields: Mapping[str, Kind]) -> str:
    """What is expected of a partition or an offset that has not all of these fields; nothing of one that has."""
    if all(name in data and kind.holds(data[name]) for name, kind in fields.items()):
        return ""
    expected = " and ".join(f"'{name}', {kind.words}" for name, kind in fields.items())
    return f"{what} {text_of(data)} must have {expected}"


def text_of(data: Any) -> str:
    """The one way that a partition or an offset is written: what is equal has the same text."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def document_of(places: Iterable[Place]) -> Document:
    """Offsets as a checkpoint keeps them; a place without an offset is before the beginning, as one not named."""
    found = {text_of(place["partition"]): place["offset"] for place in places if place["offset"] is not None}
    return dict(sorted(found.items()))


def places_of(document: Mapping[str, Any]) -> list[Place]:
    """What ``document_of`` wrote."""
    return [{"partition": json.loads(text), "offset": offset} for text, offset in document.items()]


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Place]:
    """The places that are others than before."""
    return places_of({text: offset for text, offset in after.items() if before.get(text) != offset})


def key_of(connector: str, partition: Partition) -> bytes:
    """The key of a partition's offset in the topic of offsets, as Connect writes it."""
    return text_of([connector, partition]).encode()


def value_of(offset: Offset | None) -> bytes | None:
    """An offset in the topic of offsets; None is a partition that was reset."""
    return None if offset is None else text_of(offset).encode()
