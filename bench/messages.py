"""Whole messages on the raw client's socket, for what is too intricate to be laid out by hand.

The project's own codecs write them; what is timed was encoded before the clock started all the same.
"""

import struct
import time
from typing import TypeVar

from bench import wire
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_response_header, encode_request_header
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from millstream.protocol.schema import Request, Response

GROUP, TRANSACTION = 0, 1
_LENGTH = struct.Struct(">i")
_FIND_COORDINATOR_VERSION = 4
_METADATA_VERSION = 12

R = TypeVar("R", bound=Response)


def frame(request: Request, version: int) -> bytes:
    """The request as it goes over the wire."""
    body = encode_request_header(request.API_KEY, version, 0, wire.CLIENT_ID.decode()) + encode(request, version)
    return _LENGTH.pack(len(body)) + body


def answer(response: type[R], received: memoryview, version: int) -> R:
    """The message in an answer's frame (without its length prefix)."""
    _, at = decode_response_header(received, response.API_KEY, version)
    return decode(response, received, version, at)


def ask(connection: wire.Connection, request: Request, response: type[R], version: int) -> R:
    return answer(response, connection.ask(frame(request, version)), version)


def await_coordinator(connection: wire.Connection, kind: int, key: str, timeout_s: float = 60.0) -> None:
    """Return once the server, the only one there is, coordinates the group or transactional id."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    deadline = time.monotonic() + timeout_s
    while True:
        found = ask(connection, request, FindCoordinatorResponse, _FIND_COORDINATOR_VERSION).coordinators[0]
        if not found.error_code:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{key} has no coordinator after {timeout_s} s: error {found.error_code}")
        time.sleep(0.02)


def partitions_of(connection: wire.Connection, topic: str) -> list[MetadataResponsePartition]:
    """The topic's partitions as the server knows them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found = ask(connection, request, MetadataResponse, _METADATA_VERSION).topics[0]
    check(f"metadata of {topic}", found.error_code)
    return found.partitions


def check(what: str, code: int) -> None:
    if code:
        raise wire.Refused(f"{what}: error {code}")
