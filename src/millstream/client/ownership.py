"""Which partitions are a registry consumer's own: members share them out by the registry alone, without a coordinator.

Every member knows the same members, topics and partitions, and finds the same shares.  It gives up what is no longer in
its share, and claims what is by a node that goes with its session; a claim that another still holds is waited for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from millstream.client.assignors import assign_ranges
from millstream.model.ids import TopicPartition
from millstream.registry.consumers import CONSUMER, CONSUMER_IDS, OWNER, OWNERS, ConsumerRegistration
from millstream.registry.nodes import BROKER_IDS, TOPIC, TOPIC_NAMES
from millstream.registry.tree import (
    Delete,
    NodeExists,
    NoNode,
    Registry,
    RegistryError,
    RegistryFailure,
    Watch,
    ensure,
)

_log = logging.getLogger(__name__)

#: How long to wait after something went wrong that nothing else will tell of.
RETRY_S = 0.2


def share_of(
    member_id: str, members: Mapping[str, ConsumerRegistration], counts: Mapping[str, int]
) -> dict[TopicPartition, str]:
    """What is ``member_id``'s of topics with so many partitions, in ranges, and which stream of it reads each."""
    own: dict[TopicPartition, str] = {}
    for topic, count in counts.items():
        readers = [
            f"{name}-{number}"
            for name, member in members.items()
            if topic in member.topics((topic,))
            for number in range(member.streams(topic))
        ]
        shares = assign_ranges(dict.fromkeys(readers, (topic,)), {topic: count})
        for number in range(members[member_id].streams(topic)):
            own |= dict.fromkeys(shares.get(f"{member_id}-{number}", ()), f"{member_id}-{number}")
    return own


class Ownership:
    """A member's claims, kept in step with its group until it is closed.

    ``owned`` has an object of its own for each claim: one that was lost and made again has another.
    """

    def __init__(
        self,
        registry: Registry,
        group: str,
        member_id: str,
        registration: ConsumerRegistration,
        *,
        on_changed: Callable[[], None],
        before_release: Callable[[Iterable[TopicPartition]], Awaitable[None]],
    ) -> None:
        """``before_release`` is awaited while the claims still hold; claims lost with a session are simply gone."""
        self.owned: dict[TopicPartition, object] = {}
        #: Why it went no further, if so.
        self.failure: RegistryFailure | None = None
        self._registry = registry
        self._group = group
        self._member_id = member_id
        self._registration = registration
        self._on_changed = on_changed
        self._before_release = before_release
        self.session_id = 0  #: the one that the claims hold for
        self._is_due = asyncio.Event()
        self._watches: list[Watch] = []
        self._topic_watches: dict[str, Watch] = {}
        self._awaited: dict[TopicPartition, Watch] = {}
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join the group; claims are made from now on."""
        registry, ids = self._registry, CONSUMER_IDS.path(self._group)
        await ensure(registry, ids)
        for path in (ids, BROKER_IDS.path(), TOPIC_NAMES.path()):
            self._watches.append(await registry.watch(path, self._is_due.set, children=True))
        registry.on_session_expired(self._session_expired)
        self._is_due.set()
        self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Leave the group: give everything up."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        for watch in (*self._watches, *self._topic_watches.values(), *self._awaited.values()):
            watch.cancel()
        try:
            await self._release(list(self.owned))
            await self._registry.delete(CONSUMER.path(self._group, self._member_id))
        except RegistryError as error:
            _log.warning("%s leaves group %s with its session: %s", self._member_id, self._group, error)

    def _session_expired(self) -> None:
        """The claims are gone, and others may have made them already."""
        self.owned.clear()
        self._is_due.set()
        self._on_changed()

    async def _keep(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._rebalance()
            except RegistryFailure as failure:
                self.failure = failure
                self._on_changed()
                return
            except RegistryError as error:  # The session ended, or somebody tidies the tree: look again.
                _log.info("%s could not take its share of group %s yet: %s", self._member_id, self._group, error)
                await asyncio.sleep(RETRY_S)
                self._is_due.set()

    async def _rebalance(self) -> None:
        """Give up and claim, once, what has changed hands."""
        await self._register()
        share = await self._share()
        surplus = [tp for tp in self.owned if tp not in share]
        if surplus:
            await self._release(surplus)
            self._on_changed()
        for tp in [tp for tp in self._awaited if tp not in share]:
            self._awaited.pop(tp).cancel()
        wanted = [tp for tp in share if tp not in self.owned]
        for topic in {tp.topic for tp in wanted}:
            await ensure(self._registry, OWNERS.path(self._group, topic))
        if any(await asyncio.gather(*(self._claim(tp, share[tp]) for tp in wanted))):
            self._on_changed()

    async def _register(self) -> None:
        session_id = self._registry.session_id
        if self.session_id == session_id:
            return
        path = CONSUMER.path(self._group, self._member_id)
        try:
            await self._registry.create(path, CONSUMER.encode(self._registration), ephemeral=True)
        except NodeExists:
            stat = await self._registry.exists(path)
            if stat is not None and stat.ephemeral_owner != session_id:
                raise RegistryFailure(path, "another member has this id; give this one another") from None
        self.session_id = session_id

    async def _share(self) -> dict[TopicPartition, str]:
        registry, group = self._registry, self._group
        names = await registry.children(CONSUMER_IDS.path(group))
        nodes = await registry.get_many([CONSUMER.path(group, name) for name in names])
        members = {
            name: CONSUMER.decode(node.data, group, name)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }
        if self._member_id not in members:
            raise NoNode(CONSUMER.path(group, self._member_id))
        topics = sorted(self._registration.topics(await registry.children(TOPIC_NAMES.path())))
        await self._watch_topics(topics)
        found = await registry.get_many(map(TOPIC.path, topics))
        counts = {
            topic: len(TOPIC.decode(node.data, topic).partitions)
            for topic, node in zip(topics, found, strict=True)
            if node is not None
        }
        return share_of(self._member_id, members, counts)

    async def _watch_topics(self, topics: list[str]) -> None:
        """Hear when a topic gets more partitions."""
        for topic in self._topic_watches.keys() - set(topics):
            self._topic_watches.pop(topic).cancel()
        for topic in topics:
            if topic not in self._topic_watches:
                self._topic_watches[topic] = await self._registry.watch(TOPIC.path(topic), self._is_due.set)

    async def _claim(self, tp: TopicPartition, stream: str) -> bool:
        """Make a claim, or have it tried again when whoever has it gives it up; whether it was made."""
        path, session_id = OWNER.path(self._group, *tp), self._registry.session_id
        try:
            await self._registry.create(path, OWNER.encode(stream), ephemeral=True)
        except NodeExists:
            if tp not in self._awaited:
                self._awaited[tp] = await self._registry.watch(path, self._is_due.set)
            stat = await self._registry.exists(path)
            if stat is None:
                self._is_due.set()  # It went before it was watched.
            if stat is None or stat.ephemeral_owner != session_id:
                return False
        if tp in self._awaited:
            self._awaited.pop(tp).cancel()
        if session_id != self._registry.session_id:
            return False
        self.owned[tp] = object()
        return True

    async def _release(self, partitions: list[TopicPartition]) -> None:
        await self._before_release(partitions)
        held = {tp: self.owned.pop(tp) for tp in partitions if tp in self.owned}
        await asyncio.gather(*map(self._delete, held))

    async def _delete(self, tp: TopicPartition) -> None:
        try:
            await self._registry.multi([Delete(OWNER.path(self._group, *tp))])
        except NoNode:
            return
