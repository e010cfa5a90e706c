import asyncio

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.registry import configs
from millstream.registry.configs import BrokerConfigs, TopicConfigs, change_overrides, read_overrides
from millstream.registry.membership import lay_out
from millstream.registry.nodes import BROKERS, DEFAULT_ENTITY, OVERRIDES, TOPIC, TOPICS
from millstream.registry.tree import Delete, NoNode, Registry, ensure
from tests.unit.registry.backends import Tree, on_every_backend


async def put(registry: Registry, kind: str, name: str, **values: str) -> None:
    if kind == TOPICS:
        await ensure(registry, TOPIC.path(name))
    await change_overrides(registry, kind, name, lambda before: {**before, **values})


@on_every_backend
async def test_overrides_are_merged_and_read_back(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    assert await read_overrides(session, TOPICS, "orders") == {}
    await put(session, TOPICS, "orders", a="1")
    await put(session, TOPICS, "orders", b="2")
    assert await read_overrides(session, TOPICS, "orders") == {"a": "1", "b": "2"}


@on_every_backend
async def test_a_change_that_is_refused_writes_nothing(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    await session.create(TOPIC.path("orders"))

    def refuse(before: dict[str, str]) -> dict[str, str]:
        raise ProtocolError(ErrorCode.INVALID_CONFIG)

    with pytest.raises(ProtocolError):
        await change_overrides(session, TOPICS, "orders", refuse)
    assert await session.children("/config/topics") == []
    assert await session.children("/config/changes") == []


@on_every_backend
async def test_values_of_a_topic_that_is_gone_are_not_written(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    with pytest.raises(NoNode):
        await change_overrides(session, TOPICS, "orders", lambda before: {"a": "1"})
    await put(session, TOPICS, "orders", a="1")
    await session.multi([Delete(TOPIC.path("orders")), Delete("/config/topics/orders")])
    with pytest.raises(NoNode):
        await change_overrides(session, TOPICS, "orders", lambda before: {"a": "2"})
    assert await session.children("/config/topics") == []


@on_every_backend
async def test_changes_made_at_once_are_all_kept(tree: Tree) -> None:
    sessions = [await tree.session() for _ in range(5)]
    await lay_out(sessions[0])
    await ensure(sessions[0], TOPIC.path("orders"))
    await asyncio.gather(*(put(session, TOPICS, "orders", **{f"k{n}": "v"}) for n, session in enumerate(sessions)))
    assert await read_overrides(sessions[0], TOPICS, "orders") == {f"k{n}": "v" for n in range(5)}


@on_every_backend
async def test_a_cache_hears_of_changes_made_by_other_brokers(tree: Tree) -> None:
    here, there = await tree.session(), await tree.session()
    await lay_out(here)
    await put(there, TOPICS, "old", a="1")
    heard: asyncio.Queue[str] = asyncio.Queue()
    topics = TopicConfigs(here, heard.put_nowait)
    brokers = BrokerConfigs(here, heard.put_nowait)
    await topics.start()
    await brokers.start()
    assert topics.get("old") == {"a": "1"}
    assert [heard.get_nowait() for _ in range(heard.qsize())] == ["old"]

    await put(there, TOPICS, "orders", b="2")
    assert await asyncio.wait_for(heard.get(), 10) == "orders"
    assert topics.get("orders") == {"b": "2"}

    await put(there, BROKERS, DEFAULT_ENTITY, c="3")
    assert await asyncio.wait_for(heard.get(), 10) == DEFAULT_ENTITY
    assert brokers.get(DEFAULT_ENTITY) == {"c": "3"}

    await change_overrides(there, TOPICS, "orders", lambda before: {})
    assert await asyncio.wait_for(heard.get(), 10) == "orders"
    assert topics.get("orders") == {}
    assert heard.empty()
    await topics.close()
    await brokers.close()


@on_every_backend
async def test_refreshing_catches_up_at_once(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    topics = TopicConfigs(session, lambda name: None)
    await topics.start()
    await put(session, TOPICS, "orders", a="1")
    await topics.refresh()
    assert topics.get("orders") == {"a": "1"}
    await topics.close()


@on_every_backend
async def test_a_new_topics_values_are_read_when_asked(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    topics = TopicConfigs(session, lambda name: None)
    await topics.start()
    await session.create("/config/topics/new", OVERRIDES.encode({"a": "1"}))
    assert topics.get("new") == {}
    await topics.load(["new", "without"])
    assert topics.get("new") == {"a": "1"}
    await session.delete("/config/topics/new")
    await topics.load(["new"])
    assert topics.get("new") == {}
    await topics.close()


@on_every_backend
async def test_a_change_that_is_read_before_its_notice_is_called_back_all_the_same(tree: Tree) -> None:
    session = await tree.session()
    await lay_out(session)
    await put(session, TOPICS, "orders", a="1")
    heard: list[str] = []
    topics = TopicConfigs(session, heard.append)
    await topics.refresh()  # Not started: no watch wakes it.
    assert heard == ["orders"]
    await put(session, TOPICS, "orders", a="2")
    await topics.load(["orders", "without"])
    assert topics.get("orders") == {"a": "2"}
    assert heard == ["orders"] * 2
    await topics.refresh()
    assert heard == ["orders"] * 2


def test_a_cache_that_slept_through_dropped_notices_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configs, "NOTICES_KEPT", 3)

    @on_every_backend
    async def scenario(tree: Tree) -> None:
        session = await tree.session()
        await lay_out(session)
        topics = TopicConfigs(session, lambda name: None)
        await topics.refresh()
        for number in range(20):
            await put(session, TOPICS, f"topic{number}", a=str(number))
            if number == 2:
                await topics.refresh()
        assert len(await session.children("/config/changes")) <= 6
        await topics.refresh()
        assert all(topics.get(f"topic{number}") == {"a": str(number)} for number in range(20))

    scenario("memory", None, None)  # type: ignore[arg-type]
