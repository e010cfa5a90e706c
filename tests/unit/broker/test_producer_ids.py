"""Producer ids out of the registry's blocks: no id twice, and some at hand for whoever cannot wait."""

import asyncio
from typing import cast

import pytest

from millstream.broker.producer_ids import SPARE, ProducerIds
from millstream.model.errors import ProtocolError
from millstream.registry.embedded import EmbeddedTree
from millstream.registry.membership import lay_out
from millstream.registry.producer_ids import BLOCK_LENGTH
from millstream.registry.tree import Registry
from tests.simulation.failing_registry import FailingRegistry
from tests.simulation.loop import run


async def new_registry() -> FailingRegistry:
    tree = EmbeddedTree(call_soon=asyncio.get_running_loop().call_soon)
    registry = tree.session()
    await lay_out(registry)
    return FailingRegistry(registry)


def ids_of(registry: FailingRegistry, broker_id: int = 0) -> ProducerIds:
    return ProducerIds(cast(Registry, registry), broker_id)


def test_no_id_comes_twice_whoever_asks() -> None:
    async def scenario() -> None:
        registry = await new_registry()
        brokers = [ids_of(registry, broker_id) for broker_id in range(2)]
        given = [await brokers[number % 2].next() for number in range(3 * BLOCK_LENGTH)]
        assert len(set(given)) == len(given)

    run(scenario())


def test_those_who_ask_at_once_have_one_block_fetched() -> None:
    async def scenario() -> None:
        ids = ids_of(await new_registry())
        given = await asyncio.gather(*(ids.next() for _ in range(10)))
        assert sorted(given) == list(range(10))

    run(scenario())


def test_after_stocking_some_are_at_hand() -> None:
    async def scenario() -> None:
        ids = ids_of(await new_registry())
        with pytest.raises(ProtocolError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            ids.take()
        await ids.stock()
        for _ in range(BLOCK_LENGTH - SPARE):
            ids.take()
        await ids.stock()
        assert [ids.take() for _ in range(SPARE + 1)][-1] == BLOCK_LENGTH, "the next block follows the last of this"

    run(scenario())


def test_a_registry_that_fails_is_no_matter_while_some_are_at_hand() -> None:
    async def scenario() -> None:
        registry = await new_registry()
        ids = ids_of(registry)
        await ids.stock()
        registry.is_failing = True
        assert [await ids.next() for _ in range(BLOCK_LENGTH)] == list(range(BLOCK_LENGTH))
        with pytest.raises(ProtocolError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await ids.next()
        registry.is_failing = False
        assert await ids.next() == BLOCK_LENGTH

    run(scenario())
