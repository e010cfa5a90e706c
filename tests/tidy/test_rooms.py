"""Rooms import only what stands below them, and machines import nothing that acts."""

import ast
from pathlib import PurePosixPath

from tests.tidy.source import PACKAGE, ROOT, Module, imports, modules, none

#: From the top down.  A room may import those of the floors below its own; rooms of one floor never import each other.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli", "console"),
    ("pipelines",),
    ("broker", "client"),
    ("controller", "coordination"),
    ("replication",),
    ("registry", "storage"),
    ("net", "security"),
    ("config", "metrics"),
    ("protocol",),
    ("model",),
    ("__init__",),
)
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

#: What acts on the world: a pure module has none of it.
ACTING = frozenset(
    {"asyncio", "kazoo", "logging", "multiprocessing", "os", "random", "shutil", "signal", "socket", "sqlite3"}
    | {"subprocess", "threading", "time", "uvloop"}
)
#: Machines and tables: an event and the time in, decisions out.  A pattern may name modules yet to come.
PURE = (
    "config/[!s]*.py",
    "config/setting.py",
    "controller/brokers.py",
    "controller/context.py",
    "controller/deletion.py",
    "controller/elections.py",
    "controller/partition_states.py",
    "controller/placement.py",
    "controller/replica_states.py",
    "controller/requests.py",
    "coordination/decision.py",
    "coordination/groups/*.py",
    "coordination/groups/*/*.py",
    "coordination/groups/*/*/*.py",
    "coordination/schemas/*.py",
    "coordination/transactions/*.py",
    "metrics/*.py",
    "model/[!c]*.py",
    "model/columns.py",
    "model/compression.py",
    "pipelines/connect/chain.py",
    "pipelines/connect/converters/*.py",
    "pipelines/connect/dates.py",
    "pipelines/connect/kept.py",
    "pipelines/connect/letters.py",
    "pipelines/connect/literals.py",
    "pipelines/connect/logical.py",
    "pipelines/connect/patterns.py",
    "pipelines/connect/plugins.py",
    "pipelines/connect/postgres/pgoutput.py",
    "pipelines/connect/postgres/rows.py",
    "pipelines/connect/postgres/sql.py",
    "pipelines/connect/postgres/types.py",
    "pipelines/connect/runtime/configs.py",
    "pipelines/connect/runtime/entries.py",
    "pipelines/connect/runtime/lifecycle.py",
    "pipelines/connect/runtime/metrics.py",
    "pipelines/connect/runtime/offsets.py",
    "pipelines/connect/runtime/refusals.py",
    "pipelines/connect/runtime/showing.py",
    "pipelines/connect/runtime/states.py",
    "pipelines/connect/runtime/statuses.py",
    "pipelines/connect/settings.py",
    "pipelines/connect/sources/jdbc/order.py",
    "pipelines/connect/sources/postgres/envelope.py",
    "pipelines/connect/sources/postgres/snapshot.py",
    "pipelines/connect/texts.py",
    "pipelines/connect/tolerance.py",
    "pipelines/connect/transforms/*.py",
    "pipelines/connect/validation.py",
    "pipelines/mirror/definition.py",
    "pipelines/mirror/formats.py",
    "pipelines/mirror/policy.py",
    "pipelines/mirror/rewriting.py",
    "pipelines/mirror/settings.py",
    "pipelines/mirror/translation.py",
    "pipelines/running/definition.py",
    "pipelines/running/failures.py",
    "pipelines/running/hush.py",
    "pipelines/running/metrics.py",
    "pipelines/running/progress.py",
    "pipelines/running/reports.py",
    "pipelines/running/restarts.py",
    "pipelines/spark/sink/encoding.py",
    "pipelines/spark/sink/partitioning.py",
    "pipelines/spark/sink/protocol.py",
    "pipelines/spark/sink/routing.py",
    "pipelines/history/calls.py",
    "pipelines/history/complaints.py",
    "pipelines/history/tokens.py",
    "pipelines/history/values.py",
    "pipelines/spark/filters.py",
    "pipelines/spark/options.py",
    "pipelines/spark/planning.py",
    "protocol/*.py",
    "protocol/*/*.py",
    "registry/nodes.py",
    "replication/admission.py",
    "replication/company.py",
    "replication/fetch_sessions.py",
    "replication/history.py",
    "replication/role.py",
    "storage/compaction_plan.py",
    "storage/leader_epochs.py",
    "storage/producer_state.py",
    "storage/retention.py",
    "storage/transaction_fates.py",
)

#: Whoever reads a clock, draws a number or starts a thread by itself; everyone else is given one.
REACHING = {
    # The application API runs in its user's own process; compaction paces a worker process.
    "time": ("cli/*.py", "cli/*/*.py", "client/application/*.py", "model/clock.py", "storage/compaction.py"),
    # A thread of the broker's knows its number; the last three for locks alone.
    "threading": (
        *("cli/watching.py", "client/application/*.py", "pipelines/connect/beside.py", "pipelines/mirror/beside.py"),
        *("pipelines/spark/ahead.py", "pipelines/spark/stages.py"),
        *("broker/promptness.py", "registry/zookeeper/*.py", "storage/ahead.py", "storage/directory.py"),
    ),
    "subprocess": ("cli/cluster/*.py",),
    "kazoo": ("registry/zookeeper/*.py",),
    "sqlite3": ("registry/store.py",),
}


def _matches(module: Module, patterns: tuple[str, ...]) -> bool:
    return any(PurePosixPath("/" + module.name).match("/" + pattern) for pattern in patterns)


def _room_of(imported: str) -> str | None:
    """The room an import leads to, or None when it leads out of the project."""
    parts = imported.split(".")
    if parts[0] != "millstream":
        return None
    if len(parts) > 1 and ((PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").is_file()):
        return parts[1]
    return "__init__"


def test_every_room_stands_on_a_floor() -> None:
    assert {module.room for module in modules()} <= set(FLOOR_OF)


def test_a_room_imports_only_what_stands_below_it() -> None:
    none(
        [
            f"{module.name}:{line} imports {imported}"
            for module in modules()
            for line, imported in imports(module)
            if (room := _room_of(imported)) and room != module.room and FLOOR_OF[room] <= FLOOR_OF[module.room]
        ]
    )


def test_a_pure_module_imports_nothing_that_acts() -> None:
    none(
        [
            f"{module.name}:{line} imports {imported}"
            for module in modules()
            if _matches(module, PURE)
            for line, imported in imports(module)
            if imported.split(".")[0] in ACTING
        ]
    )


def test_every_pure_module_is_still_there() -> None:
    """A machine that was renamed must not leave the table's watch unseen."""
    none([name for name in PURE if "*" not in name and not (PACKAGE / name).is_file()])


def test_only_those_named_reach_for_what_others_are_given() -> None:
    none(
        [
            f"{module.name}:{line} imports {imported}"
            for module in modules()
            for line, imported in imports(module)
            if imported.split(".")[0] in REACHING and not _matches(module, REACHING[imported.split(".")[0]])
        ]
    )


def test_a_wrong_import_would_be_seen() -> None:
    """The rules themselves are tried on a module that breaks them."""
    tree = ast.parse("from millstream.broker.broker import Broker\ndef f():\n    import time\n")
    module = Module(PACKAGE / "storage" / "retention.py", tree)
    assert [_room_of(imported) for _, imported in imports(module)] == ["broker", None]
    assert FLOOR_OF["broker"] < FLOOR_OF["storage"]
    assert _matches(module, PURE)
    assert "time" in ACTING


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    assert [room for room in sorted(rooms) if f"`{room}/`" not in text] == []
