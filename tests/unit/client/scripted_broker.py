"""A broker that answers as a test scripts it, on a real socket: for what a sound broker never does."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from millstream.client.wire import Address
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_request_header, response_header
from millstream.protocol.messages import REQUESTS
from millstream.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from millstream.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from millstream.protocol.schema import Request, Response

#: What to answer a request with; None for nothing, bytes for exactly these, an exception to hang up.
Answer = Response | bytes | None
Handler = Callable[[Request], Answer]


class HangUp(Exception):
    """Close the connection instead of answering."""


class ScriptedBroker:
    """Listens on a free port; ``handlers`` answer requests by their API key, ``seen`` keeps them all."""

    def __init__(
        self, handlers: dict[int, Handler] | None = None, *, versions: dict[int, tuple[int, int]] | None = None
    ):
        self.versions = versions or {key: request.VERSIONS for key, request in REQUESTS.items()}
        self.handlers: dict[int, Handler] = {ApiVersionsRequest.API_KEY: self.tell_versions, **(handlers or {})}
        self.seen: list[Request] = []
        self.address = Address("127.0.0.1", 0)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = Address(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def tell_versions(self, request: Request) -> Answer:
        rows = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(api_keys=rows)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(length)
                answer = self._answer(frame)
                if answer is not None:
                    writer.write(answer)
        except (HangUp, asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, frame: bytes) -> bytes | None:
        header = decode_request_header(frame)
        request = decode(REQUESTS[header.api_key], frame, header.api_version, header.body_at)
        self.seen.append(request)
        answer = self.handlers[header.api_key](request)
        if answer is None or isinstance(answer, bytes):
            return answer
        body = response_header(header.api_key, header.api_version, header.correlation_id)
        body += encode(answer, header.api_version)
        return len(body).to_bytes(4, "big") + body


def metadata_of(brokers: dict[int, Address], leaders: dict[str, list[int]], *, controller: int = 1) -> Handler:
    """A handler for Metadata: who there is, and who leads each partition of each topic."""

    def handle(request: Request) -> MetadataResponse:
        assert isinstance(request, MetadataRequest)
        names = list(leaders) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node, host=at.host, port=at.port) for node, at in brokers.items()],
            cluster_id="scripted",
            controller_id=controller,
            topics=[
                MetadataResponseTopic(
                    error_code=0 if name in leaders else 3,
                    name=name,
                    topic_id=name.encode().ljust(16, b"."),
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index, leader_id=leader, replica_nodes=[leader], isr_nodes=[leader]
                        )
                        for index, leader in enumerate(leaders.get(name, ()))
                    ],
                )
                for name in names
            ],
        )

    return handle
