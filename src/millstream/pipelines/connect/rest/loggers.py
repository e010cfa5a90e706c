"""/admin/loggers: how much is logged, seen and changed while the worker runs."""

from typing import TYPE_CHECKING

from millstream.net.http import Page
from millstream.pipelines.connect.rest.exchange import Call, answer, nothing
from millstream.pipelines.connect.rest.levels import LEVELS
from millstream.pipelines.connect.runtime.refusals import bad_request, not_found

if TYPE_CHECKING:
    from millstream.pipelines.connect.rest.api import Api


async def listed(api: "Api", call: Call) -> Page:
    """GET /admin/loggers"""
    return answer(api.levels.all())


async def level(api: "Api", call: Call) -> Page:
    """GET /admin/loggers/NAME"""
    found = api.levels.of(call.named["logger"])
    if found is None:
        raise not_found(f"Logger {call.named['logger']} not found.")
    return answer(found)


async def set_level(api: "Api", call: Call) -> Page:
    """PUT /admin/loggers/NAME, here or, with ?scope=cluster, for workers to come as well."""
    wanted = call.config().get("level")
    if wanted is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if wanted.upper() not in LEVELS:
        raise not_found(f"invalid log level '{wanted}'.")
    name = call.named["logger"]
    concerned = api.levels.set(name, wanted.upper())
    if (call.values("scope") or ["worker"])[0].lower() != "cluster":
        return answer(concerned)
    await api.worker.set_logger(name, wanted.upper())
    return nothing()
