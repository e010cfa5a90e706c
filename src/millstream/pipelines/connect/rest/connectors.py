"""/connectors: made, shown, changed, paused, stopped, started again, deleted."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from millstream.net.http import Page
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.rest.exchange import Call, answer, nothing, only
from millstream.pipelines.connect.runtime.lifecycle import View
from millstream.pipelines.connect.runtime.refusals import Refused, bad_request, not_found, unreadable
from millstream.pipelines.connect.runtime.showing import status_document
from millstream.pipelines.connect.runtime.states import INITIAL, Target
from millstream.pipelines.connect.runtime.worker import Worker

if TYPE_CHECKING:
    from millstream.pipelines.connect.rest.api import Api

CREATE_FIELDS = frozenset({"name", "config", "initial_state"})


def _name(call: Call) -> str:
    return call.named["connector"]


def _info(worker: Worker, name: str) -> dict[str, Any]:
    count = len(worker.tasks(name))
    return {
        "name": name,
        "config": worker.config(name),
        "tasks": [{"connector": name, "task": number} for number in range(count)],
        "type": worker.kind(name).type,
    }


def _status(worker: Worker, name: str, view: View | None = None) -> dict[str, Any]:
    now, count = worker.view(name)
    return status_document(name, worker.kind(name), view or now, count, worker.settings.worker_id)


async def listed(api: "Api", call: Call) -> Page:
    """GET /connectors, with what ``?expand`` asks for."""
    worker, wanted = api.worker, {word for value in call.values("expand") for word in value.split(",")}
    if "expand" not in call.query:
        return answer(worker.names)
    shown: dict[str, Callable[[str], Any]] = {"status": partial(_status, worker), "info": partial(_info, worker)}
    found = {}
    for name in worker.names:
        with suppress(Refused):  # It is being made, or deleted, just now.
            found[name] = {word: show(name) for word, show in shown.items() if word in wanted}
    return answer(found)


async def create(api: "Api", call: Call) -> Page:
    """POST /connectors"""
    document = call.document(parse_int=str, parse_float=str, parse_constant=str)
    only(CREATE_FIELDS, document)
    given = document.get("config")
    if not isinstance(given, dict):
        raise unreadable("The connector's config must be given as an object under 'config'")
    initial = document.get("initial_state")
    if initial is not None and str(initial).upper() not in INITIAL:
        raise unreadable(f"The initial state {initial!r} is none of {', '.join(INITIAL)}")
    name = str(document.get("name") or "").strip()
    config = _with_name(name, call.config(given))
    await _check(api, config)
    target = INITIAL[str(initial).upper()] if initial is not None else None
    await api.worker.put(name, config, target, may_replace=False)
    return _made(api.worker, name, call)


async def info(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME"""
    return answer(_info(api.worker, _name(call)))


