"""What a flow's checkpoint calls a topic: by name and id, so that one that was made again is another. Pure.

Clusters that give topics no ids have only names.
"""

from millstream.client.cluster import Topic
from millstream.model.ids import ZERO_UUID

#: Between a topic's name and its id; no name has it.
_MARK = ":"


def full_name(topic: Topic) -> str:
    """``orders:0123…``, or ``orders`` where there are no ids."""
    return topic.name if topic.id == ZERO_UUID else f"{topic.name}{_MARK}{topic.id.hex()}"


def name_of(full: str) -> str:
    """The name that its cluster knows it by."""
    return full.partition(_MARK)[0]


def id_text(full: str) -> str:
    """Its id; empty where there is none."""
    return full.partition(_MARK)[2]


def has_id(full: str) -> bool:
    """Whether it can be told from another of its name."""
    return bool(id_text(full))


def is_same(one: str, other: str) -> bool:
    """Whether two full names are one topic's, as far as that can be known: where an id is missing, by the name."""
    return one == other or (name_of(one) == name_of(other) and not (has_id(one) and has_id(other)))
