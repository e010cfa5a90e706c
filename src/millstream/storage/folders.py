"""What a folder in a log directory says of itself: whose partition it is, and of which topic of that name."""

import logging

from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid, topic_name_fault
from millstream.storage.files import Files
from millstream.storage.meta import PARTITION_METADATA, DamagedMeta, decode_partition_metadata

_log = logging.getLogger(__name__)


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose folder has this name; None for anything else, a folder being moved or removed included."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not partition.isascii() or not partition.isdigit() or topic_name_fault(topic) is not None:
        return None
    return TopicPartition(topic, int(partition))


def topic_id_in(files: Files, folder: str) -> Uuid:
    """The topic's id as the folder has it; zero where it has none."""
    try:
        return decode_partition_metadata(files.read(f"{folder}/{PARTITION_METADATA}"))
    except FileNotFoundError:
        return ZERO_UUID
    except DamagedMeta as damage:
        _log.warning("%s/%s is damaged and is made anew: %s", folder, PARTITION_METADATA, damage)
        return ZERO_UUID
