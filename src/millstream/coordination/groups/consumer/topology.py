"""The topics a group reads, as one number that changes when they do."""

from collections.abc import Iterable
from hashlib import blake2b

from millstream.coordination.groups.group import ClusterTopics


def metadata_hash(names: Iterable[str], topics: ClusterTopics) -> int:
    """A signed 64-bit number of the topics that exist: their ids, names, partitions and racks; 0 for none.

    Kafka hashes the same facts by XXH3.  Nobody but the coordinator that reads its own log compares the number, and a
    number it does not know costs a group one plan, so this is not that hash.
    """
    found = [view for name in sorted(names) if (view := topics.by_name(name)) is not None]
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for view in found:
        digest.update(view.topic_id)
        digest.update(f"{len(view.name)}:{view.name}{view.partition_count}".encode())
        for partition in range(view.partition_count):
            for rack in sorted(topics.racks(view, partition)):
                digest.update(f"{partition},{len(rack)}:{rack}".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
