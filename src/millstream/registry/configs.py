"""Settings of topics and brokers that were changed while running, and how every broker hears of it.

The values lie under /config/<kind>/<name>.  A change also leaves a numbered notice under /config/changes, in the
same transaction, and every broker follows the notices.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from millstream.registry.nodes import (
    BROKERS,
    CONFIG_CHANGE,
    CONFIG_CHANGES,
    OVERRIDE_NAMES,
    OVERRIDES,
    TOPIC,
    TOPICS,
)
from millstream.registry.tree import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Op,
    Registry,
    RegistryError,
    Set,
    Watch,
)

_log = logging.getLogger(__name__)

#: Notices kept for brokers that are slow to follow; one that falls further behind reads everything again.
NOTICES_KEPT = 100


async def read_overrides(registry: Registry, kind: str, name: str) -> dict[str, str]:
    """The values set for ``name`` (a topic, a broker's id, or DEFAULT_ENTITY), empty when none were."""
    (node,) = await registry.get_many([OVERRIDES.path(kind, name)])
    return {} if node is None else dict(OVERRIDES.decode(node.data, kind, name))


async def change_overrides(
    registry: Registry, kind: str, name: str, change: Callable[[dict[str, str]], Mapping[str, str]]
) -> dict[str, str]:
    """Replace the values by what ``change`` makes of them, and tell every broker; the new values.

    ``change`` is asked again when someone else changed them meanwhile; what it raises is passed on.  NoNode when
    there is no such topic: its values come and go with it, and must not be left behind to a later one of its name.
    """
    path = OVERRIDES.path(kind, name)
    guard: list[Op] = [Check(TOPIC.path(name), ANY_VERSION)] if kind == TOPICS else []
    notice = Create(CONFIG_CHANGE.path(""), CONFIG_CHANGE.encode(f"{kind}/{name}"), sequence=True)
    while True:
        (node,) = await registry.get_many([path])
        before = {} if node is None else dict(OVERRIDES.decode(node.data, kind, name))
        after = dict(change(before))
        data = OVERRIDES.encode(after)
        write: Op = Create(path, data) if node is None else Set(path, data, node.version)
        try:
            await registry.multi([*guard, write, notice])
        except (BadVersion, NodeExists):
            continue
        except NoNode as error:
            if error.path != path or node is None:
                raise  # No such topic.  (Or nothing was ever laid out.)
            continue
        await _drop_old_notices(registry)
        return after


async def _drop_old_notices(registry: Registry) -> None:
    notices = await registry.children(CONFIG_CHANGES.path())
    if len(notices) <= 2 * NOTICES_KEPT:
        return
    try:
        await registry.multi([Delete(f"{CONFIG_CHANGES.path()}/{notice}") for notice in notices[:-NOTICES_KEPT]])
    except NoNode:
        return  # Another broker drops them.


class ConfigCache:
    """The overrides of one kind, read once and kept up with."""

    kind: ClassVar[str]

    def __init__(self, registry: Registry, on_change: Callable[[str], None]) -> None:
        """``on_change`` is called with the name whose values have changed."""
        self._registry = registry
        self._on_change = on_change
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._last_notice: str | None = None
        self._watch: Watch | None = None
        self._changed = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Read everything, then follow."""
        self._watch = await self._registry.watch(CONFIG_CHANGES.path(), self._changed.set, children=True)
        await self.refresh()
        self._follower = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Follow no longer; what is known stays readable."""
        if self._watch is not None:
            self._watch.cancel()
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.wait([self._follower])

    def get(self, name: str) -> Mapping[str, str]:
        """The values set for ``name``, as last heard."""
        return self._overrides.get(name, {})

    def everything(self) -> Iterable[Mapping[str, str]]:
        """The values of every name that has some."""
        return self._overrides.values()

    async def load(self, names: Iterable[str]) -> None:
        """Read these again now: a topic's values come into being with it, unannounced.

        A change is called back here too.  Its notice, read later, finds nothing new.
        """
        async with self._reading:
            await self._load(names)

    async def _load(self, names: Iterable[str]) -> None:
        """Take over the values of these; whoever does so first calls back, so that each change is told once."""
        names = list(names)
        nodes = await self._registry.get_many([OVERRIDES.path(self.kind, name) for name in names])
        changed = []
        for name, node in zip(names, nodes, strict=True):
            overrides = OVERRIDES.decode(node.data, self.kind, name) if node is not None else {}
            if overrides == self.get(name):
                continue
            changed.append(name)
            if overrides:
                self._overrides[name] = overrides
            else:
                del self._overrides[name]
        for name in changed:
            self._on_change(name)

    def forget(self, name: str) -> None:
        """Drop what is known of ``name``, which is gone; no call back."""
        self._overrides.pop(name, None)

    async def refresh(self) -> None:
        """Catch up with every change made before the call."""
        async with self._reading:
            notices = await self._registry.children(CONFIG_CHANGES.path())
            if self._last_notice in notices:
                new = notices[notices.index(self._last_notice) + 1 :]
                names = await self._names_in(new)
            elif notices or self._last_notice is not None or self._follower is None:
                names = await self._all_names()  # The first time, or notices were dropped before they were read.
            else:
                names = set()
            await self._load(sorted(names))
            self._last_notice = notices[-1] if notices else None

    async def _names_in(self, notices: Iterable[str]) -> set[str]:
        nodes = await self._registry.get_many([f"{CONFIG_CHANGES.path()}/{notice}" for notice in notices])
        if None in nodes:
            return await self._all_names()  # Dropped since we listed them.
        entities = (CONFIG_CHANGE.decode(node.data, "") for node in nodes if node is not None)
        return {name for kind, _, name in (entity.partition("/") for entity in entities) if kind == self.kind}

    async def _all_names(self) -> set[str]:
        return {*self._overrides, *await self._registry.children(OVERRIDE_NAMES.path(self.kind))}

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()  # First: what changes while we read must wake us again.
            try:
                await self.refresh()
            except RegistryError as error:
                _log.warning("changed settings of %s could not be read: %s", self.kind, error)


class TopicConfigs(ConfigCache):
    """The overrides of every topic, by its name."""

    kind = TOPICS


class BrokerConfigs(ConfigCache):
    """The overrides of every broker, by its id as text, and of all of them under DEFAULT_ENTITY."""

    kind = BROKERS
