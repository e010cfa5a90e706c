"""The table of routes: every path finds its own, whatever it names."""

import json

import pytest

from millstream.pipelines.connect.rest import connectors, exchange, offsets, root
from millstream.pipelines.connect.rest.exchange import Call
from millstream.pipelines.connect.rest.routes import ROUTES, found
from millstream.pipelines.connect.runtime.refusals import Refused, bad_request


@pytest.mark.parametrize(
    ("method", "path", "handle", "named"),
    [
        ("GET", "/", root.info, {}),
        ("GET", "/connectors", connectors.listed, {}),
        ("GET", "/connectors/", connectors.listed, {}),
        ("GET", "/connectors/a%20b%2Fc", connectors.info, {"connector": "a b/c"}),
        ("PATCH", "/connectors/config/config", connectors.patch_config, {"connector": "config"}),
        ("GET", "/connectors/%C3%BC/tasks/7/status", connectors.task_status, {"connector": "ü", "task": "7"}),
        ("PUT", "/connectors/a/topics/reset", connectors.reset_topics, {"connector": "a"}),
        ("DELETE", "/connectors/a/offsets", offsets.reset, {"connector": "a"}),
    ],
)
def test_a_path_finds_its_route(method: str, path: str, handle: object, named: dict[str, str]) -> None:
    route, names = found(path)[method]
    assert (route.handle, names) == (handle, named)


@pytest.mark.parametrize("path", ["/x", "/connectors/a/b", "/connectors/a/tasks/1", "//connectors", "/a/b/c/d/e"])
def test_a_path_that_is_none_finds_nothing(path: str) -> None:
    assert not found(path)


def test_no_two_routes_are_one() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_a_config_s_values_are_their_text() -> None:
    call = Call({}, "", b'{"a": "x", "b": 5, "c": 1.50, "d": true, "e": 12345678901234567890}')
    assert call.config() == {"a": "x", "b": "5", "c": "1.50", "d": "true", "e": "12345678901234567890"}
    assert Call({}, "", b'{"a": null}').config() == {"a": None}


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b"5", b'{"a": []}', b'{"a": {}}', b"\xff"])
def test_a_config_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        Call({}, "", body).config()
    assert caught.value.status == 500


def test_a_query_is_read() -> None:
    call = Call({}, "expand=status&expand=info&onlyFailed=True&includeTasks=no&empty")
    assert call.values("expand") == ["status", "info"]
    assert call.flag("onlyFailed") and not call.flag("includeTasks") and not call.flag("empty")
    assert call.flag("other", default=True) and not call.flag("other")


def test_errors_have_connect_s_shape() -> None:
    page = exchange.refusal(bad_request("no\nway, ü"))
    [line] = page.lines
    assert page.status == 400 and "\n" not in line
    assert json.loads(line) == {"error_code": 400, "message": "no\nway, ü"}
