"""What every registry promises, whatever stands behind it."""

import asyncio

import pytest

from millstream.registry.tree import (
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    Set,
    Stat,
    ensure,
)
from tests.unit.registry.backends import Tree, on_every_backend


class Calls:
    """Counts the calls of a watch."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@on_every_backend
async def test_a_created_node_is_read_back_with_its_stat(tree: Tree) -> None:
    session = await tree.session()
    path, stat = await session.create("/a", b"one")
    node = await session.get("/a")
    assert path == "/a"
    assert node.data == b"one"
    assert (node.version, node.cversion, node.ephemeral_owner) == (0, 0, 0)
    assert node.czxid == node.mzxid == stat.czxid > 0
    assert await session.exists("/a") == stat == Stat(*node[1:])


@on_every_backend
async def test_setting_raises_the_version_and_the_transaction_id_of_the_change_alone(tree: Tree) -> None:
    session = await tree.session()
    _, created = await session.create("/a", b"one")
    stat = await session.set("/a", b"two", 0)
    node = await session.get("/a")
    assert node.data == b"two"
    assert (stat.version, stat.czxid) == (1, created.czxid)
    assert stat.mzxid > created.czxid
    assert Stat(*node[1:]) == stat


@on_every_backend
async def test_a_stale_version_is_refused_and_changes_nothing(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a", b"one")
    await session.set("/a", b"two")
    with pytest.raises(BadVersion):
        await session.set("/a", b"three", 0)
    with pytest.raises(BadVersion):
        await session.delete("/a", 0)
    assert (await session.get("/a")).data == b"two"


@on_every_backend
async def test_what_is_not_there_is_no_node(tree: Tree) -> None:
    session = await tree.session()
    with pytest.raises(NoNode):
        await session.get("/a")
    with pytest.raises(NoNode):
        await session.set("/a", b"")
    with pytest.raises(NoNode):
        await session.delete("/a")
    with pytest.raises(NoNode):
        await session.children("/a")
    with pytest.raises(NoNode):
        await session.create("/a/b")
    assert await session.exists("/a") is None


@on_every_backend
async def test_a_node_is_created_once(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a", b"first")
    with pytest.raises(NodeExists):
        await session.create("/a", b"second")
    assert (await session.get("/a")).data == b"first"


@on_every_backend
async def test_children_are_the_direct_ones_sorted(tree: Tree) -> None:
    session = await tree.session()
    for path in ("/a", "/a/z", "/a/b", "/a/b/c", "/ab"):
        await session.create(path)
    assert await session.children("/a") == ["b", "z"]
    assert await session.children("/a/z") == []
    assert [name for name in await session.children("/") if name.startswith("a")] == ["a", "ab"]


@on_every_backend
async def test_a_node_with_children_is_not_deleted(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a")
    await session.create("/a/b")
    with pytest.raises(NotEmpty):
        await session.delete("/a")
    await session.delete("/a/b")
    await session.delete("/a")
    assert await session.exists("/a") is None


@on_every_backend
async def test_sequence_nodes_count_up_and_never_take_a_number_twice(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a")
    first = (await session.create("/a/n_", sequence=True)).path
    await session.delete(first)
    second = (await session.create("/a/n_", sequence=True)).path
    assert first == "/a/n_0000000000"
    assert second > first
    assert len(second) == len(first)


@on_every_backend
async def test_many_are_read_in_the_order_asked_with_gaps_as_none(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a", b"1")
    await session.create("/b", b"2")
    nodes = await session.get_many(["/b", "/missing", "/a", "/b"])
    assert [node and node.data for node in nodes] == [b"2", None, b"1", b"2"]


@on_every_backend
async def test_a_multi_does_all_in_one_transaction(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a", b"")
    await session.create("/old")
    outcomes = await session.multi(
        [Check("/a", 0), Create("/a/b", b"x"), Create("/a/b/c"), Set("/a/b", b"y", 0), Delete("/old")]
    )
    b = await session.get("/a/b")
    c = await session.get("/a/b/c")
    assert outcomes[0] is None and outcomes[4] is None
    assert outcomes[1:3] == ["/a/b", "/a/b/c"]
    assert isinstance(outcomes[3], Stat) and outcomes[3].version == 1
    assert b.data == b"y"
    assert b.czxid == b.mzxid == c.czxid
    assert await session.exists("/old") is None


@on_every_backend
async def test_a_multi_that_fails_changes_nothing_and_says_where(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a", b"kept")
    await session.create("/a/child")
    for failing, error in (
        (Create("/a"), NodeExists),
        (Create("/x/y"), NoNode),
        (Set("/a", b"", 7), BadVersion),
        (Set("/x", b""), NoNode),
        (Delete("/a"), NotEmpty),
        (Check("/a", 0), BadVersion),
        (Check("/x", 0), NoNode),
    ):
        with pytest.raises(error) as caught:
            await session.multi([Set("/a", b"changed", 0), Create("/b"), Delete("/a/child"), Create("/a/new"), failing])
        assert caught.value.index == 4
    assert (await session.get("/a")).data == b"kept"
    assert await session.children("/a") == ["child"]
    assert await session.exists("/b") is None


@on_every_backend
async def test_an_ephemeral_node_goes_with_its_session(tree: Tree) -> None:
    session, other = await tree.session(), await tree.session()
    await other.create("/lasting")
    _, stat = await session.create("/lasting/mine", ephemeral=True)
    assert stat.ephemeral_owner == session.session_id != other.session_id
    await session.close()
    assert await other.children("/lasting") == []


@on_every_backend
async def test_an_ephemeral_node_has_no_children(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/mine", ephemeral=True)
    with pytest.raises(NoChildrenForEphemerals):
        await session.create("/mine/child")


@on_every_backend
async def test_a_closed_session_is_refused(tree: Tree) -> None:
    session = await tree.session()
    await session.close()
    with pytest.raises(SessionExpired):
        await session.get("/")
    with pytest.raises(SessionExpired):
        await session.create("/a")


@on_every_backend
async def test_an_expired_session_loses_its_ephemerals_and_goes_on_as_a_new_one(tree: Tree) -> None:
    session, other = await tree.session(), await tree.session()
    expired = Calls()
    session.on_session_expired(expired)
    await session.create("/mine", ephemeral=True)
    before = session.session_id
    await tree.expire(session)
    await tree.watches_called()
    assert await other.exists("/mine") is None
    assert expired.count == 1
    _, stat = await session.create("/mine", ephemeral=True)
    assert stat.ephemeral_owner == session.session_id != before


@on_every_backend
async def test_a_watch_hears_the_node_come_change_and_go(tree: Tree) -> None:
    session, other = await tree.session(), await tree.session()
    calls = Calls()
    await session.watch("/a", calls)
    for step in (other.create("/a"), other.set("/a", b"x"), other.delete("/a"), other.create("/a")):
        before = calls.count
        await step
        await tree.watches_called()
        assert calls.count > before


@on_every_backend
async def test_a_watch_on_children_hears_them_come_and_go(tree: Tree) -> None:
    session, other = await tree.session(), await tree.session()
    await other.create("/a")
    calls = Calls()
    await session.watch("/a", calls, children=True)
    await other.multi([Create("/a/b"), Create("/a/b/deep")])
    await tree.watches_called()
    heard = calls.count
    await other.set("/a/b", b"data is not a child")
    await tree.watches_called()
    assert calls.count == heard > 0
    await other.multi([Delete("/a/b/deep"), Delete("/a/b")])
    await tree.watches_called()
    assert calls.count > heard


@on_every_backend
async def test_a_watch_hears_an_ephemeral_go_with_its_session(tree: Tree) -> None:
    session, other = await tree.session(), await tree.session()
    await other.create("/mine", ephemeral=True)
    node, children = Calls(), Calls()
    await session.watch("/mine", node)
    await session.watch("/", children, children=True)
    await tree.expire(other)
    await tree.watches_called()
    assert node.count and children.count


@on_every_backend
async def test_a_failed_multi_wakes_no_watch(tree: Tree) -> None:
    session = await tree.session()
    calls = Calls()
    await session.watch("/a", calls)
    with pytest.raises(NoNode):
        await session.multi([Create("/a"), Check("/missing", 0)])
    await tree.watches_called()
    assert calls.count == 0


@on_every_backend
async def test_a_cancelled_watch_is_silent_even_when_a_call_was_due(tree: Tree) -> None:
    session = await tree.session()
    calls = Calls()
    watch = await session.watch("/a", calls)
    await session.create("/a")
    watch.cancel()
    watch.cancel()
    heard = calls.count
    await tree.watches_called()
    await session.set("/a", b"x")
    await tree.watches_called()
    assert calls.count == heard


@on_every_backend
async def test_a_reader_that_reads_at_every_call_sees_the_last_value(tree: Tree) -> None:
    """Calls may be shared, but no change is left unheard, those made during a call included."""
    session, other = await tree.session(), await tree.session()
    await other.create("/a", b"0")
    seen = [0]
    due = asyncio.Event()
    await session.watch("/a", due.set)

    async def read() -> None:
        while seen[-1] < 200:
            await due.wait()
            due.clear()
            seen.append(int((await session.get("/a")).data))

    reader = asyncio.create_task(read())
    for number in range(1, 201):
        await other.set("/a", str(number).encode())
        if number % 7 == 0:
            await asyncio.sleep(0)
    await asyncio.wait_for(reader, 10)
    assert seen == sorted(seen)


@on_every_backend
async def test_writes_of_many_tasks_all_return(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a")
    await asyncio.gather(*(session.create(f"/a/{number}") for number in range(50)))
    assert len(await session.children("/a")) == 50


@on_every_backend
async def test_ensuring_a_path_makes_its_parents_and_keeps_what_is_there(tree: Tree) -> None:
    session = await tree.session()
    await session.create("/a", b"kept")
    await ensure(session, "/a/b/c")
    await ensure(session, "/a/b/c")
    assert await session.children("/a/b") == ["c"]
    assert (await session.get("/a")).data == b"kept"
