"""/connectors while connectors come and go."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from millstream.pipelines.connect.rest import connectors
from millstream.pipelines.connect.rest.exchange import Call
from millstream.pipelines.connect.runtime.kinds import Kind
from millstream.pipelines.connect.runtime.lifecycle import View
from millstream.pipelines.connect.runtime.refusals import not_found
from millstream.pipelines.connect.runtime.states import State


class Coming:
    """A worker that knows of two connectors, and looks after one of them so far."""

    names = ("here", "coming")
    settings = SimpleNamespace(worker_id="w:1")

    def view(self, name: str) -> tuple[View, int]:
        if name == "coming":
            raise not_found("No status found for connector coming")
        return View(State.RUNNING, State.RUNNING, has_tasks=True), 1

    def kind(self, name: str) -> Kind:
        return Kind("source", "1")


def test_a_connector_that_is_being_made_does_not_spoil_the_list() -> None:
    api: Any = SimpleNamespace(worker=Coming())
    page = asyncio.run(connectors.listed(api, Call({}, "expand=status")))
    assert page.status == 200
    found = json.loads("".join(page.lines))
    assert list(found) == ["here"] and found["here"]["status"]["connector"]["state"] == "RUNNING"
