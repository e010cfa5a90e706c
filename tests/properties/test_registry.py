"""The embedded tree against a dict: any sequence of operations gives the same answers, and survives reopening."""

import contextlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millstream.registry.store import Store
from millstream.registry.tree import (
    BadVersion,
    Check,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    RegistryError,
    Set,
    parent_of,
)

#: Thousands of fsyncs wait for nobody here.
MEMORY_DISK = "/dev/shm" if os.path.isdir("/dev/shm") else None

paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
datas = st.binary(max_size=3)
versions = st.integers(-1, 3)
ops = st.one_of(
    st.builds(Create, paths, datas, ephemeral=st.booleans(), sequence=st.booleans()),
    st.builds(Set, paths, datas, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


@dataclass(frozen=True)
class ModelNode:
    data: bytes = b""
    version: int = 0
    cversion: int = 0
    owner: int = 0


class Model:
    """ZooKeeper's rules, in the plainest way."""

    def __init__(self) -> None:
        self.nodes = {"/": ModelNode()}

    def multi(self, batch: list[Op], session_id: int) -> type[RegistryError] | None:
        """Do all or nothing; the error of the first that cannot be done."""
        before = dict(self.nodes)
        for op in batch:
            error = self._apply(op, session_id)
            if error is not None:
                self.nodes = before
                return error
        return None

    def drop(self, session_id: int) -> None:
        for path in [path for path, node in self.nodes.items() if node.owner and session_id in (0, node.owner)]:
            self._remove(path)

    def children(self, path: str) -> list[str]:
        return sorted(name.rpartition("/")[2] for name in self.nodes if name != "/" and parent_of(name) == path)

    def _apply(self, op: Op, session_id: int) -> type[RegistryError] | None:
        if isinstance(op, Create):
            return self._create(op, session_id)
        node = self.nodes.get(op.path)
        if node is None:
            return NoNode
        if op.version not in (-1, node.version):
            return BadVersion
        if isinstance(op, Set):
            self.nodes[op.path] = replace(node, data=op.data, version=node.version + 1)
        elif isinstance(op, Delete):
            if self.children(op.path):
                return NotEmpty
            self._remove(op.path)
        return None

    def _create(self, op: Create, session_id: int) -> type[RegistryError] | None:
        parent = self.nodes.get(parent_of(op.path))
        if parent is None:
            return NoNode
        if parent.owner:
            return NoChildrenForEphemerals
        path = f"{op.path}{parent.cversion:010d}" if op.sequence else op.path
        if path in self.nodes:
            return NodeExists
        self.nodes[path] = ModelNode(op.data, owner=session_id if op.ephemeral else 0)
        self.nodes[parent_of(path)] = replace(parent, cversion=parent.cversion + 1)
        return None

    def _remove(self, path: str) -> None:
        del self.nodes[path]
        parent = self.nodes[parent_of(path)]
        self.nodes[parent_of(path)] = replace(parent, cversion=parent.cversion + 1)


class TreeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = contextlib.ExitStack()
        self._path = str(Path(self._folder.enter_context(tempfile.TemporaryDirectory(dir=MEMORY_DISK))) / "registry.db")
        self._store = Store(self._path)
        self._model = Model()
        self._zxid = 0

    @rule(batch=st.lists(ops, min_size=1, max_size=5), session_id=st.sampled_from([11, 12]))
    def multi(self, batch: list[Op], session_id: int) -> None:
        expected = self._model.multi(batch, session_id)
        try:
            transaction = self._store.apply(batch, session_id)
        except RegistryError as error:
            assert type(error) is expected
            return
        assert expected is None
        assert transaction.zxid > self._zxid
        self._zxid = transaction.zxid

    @rule(session_id=st.sampled_from([11, 12]))
    def end_session(self, session_id: int) -> None:
        self._store.drop_ephemerals(session_id)
        self._model.drop(session_id)

    @rule()
    def reopen(self) -> None:
        self._store.close()
        self._store = Store(self._path)
        self._model.drop(0)

    @invariant()
    def the_trees_are_equal(self) -> None:
        for path, expected in self._model.nodes.items():
            node = self._store.get(path)
            assert (node.data, node.version, node.cversion, node.ephemeral_owner) == (
                expected.data,
                expected.version,
                expected.cversion,
                expected.owner,
            )
            assert 0 <= node.czxid <= node.mzxid
            assert self._store.children(path) == self._model.children(path)

    def teardown(self) -> None:
        self._store.close()
        self._folder.close()


TestTree = TreeMachine.TestCase
