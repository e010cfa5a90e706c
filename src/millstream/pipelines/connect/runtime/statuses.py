"""How connectors and their tasks stand, and which topics they use, as Connect's topic keeps it."""

from typing import Any, NamedTuple

from millstream.pipelines.connect.runtime.entries import BadEntry, Entry, entry, named, parsed, task_of
from millstream.pipelines.connect.runtime.states import State

TASK = "status-task-"
CONNECTOR = "status-connector-"
TOPIC = "status-topic-"
TOPIC_SEPARATOR = ":connector-"


class Status(NamedTuple):
    """How a connector or a task stands, by the word of which worker."""

    state: State
    worker_id: str
    trace: str = ""
    #: Which of its runs this is of; what Connect numbers the rebalances of its workers by.
    generation: int = 0
    #: Of the connector's class.
    version: str = ""


class Statuses:
    """What the topic says; only ``replay`` changes it."""

    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self.tasks: dict[str, dict[int, Status]] = {}
        #: The topics that each connector uses, and since when.
        self.topics: dict[str, dict[str, int]] = {}

    def replay(self, found: Entry) -> None:
        """Take an entry in; BadEntry where it is none of Connect's."""
        key, value = parsed(found)
        if key.startswith(TOPIC):
            self._take_topic(key.removeprefix(TOPIC), value, key)
        elif key.startswith(CONNECTOR):
            name = key.removeprefix(CONNECTOR)
            if value is None:
                self.connectors.pop(name, None)
            else:
                self.connectors[name] = _status(value, key)
        elif key.startswith(TASK):
            name, number = task_of(key.removeprefix(TASK), key)
            if value is None:
                self.tasks.get(name, {}).pop(number, None)
            else:
                self.tasks.setdefault(name, {})[number] = _status(value, key)
        else:
            raise BadEntry(f"the key {key!r} is none that a topic of statuses has")

    def _take_topic(self, text: str, value: Any, key: str) -> None:
        topic, separator, name = text.partition(TOPIC_SEPARATOR)
        if not separator:
            raise BadEntry(f"the key {key!r} names no topic")
        if value is None:
            self.topics.get(name, {}).pop(topic, None)
        else:
            since_ms = named(named(value, "topic", dict, key), "discoverTimestamp", int, key)
            self.topics.setdefault(name, {})[topic] = since_ms


def _status(value: Any, key: str) -> Status:
    trace, version = (value.get("trace"), value.get("version")) if isinstance(value, dict) else (None, None)
    try:
        state = State(named(value, "state", str, key))
    except ValueError:
        raise BadEntry(f"the record with the key {key!r} has a state that is none") from None
    worker_id, generation = named(value, "worker_id", str, key), named(value, "generation", int, key)
    return Status(state, worker_id, trace or "", generation, version or "")


def connector_entry(name: str, status: Status | None) -> Entry:
    """How a connector stands; None for one that is no more."""
    return entry(CONNECTOR + name, _document(status))


def task_entry(name: str, number: int, status: Status | None) -> Entry:
    """How a task stands; None for one that is no more."""
    return entry(f"{TASK}{name}-{number}", _document(status))


def topic_entry(name: str, topic: str, since_ms: int | None) -> Entry:
    """A topic that a connector uses; since when, or None where that is to be forgotten."""
    about = {"name": topic, "connector": name, "task": 0, "discoverTimestamp": since_ms}
    return entry(f"{TOPIC}{topic}{TOPIC_SEPARATOR}{name}", None if since_ms is None else {"topic": about})


def _document(status: Status | None) -> Any:
    if status is None:
        return None
    return {
        "state": status.state.value,
        "trace": status.trace or None,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version or None,
    }
