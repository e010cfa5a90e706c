"""What is asked over the API and what is answered, as JSON; errors in Connect's one shape."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from millstream.net.http import Page
from millstream.pipelines.connect.runtime.refusals import Refused, unreadable

JSON = "application/json"


class Call(NamedTuple):
    """A request to a route: what its path names, its query, its body."""

    named: Mapping[str, str]
    query: str = ""
    body: bytes = b""
    #: By which name and port it was asked for.
    host: str = ""

    def values(self, name: str) -> list[str]:
        """Everything that the query says under this name."""
        return parse_qs(self.query, keep_blank_values=True).get(name, [])

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Whether the query says yes to this."""
        found = self.values(name)
        return found[0].lower() == "true" if found else default

    def document(self, **how: Any) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        try:
            found = json.loads(self.body, **how)
        except ValueError as error:
            raise unreadable(f"The request's body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise unreadable("The request's body must be a JSON object")
        return found

    def config(self, document: Any = None) -> dict[str, Any]:
        """The body, or a part of it, as a config: numbers and truth values stand for their text, null for None."""
        found = self.document(parse_int=str, parse_float=str, parse_constant=str) if document is None else document
        return {name: _text(name, value) for name, value in found.items()}


def only(known: frozenset[str], document: Mapping[str, Any]) -> None:
    """Refused when a document has other fields than these."""
    if unknown := sorted(document.keys() - known):
        raise unreadable(f"Unrecognized field {unknown[0]!r}: there are {', '.join(sorted(known))}")


def _text(name: str, value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | None):
        return value
    raise unreadable(
        f"The value of {name!r} must be text, and is {'an object' if isinstance(value, dict) else 'a list'}"
    )


def answer(document: Any, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> Page:
    """A document."""
    return Page(status, JSON, [json.dumps(document, separators=(",", ":"), ensure_ascii=False)], headers)


def nothing(status: HTTPStatus = HTTPStatus.NO_CONTENT) -> Page:
    """An answer without a body."""
    return Page(status, JSON, ())


def error(status: HTTPStatus, message: str, **headers: str) -> Page:
    """A refusal, in Connect's shape."""
    return answer({"error_code": status.value, "message": message}, status, **headers)


def refusal(refused: Refused) -> Page:
    """What a worker refused."""
    return error(refused.status, str(refused))
