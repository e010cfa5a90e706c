"""Which replica a consumer should read from: one in its own rack, if any has what it asks for (KIP-392)."""

from collections.abc import Mapping

from millstream.replication.leading import Leading


def nearest_replica(leading: Leading, racks: Mapping[int, str | None], rack: str, offset: int) -> int | None:
    """The broker to go to, None for the leader itself.

    Only followers in sync are asked for, and only for what they have; of several the one that has come furthest.
    """
    if racks.get(leading.broker_id) == rack:
        return None
    near = [
        (leading.followers[replica].end, -replica)
        for replica in leading.isr
        if racks.get(replica) == rack and replica in leading.followers and leading.followers[replica].end >= offset
    ]
    return -max(near)[1] if near else None
