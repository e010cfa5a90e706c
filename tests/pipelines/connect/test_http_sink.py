"""The HTTP sink against a real server: keys, batches, repetitions, refusals."""

import datetime
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.errors import ConnectError, DataError, Misconfigured, Unreachable
from millstream.pipelines.connect.options import Config, parse
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import DATE, INT64, Schema, Type, decimal, struct
from millstream.pipelines.connect.sinks.http import HttpSink
from tests.pipelines.connect.web_server import Answer, Request, WebServer

BATCH = Batch("query", 0)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer() as running:
        yield running


def config_of(url: str, **given: str) -> Config:
    named = {name.replace("_", "."): text for name, text in given.items()}
    defaults = {"name": "web", "http.api.url": url, "retry.backoff.ms": "1", "max.retries": "3"}
    config, errors = parse(HttpSink.options, {**defaults, **named})
    assert not errors, errors
    return config


def records(*values: Any, **more: Any) -> list[Record]:
    return [Record("orders", value, partition=2, offset=10 + index, **more) for index, value in enumerate(values)]


def send(server: WebServer, given: list[Record], path: str = "/in", **options: str) -> list[tuple[int | None, str]]:
    """What was refused, by offset."""
    refused: list[tuple[int | None, str]] = []
    sink = HttpSink(config_of(server.url + path, **options))
    sink.refuse = lambda record, error: refused.append((record.offset, str(error)))  # type: ignore[method-assign]
    try:
        sink.write(iter(given), BATCH)
    finally:
        sink.close()
    return refused


def keys(server: WebServer) -> list[str]:
    return [request.headers["Idempotency-Key"] for request in server.requests]


def test_each_record_is_sent_in_order_under_a_key_of_its_own(server: WebServer) -> None:
    assert send(server, records({"n": 1}, {"n": 2})) == []
    assert [(request.method, request.path, request.json) for request in server.requests] == [
        ("POST", "/in", {"n": 1}),
        ("POST", "/in", {"n": 2}),
    ]
    assert keys(server) == ["web/orders/2/10", "web/orders/2/11"]
    assert server.requests[0].headers["Content-Type"] == "application/json"


def test_what_comes_again_has_the_same_keys(server: WebServer) -> None:
    for _ in range(2):
        send(server, records(*range(5)), batch_max_size="2")
    assert keys(server)[:3] == keys(server)[3:] == ["web/orders/2/10-11", "web/orders/2/12-13", "web/orders/2/14"]


def test_the_key_names_the_topic_that_the_offset_is_of(server: WebServer) -> None:
    send(server, [Record("renamed", 1, partition=0, offset=7, origin="orders")])
    assert keys(server) == ["web/orders/0/7"]


def test_a_batch_of_json_is_an_array(server: WebServer) -> None:
    send(server, records({"n": 1}, {"n": 2}, {"n": 3}), batch_max_size="2")
    assert [request.json for request in server.requests] == [[{"n": 1}, {"n": 2}], [{"n": 3}]]


def test_a_batch_of_texts_is_put_together_as_the_config_says(server: WebServer) -> None:
    options = {"batch_max_size": "3", "batch_prefix": "<", "batch_suffix": ">", "batch_separator": "\\n"}
    send(server, records("a", 1, b"b"), request_body_format="string", **options)
    assert [request.body for request in server.requests] == [b"<a\n1\nb>"]


def test_logical_types_are_json_as_connect_writes_it(server: WebServer) -> None:
    schema = struct(id=INT64, day=Schema(Type.INT32, name=DATE), price=decimal(2))
    send(server, records({"id": 1, "day": datetime.date(1970, 1, 3), "price": Decimal("1.50")}, value_schema=schema))
    assert server.requests[0].json == {"id": 1, "day": 2, "price": "AJY="}


@pytest.mark.parametrize("answer", [Answer(503), Answer(500), Answer(429), Answer(408), Answer(0)])
def test_what_may_pass_is_tried_again_with_the_same_key(server: WebServer, answer: Answer) -> None:
    server.next = [answer, answer]
    assert send(server, records({"n": 1}, {"n": 2})) == []
    assert [request.json["n"] for request in server.requests] == [1, 1, 1, 2]
    assert len(set(keys(server))) == 2


