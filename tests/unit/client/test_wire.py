"""The connection to one broker, sound or not."""

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from millstream.client.wire import Address, ConnectionLost, Unreachable, connect, parse_addresses
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.net.outbox import Part
from millstream.protocol.codec import encode
from millstream.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from millstream.protocol.messages.produce import ProduceRequest
from tests.unit.client.scripted_broker import HangUp, ScriptedBroker, metadata_of

METADATA = MetadataRequest.API_KEY
VERSIONS = ApiVersionsRequest.API_KEY


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work

    asyncio.run(bounded())


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("host:1", [Address("host", 1)]),
        ("host", [Address("host", 9092)]),
        (" a:1 , b:2 ", [Address("a", 1), Address("b", 2)]),
        ("[::1]:5", [Address("::1", 5)]),
        ("[::1]", [Address("::1", 9092)]),
        ("::1", [Address("::1", 9092)]),
    ],
)
def test_addresses_are_read(text: str, addresses: list[Address]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize("text", ["", ",", ":1", "host:", "host:x", "host:0", "host:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT"):
        parse_addresses(text)


def test_an_address_prints_as_it_is_written() -> None:
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]


def test_a_connection_begins_with_the_versions_both_sides_know() -> None:
    async def scenario() -> None:
        ranges = {VERSIONS: (0, 4), METADATA: (0, 99), ProduceRequest.API_KEY: (0, 2)}
        async with ScriptedBroker(versions=ranges) as broker:
            connection = await connect(broker.address)
            assert connection.version_for(MetadataRequest) == MetadataRequest.VERSIONS[1]
            with pytest.raises(ProtocolError, match="serves Produce at versions 0-2, 3-13 are known here"):
                connection.version_for(ProduceRequest)
            del connection.versions[METADATA]
            with pytest.raises(ProtocolError, match="does not serve Metadata"):
                connection.version_for(MetadataRequest)
            connection.close()

    run(scenario())


def test_a_broker_that_knows_only_old_versions_is_understood() -> None:
    """It answers at version 0, whatever it was asked at, and says error 35."""
    body = b"\x00\x23" + b"\x00\x00\x00\x02" + b"\x00\x12\x00\x00\x00\x02" + b"\x00\x03\x00\x00\x00\x05"

    async def scenario() -> None:
        frame = b"\x00\x00\x00\x01" + body
        handler = lambda request: len(frame).to_bytes(4, "big") + frame  # noqa: E731
        async with ScriptedBroker({VERSIONS: handler}) as broker:
            connection = await connect(broker.address)
            assert connection.versions == {18: (0, 2), 3: (0, 5)}
            connection.close()

    run(scenario())


def test_a_broker_that_lists_only_apiversions_is_asked_again() -> None:
    async def scenario() -> None:
        answers = iter([b"\x00\x00\x00\x01\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x02"])

        async with ScriptedBroker() as broker:

            def handle(request: object) -> Any:
                frame = next(answers, None)
                if frame is None:
                    return broker.tell_versions(ApiVersionsRequest())
                return len(frame).to_bytes(4, "big") + frame

            broker.handlers[VERSIONS] = handle
            connection = await connect(broker.address)
            assert METADATA in connection.versions
            connection.close()

    run(scenario())


def test_requests_are_pipelined_and_each_gets_its_own_answer() -> None:
    async def scenario() -> None:
        leaders = {f"t{number}": [1] * number for number in range(1, 50)}
        async with ScriptedBroker({METADATA: metadata_of({}, leaders)}) as broker:
            connection = await connect(broker.address)
            requests = [MetadataRequest(topics=[MetadataRequestTopic(name=name)]) for name in leaders]
            calls = [asyncio.ensure_future(connection.call(request, MetadataResponse)) for request in requests]
            await asyncio.sleep(0)
            assert connection.in_flight == len(leaders)
            answers = await asyncio.gather(*calls)
            assert [len(answer.topics[0].partitions) for answer in answers] == list(range(1, 50))
            connection.close()

    run(scenario())


def test_what_is_asked_in_one_turn_goes_in_one_piece_and_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with ScriptedBroker({METADATA: metadata_of({}, {"t": [1]})}) as broker:
            connection = await connect(broker.address)
            pieces: list[int] = []
            send = connection._outbox.send

            def noted(parts: Sequence[Part]) -> None:
                pieces.append(len(parts))
                send(parts)

            monkeypatch.setattr(connection._outbox, "send", noted)
            calls = [connection.call(MetadataRequest(), MetadataResponse) for _ in range(3)]
            assert len(await asyncio.gather(*calls)) == 3
            assert pieces == [3]

            pieces.clear()
            call = asyncio.ensure_future(connection.call(MetadataRequest(), MetadataResponse))
            await asyncio.sleep(0)
            answered: asyncio.Future[None] = connection.loop.create_future()
            frame = connection.frame_of(MetadataRequest(), connection.version_for(MetadataRequest))
            connection.send_frame(frame, lambda _: answered.set_result(None))
            assert pieces == [1, 1], "what cannot wait goes behind what was asked before"
            await asyncio.gather(call, answered)
            assert pieces == [1, 1]
            connection.close()

    run(scenario())


def test_a_lost_connection_fails_everything_on_its_way_and_after() -> None:
    async def scenario() -> None:
        def hang_up(request: object) -> None:
            raise HangUp

        async with ScriptedBroker({METADATA: hang_up}) as broker:
            connection = await connect(broker.address)
            calls = [connection.call(MetadataRequest(), MetadataResponse) for _ in range(3)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [ConnectionLost] * 3
            with pytest.raises(ConnectionLost, match="was closed"):
                await connection.call(MetadataRequest(), MetadataResponse)

    run(scenario())


def test_an_answer_that_does_not_come_is_given_up_and_its_late_arrival_confuses_nobody() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({METADATA: lambda request: None}) as broker:
            connection = await connect(broker.address)
            with pytest.raises(TimeoutError, match=r"did not answer within 0\.05 s"):
                await connection.call(MetadataRequest(), MetadataResponse, timeout_s=0.05)
            assert connection.in_flight == 1
            late, prompt = (framed(number, name) for number, name in ((2, "late"), (3, "prompt")))
            broker.handlers[METADATA] = lambda request: late + prompt
            answer = await connection.call(MetadataRequest(topics=None), MetadataResponse)
            assert answer.topics[0].name == "prompt"
            connection.close()

    run(scenario())


def framed(correlation_id: int, topic: str) -> bytes:
    """The frame of a Metadata answer that names one topic."""
    answer = metadata_of({}, {topic: [1]})(MetadataRequest(topics=None))
    assert isinstance(answer, MetadataResponse)
    body = correlation_id.to_bytes(4, "big") + b"\x00" + encode(answer, MetadataRequest.VERSIONS[1])
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "an answer out of its turn"),
        (b"\x00\x00\x00\x02\x00\x00", "an answer that nobody asked for"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
    ],
)
def test_nonsense_closes_the_connection_and_is_named(raw: bytes, told: str) -> None:
    async def scenario() -> None:
        async with ScriptedBroker({METADATA: lambda request: raw}) as broker:
            connection = await connect(broker.address)
            with pytest.raises(ConnectionLost, match=told):
                await connection.call(MetadataRequest(), MetadataResponse)

    run(scenario())


