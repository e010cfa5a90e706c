"""How far a group of registry consumers has come, kept in the registry."""

from collections.abc import Collection, Mapping

from millstream.model.ids import TopicPartition
from millstream.registry.consumers import OFFSET, OFFSETS
from millstream.registry.tree import Create, NodeExists, NoNode, Op, Registry, SessionExpired, Set, ensure

WRITES_PER_MULTI = 500


class RegistryOffsets:
    """The offsets of one group, as one of its members reads and writes those of its own partitions."""

    def __init__(self, registry: Registry, group: str) -> None:
        self._registry = registry
        self._group = group
        #: What is there, as far as it was read or written here.
        self._stored: dict[TopicPartition, int] = {}

    async def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offsets of those that have one."""
        nodes = await self._registry.get_many([self._path(tp) for tp in partitions])
        for tp, node in zip(partitions, nodes, strict=True):
            if node is None:
                self._stored.pop(tp, None)
            else:
                self._stored[tp] = OFFSET.decode(node.data, self._group, *tp)
        return {tp: self._stored[tp] for tp in partitions if tp in self._stored}

    async def write(self, offsets: Mapping[TopicPartition, int], session_id: int) -> None:
        """Store these, where they are not what is there, for partitions claimed in that session.

        SessionExpired once it is over: another owner may have written since.
        """
        due = [tp for tp, offset in offsets.items() if self._stored.get(tp) != offset]
        for first in range(0, len(due), WRITES_PER_MULTI):
            page = {tp: offsets[tp] for tp in due[first : first + WRITES_PER_MULTI]}
            while not await self._write_page(page, session_id):
                await self.read(list(page))

    async def _write_page(self, page: Mapping[TopicPartition, int], session_id: int) -> bool:
        """Whether the nodes were there, or not there, as was thought."""
        for topic in {tp.topic for tp in page if tp not in self._stored}:
            await ensure(self._registry, OFFSETS.path(self._group, topic))
        ops: list[Op] = [
            (Set if tp in self._stored else Create)(self._path(tp), OFFSET.encode(offset))
            for tp, offset in page.items()
        ]
        if self._registry.session_id != session_id:
            raise SessionExpired(ops[0].path, "its partition is no longer ours")
        try:
            await self._registry.multi(ops)
        except (NodeExists, NoNode):
            return False
        self._stored |= page
        return True

    def _path(self, tp: TopicPartition) -> str:
        return OFFSET.path(self._group, tp.topic, tp.partition)
