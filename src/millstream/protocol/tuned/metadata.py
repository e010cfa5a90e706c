"""Metadata: an answer with many partitions, each written by one call."""

from collections.abc import Callable
from struct import Struct

from millstream.protocol.compiler import Encoder
from millstream.protocol.messages.metadata import MetadataResponse
from millstream.protocol.wire import encode_compact_string, encode_uvarint

#: The longest list of replicas whose length plus one is still one byte.
_REPLICAS_MAX = 126


def metadata_response_encoder(version: int, compiled: Encoder) -> Encoder:
    """Topics by hand, the few fields around them by the compiled codec."""
    flexible = version >= 9
    count_code, bias, end_code = ("B", 1, "x") if flexible else ("i", 0, "")
    # After the topics: the cluster's operations up to v10, an error from v13 on, and tags.
    tail_size = 4 * (8 <= version <= 10) + 2 * (version >= 13) + flexible
    empty_size = 1 if flexible else 4
    packers: dict[tuple[int, int, int], Callable[..., bytes]] = {}

    def packer(shape: tuple[int, int, int]) -> Callable[..., bytes]:
        lists = "".join(f"{count_code}{length}i" for length in shape)
        packers[shape] = Struct(f">hiii{lists}{end_code}").pack
        return packers[shape]

    start = Struct(">h").pack
    middle = Struct(">16s?" if version >= 10 else ">?").pack
    end = Struct(f">i{end_code}" if version >= 8 else ">").pack

    def encode(m: MetadataResponse) -> bytes:
        topics = m.topics
        around: bytes = compiled(_without_topics(m))
        cut = len(around) - tail_size
        out = [around[: cut - empty_size], _count(len(topics), flexible)]
        add = out.append
        for topic in topics:
            is_internal = topic.is_internal
            add(start(topic.error_code))
            add(_name(topic.name, version))
            add(middle(topic.topic_id, is_internal) if version >= 10 else middle(is_internal))
            add(_count(len(topic.partitions), flexible))
            for p in topic.partitions:
                replicas, isr, offline = p.replica_nodes, p.isr_nodes, p.offline_replicas
                shape = (len(replicas), len(isr), len(offline))
                try:
                    pack = packers[shape]
                except KeyError:
                    if max(shape) > _REPLICAS_MAX:
                        return compiled(m)  # type: ignore[no-any-return]
                    pack = packer(shape)
                add(
                    pack(
                        p.error_code,
                        p.partition_index,
                        p.leader_id,
                        p.leader_epoch,
                        shape[0] + bias,
                        *replicas,
                        shape[1] + bias,
                        *isr,
                        shape[2] + bias,
                        *offline,
                    )
                )
            add(end(topic.topic_authorized_operations) if version >= 8 else b"")
        add(around[cut:])
        return b"".join(out)

    return encode


def _without_topics(m: MetadataResponse) -> MetadataResponse:
    return MetadataResponse(
        throttle_time_ms=m.throttle_time_ms,
        brokers=m.brokers,
        cluster_id=m.cluster_id,
        controller_id=m.controller_id,
        cluster_authorized_operations=m.cluster_authorized_operations,
        error_code=m.error_code,
    )


def _count(length: int, flexible: bool) -> bytes:
    return encode_uvarint(length + 1) if flexible else length.to_bytes(4, "big")


def _name(name: str | None, version: int) -> bytes:
    """A topic's name; null from v12 on, for a topic asked about by an id nobody knows."""
    assert name is not None or version >= 12
    if version >= 9:
        return encode_compact_string(name)
    raw = (name or "").encode()
    return len(raw).to_bytes(2, "big") + raw