def test_an_answer_cut_short_is_corrupt_but_the_connection_goes_on() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({METADATA: lambda request: b"\x00\x00\x00\x05\x00\x00\x00\x02\x00"}) as broker:
            connection = await connect(broker.address)
            with pytest.raises(CorruptFrame):
                await connection.call(MetadataRequest(), MetadataResponse)
            await connection.call(ApiVersionsRequest(), ApiVersionsResponse)
            connection.close()

    run(scenario())


def test_a_port_where_nobody_listens_is_told_with_advice() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        async def scenario() -> None:
            with pytest.raises(Unreachable, match=f"nothing listens at 127.0.0.1:{port}.*millstream serve"):
                await connect(Address("127.0.0.1", port))

        run(scenario())


def test_a_server_of_another_kind_is_told_from_a_broker() -> None:
    async def scenario() -> None:
        async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(other, "127.0.0.1", 0)
        address = Address(*server.sockets[0].getsockname()[:2])
        with pytest.raises(ConnectionLost, match="was closed"):
            await connect(address)
        server.close()
        await server.wait_closed()

    run(scenario())


def test_a_server_that_says_nothing_is_given_up() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({VERSIONS: lambda request: None}) as broker:
            with pytest.raises(TimeoutError, match=r"did not answer within 0\.05 s"):
                await connect(broker.address, timeout_s=0.05)

    run(scenario())


def test_a_refusal_to_tell_versions_is_passed_on() -> None:
    async def scenario() -> None:
        refusal = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        async with ScriptedBroker({VERSIONS: lambda request: refusal}) as broker:
            with pytest.raises(ProtocolError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await connect(broker.address)

    run(scenario())
