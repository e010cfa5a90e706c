"""How a connector stands, as the topic of statuses and as the REST API have it."""

from collections.abc import Iterable
from typing import Any

from millstream.pipelines.connect.runtime.entries import Entry
from millstream.pipelines.connect.runtime.kinds import Kind
from millstream.pipelines.connect.runtime.lifecycle import View
from millstream.pipelines.connect.runtime.states import State
from millstream.pipelines.connect.runtime.statuses import Status, connector_entry, task_entry


def status_entries(
    name: str, view: View, count: int, worker_id: str, generation: int, version: str, *, known: Iterable[int]
) -> list[Entry]:
    """A connector and its tasks, and an end for those of the ``known`` tasks that are no more."""
    task = Status(view.tasks, worker_id, view.tasks_trace, generation, version)
    return [
        connector_entry(name, Status(view.connector, worker_id, view.connector_trace, generation, version)),
        *(task_entry(name, number, task) for number in range(count)),
        *(task_entry(name, number, None) for number in known if number >= count),
    ]


def gone_entries(name: str, count: int) -> list[Entry]:
    """A connector that is no more, and so many tasks of it."""
    return [connector_entry(name, None), *(task_entry(name, number, None) for number in range(count))]


def status_document(name: str, kind: Kind, view: View, count: int, worker_id: str) -> dict[str, Any]:
    """A connector and its tasks, in the shape of the REST API."""

    def one(state: State, trace: str) -> dict[str, Any]:
        told = {"state": state.value, "worker_id": worker_id, "version": kind.version, "trace": trace}
        return {key: value for key, value in told.items() if value}

    return {
        "name": name,
        "connector": one(view.connector, view.connector_trace),
        "tasks": [{"id": number, **one(view.tasks, view.tasks_trace)} for number in range(count)],
        "type": kind.type,
    }
