"""What connectors are to be: their configs, their tasks' and what is wanted of them, as Connect's topic keeps it.

Task configs count once the commit behind them says how many there are: whoever finds fewer, as compaction may leave
them, waits for the next commit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.pipelines.connect.runtime.entries import BadEntry, Entry, entry, named, parsed, task_of
from millstream.pipelines.connect.runtime.states import Target

TARGET = "target-state-"
CONNECTOR = "connector-"
TASK = "task-"
COMMIT = "commit-"
RESTART = "restart-connector-"
LOGGER = "logger-cluster-"
#: What Connect's own workers keep beside these, and we have no use for.
IGNORED = ("tasks-fencing-", "session-key")

Config = Mapping[str, str]


class Configs:
    """What the topic says; only ``replay`` changes it."""

    def __init__(self) -> None:
        self.connectors: dict[str, Config] = {}
        self.targets: dict[str, Target] = {}
        self.tasks: dict[str, list[Config]] = {}
        self.loggers: dict[str, str] = {}
        self._uncommitted: dict[str, dict[int, Config]] = {}

    def replay(self, found: Entry) -> None:
        """Take an entry in; BadEntry where it is none of Connect's."""
        key, value = parsed(found)
        for beginning, take in _TAKERS:
            if key.startswith(beginning):
                take(self, key.removeprefix(beginning), value, key)
                return
        if not key.startswith(IGNORED):
            raise BadEntry(f"the key {key!r} is none that a topic of configs has")

    def _take_target(self, name: str, value: Any, key: str) -> None:
        if value is None:
            self.targets.pop(name, None)
            return
        text = value.get("state.v2") if isinstance(value, dict) else None
        try:
            self.targets[name] = Target(text if isinstance(text, str) else named(value, "state", str, key))
        except ValueError:
            raise BadEntry(f"the record with the key {key!r} wants {text!r}") from None

    def _take_connector(self, name: str, value: Any, key: str) -> None:
        if value is None:
            for known in (self.connectors, self.tasks, self._uncommitted):
                known.pop(name, None)
        else:
            self.connectors[name] = named(value, "properties", dict, key)

    def _take_task(self, text: str, value: Any, key: str) -> None:
        name, number = task_of(text, key)
        self._uncommitted.setdefault(name, {})[number] = named(value, "properties", dict, key)

    def _take_commit(self, name: str, value: Any, key: str) -> None:
        found = self._uncommitted.pop(name, {})
        count = named(value, "tasks", int, key)
        known = dict(enumerate(self.tasks.get(name, []))) | found
        if name in self.connectors and all(number in known for number in range(count)):
            self.tasks[name] = [known[number] for number in range(count)]

    def _take_logger(self, name: str, value: Any, key: str) -> None:
        if value is None:
            self.loggers.pop(name, None)
        else:
            self.loggers[name] = named(value, "level", str, key)

    def _pass_over(self, name: str, value: Any, key: str) -> None:
        """A request that whoever wrote it has carried out."""


_TAKERS = (
    (TARGET, Configs._take_target),
    (RESTART, Configs._pass_over),
    (CONNECTOR, Configs._take_connector),
    (TASK, Configs._take_task),
    (COMMIT, Configs._take_commit),
    (LOGGER, Configs._take_logger),
)


def connector_entries(name: str, config: Config, target: Target | None = None) -> list[Entry]:
    """A connector made or changed; with what is wanted of it, where that is said."""
    entries = [target_entry(name, target)] if target is not None else []
    return [*entries, entry(CONNECTOR + name, {"properties": dict(config)})]


def removal_entries(name: str) -> list[Entry]:
    """A connector that is to be no more."""
    return [entry(CONNECTOR + name), entry(TARGET + name)]


def target_entry(name: str, target: Target) -> Entry:
    """What is wanted; workers of old, which know of no stopping, are to pause."""
    older = Target.PAUSED if target is Target.STOPPED else target
    return entry(TARGET + name, {"state": older.value, "state.v2": target.value})


def task_entries(name: str, configs: Sequence[Config]) -> list[Entry]:
    """All the tasks that a connector has now."""
    tasks = [entry(f"{TASK}{name}-{number}", {"properties": dict(it)}) for number, it in enumerate(configs)]
    return [*tasks, entry(COMMIT + name, {"tasks": len(configs)})]


def restart_entry(name: str, *, include_tasks: bool, only_failed: bool) -> Entry:
    """A restart that was asked for."""
    return entry(RESTART + name, {"include-tasks": include_tasks, "only-failed": only_failed})


def logger_entry(logger: str, level: str) -> Entry:
    """What a logger says, on every worker."""
    return entry(LOGGER + logger, {"level": level})
