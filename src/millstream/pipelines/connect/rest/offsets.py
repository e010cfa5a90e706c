"""/connectors/NAME/offsets: how far a connector is, and where a stopped one is to go on."""

from typing import TYPE_CHECKING, Any

from millstream.net.http import Page
from millstream.pipelines.connect.job import Place
from millstream.pipelines.connect.rest.exchange import Call, answer, only
from millstream.pipelines.connect.runtime.refusals import bad_request, unreadable

if TYPE_CHECKING:
    from millstream.pipelines.connect.rest.api import Api

ALTER_FIELDS = frozenset({"offsets"})
PLACE_FIELDS = frozenset({"partition", "offset"})


async def get(api: "Api", call: Call) -> Page:
    """GET"""
    return answer({"offsets": await api.worker.offsets(call.named["connector"])})


async def alter(api: "Api", call: Call) -> Page:
    """PATCH: some of them put elsewhere, what is null forgotten."""
    document = call.document()
    only(ALTER_FIELDS, document)
    given = document.get("offsets")
    if not isinstance(given, list | None):
        raise unreadable("The offsets must be a list of partitions and their offsets")
    if not given:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    name = call.named["connector"]
    api.worker.config(name)
    kind = api.worker.kind(name).type
    await api.worker.alter_offsets(name, [_place(each, kind) for each in given])
    return answer({"message": "The offsets for this connector have been altered successfully"})


async def reset(api: "Api", call: Call) -> Page:
    """DELETE: all of them forgotten."""
    await api.worker.reset_offsets(call.named["connector"])
    return answer({"message": "The offsets for this connector have been reset successfully"})


def _place(document: Any, kind: str) -> Place:
    if not isinstance(document, dict):
        raise unreadable("Each of the offsets must be an object with 'partition' and 'offset'")
    only(PLACE_FIELDS, document)
    partition, offset = document.get("partition"), document.get("offset")
    if partition is None:
        raise bad_request(f"The partition for a {kind} connector offset cannot be null or missing")
    if not isinstance(partition, dict):
        raise unreadable("The partition of an offset must be an object")
    if not isinstance(offset, dict | None):
        raise unreadable("The offset of a partition must be an object or null")
    return {"partition": partition, "offset": offset}
