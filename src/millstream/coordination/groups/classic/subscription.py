"""What a consumer's metadata says, as far as the coordinator reads it: the topics."""

import struct

_VERSION_AND_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a ConsumerProtocol subscription, or None when it cannot be read.

    Every version begins with what version 0 has, so that later ones are read alike.
    """
    topics = []
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata)
        if version < 0 or count < 0:
            return None
        at = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if length < 0 or at + length > len(metadata):
                return None
            topics.append(str(metadata[at : at + length], "utf-8"))
            at += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
