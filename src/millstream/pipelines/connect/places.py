"""How far sources are: as Spark's checkpoints keep it, and as Connect's topic of offsets does."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from millstream.pipelines.connect.base import Offset, Partition
from millstream.pipelines.connect.job import Place

#: Offsets by the one text that a partition has (``text_of``).
Document = dict[str, Any]


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
