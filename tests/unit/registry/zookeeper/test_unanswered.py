"""A write that went unanswered is known again from what it left."""

import pytest

from millstream.registry.tree import Check, Create, Delete, Node, Op, Set
from millstream.registry.zookeeper.unanswered import was_done

SESSION, BEFORE = 77, 100


def node(data: bytes, mzxid: int, owner: int = 0) -> Node:
    return Node(data, version=1, cversion=0, czxid=50, mzxid=mzxid, ephemeral_owner=owner)


DONE: dict[str, tuple[list[Op], dict[str, Node | None]]] = {
    "created": ([Create("/a", b"x")], {"/a": node(b"x", 101)}),
    "created for the session": ([Create("/a", b"x", ephemeral=True)], {"/a": node(b"x", 101, SESSION)}),
    "set": ([Set("/a", b"x", 3)], {"/a": node(b"x", 101)}),
    "deleted": ([Delete("/a")], {"/a": None}),
    "created, then set": ([Create("/a", b"x"), Set("/a", b"y")], {"/a": node(b"y", 101)}),
    "several": (
        [Check("/c", 0), Create("/a", b"x"), Set("/b", b"y"), Delete("/d")],
        {"/a": node(b"x", 101), "/b": node(b"y", 101), "/c": node(b"", 9), "/d": None},
    ),
}
NOT_DONE: dict[str, tuple[list[Op], dict[str, Node | None]]] = {
    "not there": ([Create("/a", b"x")], {"/a": None}),
    "still there": ([Delete("/a")], {"/a": node(b"x", 101)}),
    "there before": ([Create("/a", b"x")], {"/a": node(b"x", 100)}),
    "another's data": ([Set("/a", b"x")], {"/a": node(b"y", 101)}),
    "another session's": ([Create("/a", b"x", ephemeral=True)], {"/a": node(b"x", 101, SESSION + 1)}),
    "not by one transaction": (
        [Create("/a", b"x"), Set("/b", b"y")],
        {"/a": node(b"x", 101), "/b": node(b"y", 102)},
    ),
    "a sequence node": ([Create("/a", b"x", sequence=True)], {"/a": node(b"x", 101)}),
    "nothing to see": ([Check("/a", 1)], {"/a": node(b"x", 101)}),
}


@pytest.mark.parametrize("name", DONE)
def test_a_write_is_known_by_what_it_left(name: str) -> None:
    assert was_done(*DONE[name], BEFORE, SESSION)


@pytest.mark.parametrize("name", NOT_DONE)
def test_what_may_be_anothers_or_nobodys_is_not_taken_for_it(name: str) -> None:
    assert not was_done(*NOT_DONE[name], BEFORE, SESSION)
