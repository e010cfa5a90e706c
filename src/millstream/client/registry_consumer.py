"""The older way to share topics' partitions among readers: by the registry alone.

A member registers under /consumers/GROUP/ids, claims partitions under owners, and keeps its offsets under offsets, as
Kafka's consumers did before brokers coordinated groups.  A record is handed out again rather than lost: what was not
finished when its partition changed hands is read again by the next owner.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable
from contextlib import aclosing, suppress
from random import Random, SystemRandom
from types import TracebackType
from typing import Self

from millstream.client.cluster import RETRY_PAUSE_S, Cluster
from millstream.client.ownership import Ownership
from millstream.client.partitions import EARLIEST, LATEST, READ_UNCOMMITTED, list_offsets
from millstream.client.reader import Read, Reader
from millstream.client.registry_offsets import RegistryOffsets
from millstream.client.wire import Address
from millstream.config.zookeeper import parse_ensemble, parse_registry
from millstream.model.clock import Clock, SystemClock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.registry.consumers import (
    EXCLUDING,
    INCLUDING,
    STATIC,
    ConsumerRegistration,
    topic_filter,
)
from millstream.registry.nodes import BROKER, BROKER_IDS, CLUSTER_ID
from millstream.registry.tree import Registry, RegistryError, RegistryFailure

#: Where a partition without an offset of the group's is read from.
RESETS = {"earliest": EARLIEST, "latest": LATEST}
SESSION_TIMEOUT_MS = 6_000
CONNECT_TIMEOUT_MS = 18_000
#: How long to wait for a leader of a partition that has no offset yet, and before looking again.
LEADERLESS_S = 2.0


class RegistryConsumer:
    """One member of a group; an async context manager, and an iterator of ``Read``.

    Asking for the next ``Read`` says that the one before is finished.
    """

    def __init__(
        self,
        registry: Registry,
        group: str,
        *,
        topics: Collection[str] = (),
        include: str | None = None,
        exclude: str | None = None,
        member_id: str | None = None,
        offset_reset: str = "earliest",
        commit_interval_ms: int = 5_000,
        isolation: int = READ_UNCOMMITTED,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Topics are chosen by ``topics``, or by a pattern that they match (``include``) or do not (``exclude``)."""
        if sum(map(bool, (topics, include, exclude))) != 1:
            raise ValueError("name topics, or a pattern to include, or one to exclude: one of the three")
        if not group or "/" in group:
            raise ValueError(f"group={group!r}: must be a name without slashes")
        if offset_reset not in RESETS:
            raise ValueError(f"offset_reset={offset_reset!r}: must be one of {', '.join(RESETS)}")
        now_ms = (clock or SystemClock()).now_ms()
        pattern = STATIC if topics else INCLUDING if include else EXCLUDING
        chosen = [topics] if isinstance(topics, str) else list(topics) or [include or exclude or ""]
        if pattern != STATIC:
            topic_filter(chosen[0])
        self._registry = registry
        self._group = group
        self.member_id = member_id or f"{group}_{now_ms}-{(random or SystemRandom()).randbytes(4).hex()}"
        self._reset = RESETS[offset_reset]
        self._commit_interval_s = commit_interval_ms / 1000
        self._isolation = isolation
        self._changed = asyncio.Event()
        self._ownership = Ownership(
            registry,
            group,
            self.member_id,
            ConsumerRegistration(dict.fromkeys(chosen, 1), pattern, now_ms),
            on_changed=self._changed.set,
            before_release=self._store_and_forget,
        )
        self._cluster: Cluster | None = None
        self._closes_registry = False
        self._offsets = RegistryOffsets(registry, group)
        #: Each claim and where it goes on; a partition that was lost and claimed again starts anew.
        self._positions: dict[TopicPartition, tuple[object, int]] = {}
        self._committer: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        registry: str,
        group: str,
        *,
        topics: Collection[str] = (),
        include: str | None = None,
        exclude: str | None = None,
        member_id: str | None = None,
        offset_reset: str = "earliest",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> "RegistryConsumer":
        """A member on the ensemble ``zk://host:port,host:port/chroot``, with a session of its own."""
        from millstream.registry.zookeeper.registry import ZooKeeperRegistry

        connect, credentials = parse_registry(registry)
        session = await ZooKeeperRegistry.open(
            parse_ensemble(connect),
            session_timeout_ms=session_timeout_ms,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            credentials=credentials,
        )
        try:
            if await session.exists(CLUSTER_ID.path()) is None:
                raise RegistryFailure(f"{registry}: there is no cluster; its brokers name the same ensemble and root")
            made = cls(
                session,
                group,
                topics=topics,
                include=include,
                exclude=exclude,
                member_id=member_id,
                offset_reset=offset_reset,
            )
        except BaseException:
            await session.close()
            raise
        made._closes_registry = True
        return made

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that are this member's now."""
        return frozenset(self._ownership.owned)

    async def start(self) -> None:
        """Join the group."""
        await self._ownership.start()
        self._committer = asyncio.create_task(self._commit_often())

    async def close(self) -> None:
        """Store the offsets and leave."""
        if self._committer is not None:
            self._committer.cancel()
            await asyncio.wait([self._committer])
        await self._ownership.close()
        if self._cluster is not None:
            self._cluster.close()
        if self._closes_registry:
            await self._registry.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Reading.

    def __aiter__(self) -> AsyncIterator[Read]:
        return self.read()

    async def read(self) -> AsyncGenerator[Read, None]:
        """Records of whatever is this member's, as they come and as it changes."""
        while True:
            self._changed.clear()
            if self._ownership.failure is not None:
                raise self._ownership.failure
            try:
                await self._find_positions()
                if not self._positions:
                    await self._changed.wait()
                    continue
                async with aclosing(self._read_these()) as reads:
                    async for read in reads:
                        yield read
            except ProtocolError as error:
                if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    await self._return_to_range()
                # Else a topic is gone or not there yet, which the registry will tell, or has.
                await self._pause()
            except (OSError, RegistryError):
                await self._pause()

    async def _read_these(self) -> AsyncGenerator[Read, None]:
        """Records of the partitions owned now; ends when those change."""
        starts = {tp: position for tp, (_, position) in self._positions.items()}
        async with aclosing(Reader(await self._brokers(), starts, isolation=self._isolation).read()) as reads:
            while (read := await self._unless_changed(reads)) is not None:
                tp = read.partition
                claim = self._ownership.owned.get(tp)
                if claim is None or claim is not self._positions[tp][0]:
                    return
                yield read
                if tp in self._positions and self._positions[tp][0] is claim:
                    self._positions[tp] = claim, read.records[-1].offset + 1

    async def _unless_changed(self, reads: AsyncGenerator[Read, None]) -> Read | None:
        """The next, or None when what is owned changes first."""
        if self._changed.is_set():
            return None
        following = asyncio.ensure_future(anext(reads))
        changing = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([following, changing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changing.cancel()
            if not following.done():
                following.cancel()
                await asyncio.wait([following])
        return None if following.cancelled() else following.result()

    async def _find_positions(self) -> None:
        """Where to go on in each partition that was just claimed: where the group left off, or at its end or start."""
        owned = dict(self._ownership.owned)
        for tp in [tp for tp, (claim, _) in self._positions.items() if owned.get(tp) is not claim]:
            self._positions.pop(tp)
        new = [tp for tp in owned if tp not in self._positions]
        if not new:
            return
        found = await self._offsets.read(new)
        found |= await self._ends([tp for tp in new if tp not in found])
        self._positions |= {tp: (owned[tp], offset) for tp, offset in found.items()}

    async def _ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions begin or end, as the reset says; those that nobody leads now are asked again later."""
        if not partitions:
            return {}
        cluster, found = await self._brokers(), {}

        async def ask(topic: str) -> None:
            asked = {tp: self._reset for tp in partitions if tp.topic == topic}
            with suppress(TimeoutError, ProtocolError, OSError):
                async with asyncio.timeout(LEADERLESS_S):
                    found.update({tp: row.offset for tp, row in (await list_offsets(cluster, asked)).items()})

        await asyncio.gather(*map(ask, {tp.topic for tp in partitions}))
        if len(found) < len(partitions):
            asyncio.get_running_loop().call_later(LEADERLESS_S, self._changed.set)
        return found

    async def _return_to_range(self) -> None:
        """Start anew, as the reset says, where a position is no longer in its log."""
        cluster = await self._brokers()
        first = await list_offsets(cluster, dict.fromkeys(self._positions, EARLIEST))
        last = await list_offsets(cluster, dict.fromkeys(first, LATEST))
        ends = {EARLIEST: first, LATEST: last}[self._reset]
        for tp, (claim, position) in list(self._positions.items()):
            if tp in ends and not first[tp].offset <= position <= last[tp].offset:
                self._positions[tp] = claim, ends[tp].offset

    async def _brokers(self) -> Cluster:
        """The cluster, by whichever brokers are registered; Unreachable while there are none."""
        if self._cluster is not None:
            with suppress(OSError):
                await self._cluster.any_broker()
                return self._cluster
            self._cluster.close()
        names = await self._registry.children(BROKER_IDS.path())
        nodes = await self._registry.get_many([BROKER.path(name) for name in names])
        endpoints = [
            BROKER.decode(node.data, name).endpoint(None)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        ]
        self._cluster = Cluster([Address(endpoint.host, endpoint.port) for endpoint in endpoints])
        await self._cluster.any_broker()
        return self._cluster

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), RETRY_PAUSE_S)

    # Offsets.

    async def commit(self) -> None:
        """Store how far the group has come in the partitions that are this member's."""
        await self._store(list(self._positions))

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(self._commit_interval_s)
            with suppress(RegistryError):  # It is tried again, and if the session is over there is nothing to store.
                await self.commit()

    async def _store_and_forget(self, partitions: Iterable[TopicPartition]) -> None:
        """What is given up goes on, elsewhere, from where it was finished here."""
        given_up = list(partitions)
        await self._store(given_up)
        for tp in given_up:
            self._positions.pop(tp, None)

    async def _store(self, partitions: Iterable[TopicPartition]) -> None:
        """Write the offsets of claims that hold."""
        held = {tp: self._positions[tp] for tp in partitions if tp in self._positions}
        owned, session_id = self._ownership.owned, self._ownership.session_id
        offsets = {tp: position for tp, (claim, position) in held.items() if owned.get(tp) is claim}
        await self._offsets.write(offsets, session_id)
