import random

import pytest

from millstream.registry.membership import cluster_id, lay_out, register_broker
from millstream.registry.nodes import BROKER, LASTING_PATHS, BrokerRegistration, Endpoint
from millstream.registry.producer_ids import BLOCK_LENGTH, allocate_block
from millstream.registry.tree import RegistryFailure
from tests.unit.registry.backends import Tree, on_every_backend

HERE = BrokerRegistration((Endpoint("PLAINTEXT", "localhost", 9092),))


@on_every_backend
async def test_laying_out_twice_is_laying_out_once(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    stats = [await session.exists(path) for path in LASTING_PATHS]
    await lay_out(session)
    assert None not in stats
    assert stats == [await session.exists(path) for path in LASTING_PATHS]


@on_every_backend
async def test_the_cluster_has_one_id_whoever_asks(tree: Tree) -> None:
    one, two = await tree.session(), await tree.session()
    await lay_out(one)
    made = await cluster_id(one, random.Random(1))
    assert len(made) == 22
    assert made == await cluster_id(two, random.Random(2))


@on_every_backend
async def test_a_broker_gets_a_higher_epoch_with_every_registration(tree: Tree) -> None:
    one, two = await tree.session(), await tree.session()
    await lay_out(one)
    first = await register_broker(one, 7, HERE)
    assert await register_broker(one, 7, HERE) == first  # Again in the same session: already done.
    with pytest.raises(RegistryFailure, match="broker id 7 is taken"):
        await register_broker(two, 7, HERE)
    await one.close()
    assert await register_broker(two, 7, HERE) > first
    assert BROKER.decode((await two.get("/brokers/ids/7")).data) == HERE


@on_every_backend
async def test_no_producer_id_is_given_twice(tree: Tree) -> None:
    one, two = await tree.session(), await tree.session()
    blocks = [await allocate_block(session, broker_id) for broker_id, session in enumerate((one, two, one))]
    assert [block.first for block in blocks] == [0, BLOCK_LENGTH, 2 * BLOCK_LENGTH]
    assert [block.last for block in blocks] == [999, 1999, 2999]
    assert [block.broker_id for block in blocks] == [0, 1, 2]
