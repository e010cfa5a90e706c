"""/connector-plugins: which there are, what their configs may say, and whether one would do."""

from typing import TYPE_CHECKING

from millstream.net.http import Page
from millstream.pipelines.connect import plugins as registry
from millstream.pipelines.connect import validation
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.rest.exchange import Call, answer
from millstream.pipelines.connect.runtime.refusals import bad_request, not_found

if TYPE_CHECKING:
    from millstream.pipelines.connect.rest.api import Api


async def listed(api: "Api", call: Call) -> Page:
    """GET /connector-plugins"""
    return answer(registry.listed(call.flag("connectorsOnly", default=True)))


async def config(api: "Api", call: Call) -> Page:
    """GET /connector-plugins/NAME/config"""
    name = call.named["plugin"]
    try:
        return answer(await api.check(validation.definitions, name))
    except Misconfigured:
        raise not_found(f"Unknown plugin {name}.") from None


async def validate(api: "Api", call: Call) -> Page:
    """PUT /connector-plugins/NAME/config/validate"""
    name, given = call.named["plugin"], call.config()
    included = given.get("connector.class")
    if included is not None and not _without_suffix(included).endswith(_without_suffix(name)):
        raise bad_request(f"Included connector type {included} does not match request type {name}")
    try:
        return answer(await api.validate({"connector.class": name, **given}))
    except Misconfigured as error:
        raise bad_request(str(error)) from None


def _without_suffix(name: str) -> str:
    return name.removesuffix("Connector") or name
