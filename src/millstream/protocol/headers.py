"""Request and response headers: who asks what, and which answer belongs to which question.

A request header is flexible exactly when its body is, but its client id keeps the old length prefix in every
version, so that a broker can read the header of a version it does not know.
"""

from struct import Struct, error
from typing import Final, NamedTuple

from millstream.model.errors import CorruptFrame
from millstream.protocol.messages import REQUESTS
from millstream.protocol.messages.api_versions import ApiVersionsRequest
from millstream.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from millstream.protocol.wire import Buffer, skip_tags

_START: Final = Struct(">hhi")
_START_AND_LENGTH: Final = Struct(">hhih")
_CORRELATION_ID: Final = Struct(">i")
_FLEXIBLE_RESPONSE: Final = Struct(">ix")
_read_start = _START_AND_LENGTH.unpack_from
_CLIENT_ID_AT: Final = _START_AND_LENGTH.size

#: API key -> the first version whose headers carry tagged fields; keys we do not know have no body to reach.
_FLEXIBLE_FROM: Final = {key: request.FLEXIBLE_FROM for key, request in REQUESTS.items()}
_NEVER: Final = 1 << 16


class RequestHeader(NamedTuple):
    """What precedes a request; ``body_at`` is where the request itself starts."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


def decode_request_header(buffer: Buffer) -> RequestHeader:
    """The header at the start of a frame; for an unknown API or version as much as it takes to answer."""
    try:
        key, version, correlation_id, length = _read_start(buffer, 0)
    except error as fault:
        return _without_client_id(buffer, fault)
    if version == 0 and key == ControlledShutdownRequest.API_KEY:
        return RequestHeader(key, version, correlation_id, None, _START.size)
    at = _CLIENT_ID_AT
    client_id = None
    if length >= 0:
        at += length
        if at > len(buffer):
            raise CorruptFrame(f"a client id of {length} bytes runs past the end of the frame")
        try:
            client_id = str(buffer[_CLIENT_ID_AT:at], "utf-8")
        except UnicodeDecodeError as fault:
            raise CorruptFrame(f"client id: {fault}") from fault
    if version >= _FLEXIBLE_FROM.get(key, _NEVER):
        try:
            tags = buffer[at]
            at = skip_tags(buffer, at + 1, tags) if tags else at + 1
        except IndexError as fault:
            raise CorruptFrame("the request header is cut short") from fault
    return RequestHeader(key, version, correlation_id, client_id, at)


def _without_client_id(buffer: Buffer, fault: error) -> RequestHeader:
    """The header of version 0, which only the first ControlledShutdown has; anything else this short is cut off."""
    if len(buffer) >= _START.size:
        key, version, correlation_id = _START.unpack_from(buffer, 0)
        if version == 0 and key == ControlledShutdownRequest.API_KEY:
            return RequestHeader(key, version, correlation_id, None, _START.size)
    raise CorruptFrame(f"a frame of {len(buffer)} bytes holds no request header") from fault


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header to put before a request of this API and version."""
    if version == 0 and api_key == ControlledShutdownRequest.API_KEY:
        return _START.pack(api_key, version, correlation_id)
    tags = b"\0" if version >= _FLEXIBLE_FROM.get(api_key, _NEVER) else b""
    if client_id is None:
        return _START_AND_LENGTH.pack(api_key, version, correlation_id, -1) + tags
    raw = client_id.encode()
    return _START_AND_LENGTH.pack(api_key, version, correlation_id, len(raw)) + raw + tags


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header to put before a response.

    ApiVersions never has a flexible one: a client that asks it does not know yet what the broker understands.
    """
    if version >= _FLEXIBLE_FROM.get(api_key, _NEVER) and api_key != ApiVersionsRequest.API_KEY:
        return _FLEXIBLE_RESPONSE.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def decode_response_header(buffer: Buffer, api_key: int, version: int) -> tuple[int, int]:
    """The correlation id of a response and where its body starts."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, 0)
        at = _CORRELATION_ID.size
        if version >= _FLEXIBLE_FROM.get(api_key, _NEVER) and api_key != ApiVersionsRequest.API_KEY:
            at = skip_tags(buffer, at + 1, buffer[at])
    except (error, IndexError) as fault:
        raise CorruptFrame("the response header is cut short") from fault
    return correlation_id, at