def test_waits_grow_and_a_server_may_ask_for_longer_ones(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.next = [Answer(503), Answer(503), Answer(429, (("Retry-After", "7"),)), Answer(503)]
    waits: list[float] = []
    sink = HttpSink(config_of(server.url, retry_backoff_ms="1000", max_retries="4"))
    monkeypatch.setattr(sink._connected, "_wait", waits.append)
    sink.write(iter(records(1)), BATCH)
    sink.close()
    assert waits == [1.0, 2.0, 7.0, 8.0]


def test_a_server_that_never_takes_it_is_unreachable(server: WebServer) -> None:
    server.answer = lambda _: Answer(503, body=b"over\nloaded")
    with pytest.raises(Unreachable, match=r"after 4 tries: 503 Service Unavailable: over loaded"):
        send(server, records(1, 2))
    assert len(server.requests) == 4


def test_nobody_there_is_unreachable() -> None:
    with WebServer() as server:
        url = server.url
    sink = HttpSink(config_of(url, max_retries="1"))
    with pytest.raises(Unreachable, match="after 2 tries: ConnectionRefusedError"):
        sink.write(iter(records(1)), BATCH)


def test_a_record_that_the_server_will_not_have_is_refused_and_others_are_taken(server: WebServer) -> None:
    server.answer = lambda request: Answer(422, body=b"no twos") if request.json == 2 else Answer()
    (refused,) = send(server, records(1, 2, 3))
    assert refused[0] == 11
    assert "answers 422" in refused[1] and "no twos" in refused[1]
    assert [request.json for request in server.requests] == [1, 2, 3]
    with pytest.raises(DataError), closing(HttpSink(config_of(server.url))) as sink:
        sink.write(iter(records(2)), BATCH)


def test_of_a_batch_that_is_refused_each_is_sent_alone(server: WebServer) -> None:
    server.answer = lambda request: Answer(400) if 2 in request.json else Answer()
    refused = send(server, records(1, 2, 3, 4), batch_max_size="3")
    assert [offset for offset, _ in refused] == [11]
    assert [request.json for request in server.requests] == [[1, 2, 3], [1], [2], [3], [4]]


@pytest.mark.parametrize("status", [401, 403, 302])
def test_who_is_not_let_in_blames_no_record(server: WebServer, status: int) -> None:
    server.answer = lambda _: Answer(status)
    with pytest.raises(ConnectError, match=f"answers {status}") as raised:
        send(server, records(1))
    assert not isinstance(raised.value, DataError)
    assert len(server.requests) == 1


def test_topic_and_key_have_their_place_in_the_path(server: WebServer) -> None:
    given = [*records("x", key="a/b é"), *records("y", key=None)]
    refused = send(server, given, "/${topic}/${key}?at=${topic}", request_method="put")
    assert [(request.method, request.path) for request in server.requests] == [
        ("PUT", "/orders/a%2Fb%20%C3%A9?at=orders")
    ]
    assert refused == [(10, "the record has no key, and http.api.url names it")]


def test_requests_of_one_batch_have_one_path(server: WebServer) -> None:
    given = [*records(1, 2, key="a"), *records(3, key="b")]
    send(server, given, "/${key}", batch_max_size="10")
    assert [(request.path, request.json) for request in server.requests] == [("/a", [1, 2]), ("/b", [3])]


def test_records_without_a_value_are_passed_over_or_deleted_or_refused(server: WebServer) -> None:
    given = records(1, None, 2, key="k")
    assert send(server, given) == []
    assert [request.method for request in server.requests] == ["POST", "POST"]
    server.requests.clear()
    assert send(server, given, "/${key}", behavior_on_null_values="delete", batch_max_size="9") == []
    assert [(request.method, request.body) for request in server.requests] == [
        ("POST", b"[1]"),
        ("DELETE", b""),
        ("POST", b"[2]"),
    ]
    assert send(server, given, behavior_on_null_values="fail") == [(11, "the record has no value")]


def test_headers_and_credentials_are_sent(server: WebServer) -> None:
    send(server, records(1), headers="X-One: 1|X-Two:two", auth_type="basic", **_pair("user", "pass"))
    headers = server.requests[0].headers
    assert (headers["X-One"], headers["X-Two"], headers["Authorization"]) == ("1", "two", "Basic dXNlcjpwYXNz")
    send(server, records(1), auth_type="BEARER", bearer_token="t", idempotency_header="")
    assert server.requests[1].headers["Authorization"] == "Bearer t"
    assert "Idempotency-Key" not in server.requests[1].headers


def _pair(user: str, password: str) -> dict[str, str]:
    return {"connection_user": user, "connection_password": password}


def test_a_connection_is_kept_and_opened_again_when_the_server_has_closed_it(server: WebServer) -> None:
    seen: list[str] = []

    def answer(request: Request) -> Answer:
        seen.append(request.headers["Idempotency-Key"])
        return Answer(headers=(("Connection", "close"),)) if len(seen) == 1 else Answer()

    server.answer = answer
    assert send(server, records(1, 2, 3), max_retries="0") == []
    assert len(seen) == 3


@pytest.mark.parametrize("url", ["ftp://host/in", "host/in", "http://", "http://${topic}/in"])
def test_what_is_no_place_to_send_to_is_refused(url: str) -> None:
    _, errors = parse(HttpSink.options, {"name": "web", "http.api.url": url})
    assert list(errors) == ["http.api.url"]


def test_a_config_that_cannot_work_is_refused_by_the_option_to_blame() -> None:
    url = "http://localhost/in"
    assert HttpSink.check(config_of(url)) == {}
    assert list(HttpSink.check(config_of(url, auth_type="BASIC"))) == ["connection.user"]
    assert list(HttpSink.check(config_of(url, auth_type="BEARER"))) == ["bearer.token"]
    assert list(HttpSink.check(config_of(url, headers="none"))) == ["headers"]
    with pytest.raises(Misconfigured):
        HttpSink(config_of("http://host:port/in")).write(iter(records(1)), BATCH)


def test_values_that_are_no_text_are_refused_as_texts(server: WebServer) -> None:
    refused = send(server, records("a", {"n": 1}, "b"), request_body_format="string")
    assert [offset for offset, _ in refused] == [11]
    assert [request.body for request in server.requests] == [b"a", b"b"]
