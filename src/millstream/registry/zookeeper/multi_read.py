"""ZooKeeper's multiRead (since its version 3.6): many nodes in one request, which kazoo does not know."""

import struct
from collections.abc import Sequence

from kazoo.exceptions import EXCEPTIONS

from millstream.registry.tree import Node

_GET_DATA, _ERROR, _END = 4, -1, -1
_HEADER = struct.Struct(">i?i")  # kind, whether it is the end, error
_INT = struct.Struct(">i")
_STAT = struct.Struct(">qqqqiiiqiiq")


class MultiRead:
    """A request as kazoo takes it: for each path a node, or the exception that says why there is none."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        parts: list[bytes] = []
        header = _HEADER.pack(_GET_DATA, False, -1)
        for path in self._paths:
            encoded = path.encode()
            parts += (header, _INT.pack(len(encoded)), encoded, b"\0")  # The last: without a watch.
        parts.append(_HEADER.pack(_END, True, -1))
        return b"".join(parts)

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[Node | Exception]:
        found: list[Node | Exception] = []
        while True:
            kind, is_end, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if is_end:
                return found
            (number,) = _INT.unpack_from(buffer, offset)
            offset += _INT.size
            if kind == _ERROR:
                found.append(EXCEPTIONS[number]())
                continue
            end = offset + max(number, 0)  # The length of its data, -1 where it never had any.
            czxid, mzxid, _, _, version, cversion, _, owner, _, _, _ = _STAT.unpack_from(buffer, end)
            found.append(Node(bytes(buffer[offset:end]), version, cversion, czxid, mzxid, owner))
            offset = end + _STAT.size
