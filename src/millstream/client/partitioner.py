"""Which partition a key belongs to: the same one that Kafka's own producers would choose."""

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's default partitioner, as an unsigned number."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        part = (part ^ part >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ part
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_of(key: bytes, count: int) -> int:
    """The partition, among ``count``, of a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % count
