"""A broker is sure that it leads for as long as registry and controller have said so."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millstream.broker.standing import ASKED, LEASE, Standing
from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.membership import lay_out
from millstream.registry.nodes import BROKER
from millstream.registry.tree import Registry, Stat
from tests.simulation.loop import SimClock, run

SESSION_S = 6.0
LEASE_S = SESSION_S * LEASE


class SilentRegistry:
    """Answers no question while it ``is_silent``; those asked then are never answered."""

    def __init__(self, registry: EmbeddedRegistry) -> None:
        self._registry = registry
        self.is_silent = False

    async def exists(self, path: str) -> Stat | None:
        if self.is_silent:
            await asyncio.sleep(10 * SESSION_S)
        return await self._registry.exists(path)


class Ground:
    """A broker's standing, and what it hangs on."""

    async def start(self, session_s: float | None = SESSION_S) -> None:
        loop = asyncio.get_running_loop()
        self.session = EmbeddedTree(call_soon=loop.call_soon).session()
        await lay_out(self.session)
        self.registry = SilentRegistry(self.session)
        self.replicas = SimpleNamespace(broker_epoch=-1, told_epoch=-1)
        self.standing = Standing(cast(Registry, self.registry), 1, cast(Any, self.replicas), SimClock(loop), session_s)
        await self.register()
        self.standing.start()

    async def register(self) -> None:
        created = await self.session.create(BROKER.path(1), b"{}", ephemeral=True)
        self.replicas.broker_epoch = created.stat.czxid

    async def asked_again(self) -> None:
        await asyncio.sleep(LEASE_S / ASKED + 0.01)


def test_a_broker_is_sure_once_registry_and_controller_have_spoken() -> None:
    async def scenario() -> None:
        ground = Ground()
        await ground.start()
        await ground.asked_again()
        assert not ground.standing.is_sure(), "the controller has said nothing"
        ground.replicas.told_epoch = ground.replicas.broker_epoch
        assert ground.standing.is_sure()
        await asyncio.sleep(10 * SESSION_S)
        assert ground.standing.is_sure()
        await ground.standing.close()

    run(scenario())


def test_a_broker_that_hears_nothing_is_unsure_before_its_session_is_over() -> None:
    async def scenario() -> None:
        ground = Ground()
        await ground.start()
        ground.replicas.told_epoch = ground.replicas.broker_epoch
        await ground.asked_again()
        ground.registry.is_silent = True
        await asyncio.sleep(LEASE_S / 2)
        assert ground.standing.is_sure()
        await asyncio.sleep(LEASE_S / 2)
        assert not ground.standing.is_sure()
        await ground.standing.close()

    run(scenario())


def test_a_broker_that_registered_anew_is_unsure_until_it_is_told_what_it_leads_now() -> None:
    async def scenario() -> None:
        ground = Ground()
        await ground.start()
        ground.replicas.told_epoch = ground.replicas.broker_epoch
        await ground.asked_again()
        ground.session.expire()
        await ground.register()
        await ground.asked_again()
        assert not ground.standing.is_sure()
        ground.replicas.told_epoch = ground.replicas.broker_epoch
        assert ground.standing.is_sure()
        await ground.standing.close()

    run(scenario())


def test_a_node_of_an_earlier_registration_counts_for_nothing() -> None:
    async def scenario() -> None:
        ground = Ground()
        await ground.start()
        ground.replicas.broker_epoch += 1
        ground.replicas.told_epoch = ground.replicas.broker_epoch
        await ground.asked_again()
        assert not ground.standing.is_sure()
        await ground.standing.close()

    run(scenario())


def test_where_sessions_do_not_end_by_silence_the_controllers_word_is_enough() -> None:
    async def scenario() -> None:
        ground = Ground()
        await ground.start(session_s=None)
        ground.replicas.told_epoch = ground.replicas.broker_epoch
        ground.registry.is_silent = True
        await asyncio.sleep(10 * SESSION_S)
        assert ground.standing.is_sure()
        await ground.standing.close()

    run(scenario())