async def config(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME/config"""
    return answer(api.worker.config(_name(call)))


async def put_config(api: "Api", call: Call) -> Page:
    """PUT /connectors/NAME/config: made or changed."""
    name = _name(call)
    given = _with_name(name, call.config())
    await _check(api, given)
    is_new = await api.worker.put(name, given)
    return _made(api.worker, name, call) if is_new else answer(_info(api.worker, name))


async def patch_config(api: "Api", call: Call) -> Page:
    """PATCH /connectors/NAME/config: some of it changed, what is null taken out."""
    name, patch = _name(call), call.config()
    is_done = False
    while not is_done:  # Whoever changes it while it is checked has gone first.
        before = api.worker.config(name)
        given = _with_name(name, {key: text for key, text in {**before, **patch}.items() if text is not None})
        await _check(api, given)
        is_done = await api.worker.replace(name, before, given)
    return answer(_info(api.worker, name))


async def delete(api: "Api", call: Call) -> Page:
    """DELETE /connectors/NAME"""
    await api.worker.delete(_name(call))
    return nothing()


async def status(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME/status"""
    return answer(_status(api.worker, _name(call)))


async def tasks(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME/tasks"""
    name = _name(call)
    found = enumerate(api.worker.tasks(name))
    return answer([{"id": {"connector": name, "task": number}, "config": task} for number, task in found])


async def tasks_config(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME/tasks-config, which Connect had until its version 4."""
    name = _name(call)
    return answer({f"{name}-{number}": task for number, task in enumerate(api.worker.tasks(name))})


async def task_status(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME/tasks/N/status"""
    name, number = _name(call), _task(call)
    found = _status(api.worker, name)["tasks"] if name in api.worker.names else []
    if number >= len(found):
        raise not_found(f"No status found for task {name}-{number}")
    return answer(found[number])


async def restart_task(api: "Api", call: Call) -> Page:
    """POST /connectors/NAME/tasks/N/restart"""
    await api.worker.restart_task(_name(call), _task(call))
    return nothing()


async def restart(api: "Api", call: Call) -> Page:
    """POST /connectors/NAME/restart: with the tasks, or only what failed, where that is asked for."""
    name, worker = _name(call), api.worker
    include_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    view = await worker.restart(name, include_tasks=include_tasks, only_failed=only_failed)
    if not include_tasks and not only_failed:
        return nothing()
    return answer(_status(worker, name, view), HTTPStatus.ACCEPTED)


async def pause(api: "Api", call: Call) -> Page:
    """PUT /connectors/NAME/pause"""
    await api.worker.want(_name(call), Target.PAUSED)
    return nothing(HTTPStatus.ACCEPTED)


async def resume(api: "Api", call: Call) -> Page:
    """PUT /connectors/NAME/resume"""
    await api.worker.want(_name(call), Target.STARTED)
    return nothing(HTTPStatus.ACCEPTED)


async def stop(api: "Api", call: Call) -> Page:
    """PUT /connectors/NAME/stop"""
    await api.worker.want(_name(call), Target.STOPPED)
    return nothing()


async def topics(api: "Api", call: Call) -> Page:
    """GET /connectors/NAME/topics"""
    return answer({_name(call): {"topics": api.worker.topics(_name(call))}})


async def reset_topics(api: "Api", call: Call) -> Page:
    """PUT /connectors/NAME/topics/reset"""
    api.worker.reset_topics(_name(call))
    return nothing(HTTPStatus.ACCEPTED)


def _made(worker: Worker, name: str, call: Call) -> Page:
    """What was made, and where it is for whoever asked: as a proxy before us may call us, too."""
    place = f"http://{call.host or worker.settings.worker_id}/connectors/{quote(name, safe='')}"
    return answer(_info(worker, name), HTTPStatus.CREATED, Location=place)


def _task(call: Call) -> int:
    """The task's number; a path with none is no path."""
    text = call.named["task"]
    if not (text.isascii() and text.isdigit()):
        raise not_found("HTTP 404 Not Found")
    return int(text)


def _with_name(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """The config with the connector's name in it, which must be the one it was named by."""
    said = given.get("name")
    if said is not None and said != name:
        raise bad_request(f"Connector name configuration ({said}) doesn't match connector name in the URL ({name})")
    return {**given, "name": name}


async def _check(api: "Api", given: Mapping[str, str]) -> None:
    """Refused, with everything that is wrong, where a config cannot work."""
    if not given.get("connector.class"):
        raise bad_request(f"Connector config {{name={given['name']}}} contains no connector type")
    try:
        found = await api.validate(given)
    except Misconfigured as error:
        raise bad_request(str(error)) from None
    if not found["error_count"]:
        return
    # What is wrong with two options together is said of both, and told once.
    errors = list(dict.fromkeys(error for each in found["configs"] for error in each["value"]["errors"]))
    raise bad_request(
        "\n".join(
            [
                f"Connector configuration is invalid and contains the following {len(errors)} error(s):",
                *errors,
                "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            ]
        )
    )
