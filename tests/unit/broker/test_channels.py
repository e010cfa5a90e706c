"""Ways to other brokers: what is asked, what is lost, what is refused, on a network in memory."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from millstream.broker.channels import BROKER_SOFTWARE, BrokerChannels
from millstream.broker.neighbours import Neighbour
from millstream.net.channel import Address
from millstream.net.network import TcpNetwork
from millstream.net.peer import FramedPeer, Limits
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_request_header, response_header
from millstream.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from millstream.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from millstream.protocol.messages.fetch import FetchRequest, FetchResponse
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.simulation.loop import run
from tests.simulation.network import SimNetwork, SimServer

REQUESTS = (ApiVersionsRequest, FetchRequest, AlterPartitionRequest, LeaderAndIsrRequest, UpdateMetadataRequest)
OWN, OTHER = 1, 2
HOST, PORT = "other", 9092


class Peer(FramedPeer):
    """A broker that answers everything with nothing, but for kinds it keeps silent about."""

    def __init__(self, silent: set[type[Any]], peers: list["Peer"]) -> None:
        super().__init__(asyncio.get_running_loop(), Limits(1 << 20))
        self.asked: list[Any] = []
        self.lost: asyncio.Future[Exception | None] = self.loop.create_future()
        self._silent = silent
        peers.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)
        super().connection_lost(error)

    def frame_received(self, frame: memoryview) -> None:
        header = decode_request_header(frame)
        kind = next(request for request in REQUESTS if header.api_key == request.API_KEY)
        request = decode(kind, frame, header.api_version, header.body_at)
        self.asked.append(request)
        if kind in self._silent:
            return
        keys = [ApiVersion(api_key=k.API_KEY, min_version=k.VERSIONS[0], max_version=k.VERSIONS[1]) for k in REQUESTS]
        answer = ApiVersionsResponse(api_keys=keys) if kind is ApiVersionsRequest else kind.RESPONSE()
        body = response_header(header.api_key, header.api_version, header.correlation_id)
        body += encode(answer, header.api_version)
        self.send([len(body).to_bytes(4), body])


class Ground:
    """This broker's channels, and another broker that may be there."""

    def __init__(self, network: SimNetwork) -> None:
        self.network = network
        self.silent: set[type[Any]] = set()
        self.peers: list[Peer] = []
        self.epoch = 10
        self.address = Address(HOST, PORT)
        self.refused: list[tuple[int, int, bool]] = []
        self.lost: list[int] = []
        self.own: list[Any] = []
        self.channels = BrokerChannels(OWN, network, self.find, self.here, lambda: 30_000)  # type: ignore[arg-type]
        self.channels.on_refused = lambda *row: self.refused.append(row)
        self.channels.on_lost = self.lost.append

    async def find(self, broker_id: int) -> Neighbour:
        if broker_id != OTHER:
            raise ConnectionRefusedError(f"broker {broker_id} is not registered")
        return Neighbour(self.address, self.epoch)

    async def here(self, request: Any) -> Any:
        self.own.append(request)
        return request.RESPONSE()

    async def listen(self) -> SimServer:
        with self.network.as_node(HOST):
            return await self.network.listen(lambda: Peer(self.silent, self.peers), HOST, PORT)


def scenario(body: Callable[[Ground], Coroutine[Any, Any, None]]) -> None:
    network = SimNetwork()

    async def play() -> None:
        ground = Ground(network)
        await body(ground)
        await ground.channels.close()

    run(play(), network)


def test_a_broker_asks_itself_by_a_call() -> None:
    async def body(ground: Ground) -> None:
        request = AlterPartitionRequest()
        assert isinstance(await ground.channels.send(OWN, request), AlterPartitionResponse)
        assert ground.own == [request] and not ground.peers

    scenario(body)


def test_a_broker_does_not_wait_for_itself_for_ever_but_ends_what_it_began() -> None:
    async def body(ground: Ground) -> None:
        ended = asyncio.Event()

        async def slow(request: Any) -> Any:
            await asyncio.sleep(5)
            ended.set()

        ground.channels._here = slow
        with pytest.raises(TimeoutError):
            await ground.channels.send(OWN, AlterPartitionRequest(), timeout_ms=1_000)
        assert not ended.is_set()
        await asyncio.sleep(5)
        assert ended.is_set()

    scenario(body)


def test_connections_are_kept_and_the_orders_share_one() -> None:
    async def body(ground: Ground) -> None:
        await ground.listen()
        for _ in range(3):
            assert isinstance(await ground.channels.send(OTHER, LeaderAndIsrRequest()), LeaderAndIsrResponse)
            assert isinstance(await ground.channels.send(OTHER, UpdateMetadataRequest()), UpdateMetadataResponse)
        (peer,) = ground.peers
        assert peer.asked[0].client_software_name == BROKER_SOFTWARE
        assert len(peer.asked) == 7

    scenario(body)


def test_what_waits_long_holds_up_nothing_else() -> None:
    async def body(ground: Ground) -> None:
        await ground.listen()
        ground.silent.add(FetchRequest)
        fetching = asyncio.create_task(ground.channels.send(OTHER, FetchRequest()))
        await asyncio.sleep(1)
        before_s = asyncio.get_running_loop().time()
        await ground.channels.send(OTHER, AlterPartitionRequest())
        assert asyncio.get_running_loop().time() - before_s < 0.1
        assert not fetching.done() and len(ground.peers) == 2
        fetching.cancel()

    scenario(body)


def test_nobody_listening_is_told_from_nobody_registered_and_from_nobody_answering() -> None:
    async def body(ground: Ground) -> None:
        with pytest.raises(ConnectionRefusedError, match="not registered"):
            await ground.channels.send(7, AlterPartitionRequest())
        assert ground.refused == []
        with pytest.raises(ConnectionRefusedError):
            await ground.channels.send(OTHER, AlterPartitionRequest())
        assert ground.refused == [(OTHER, 10, False)]  # It was never reached.
        await ground.listen()
        ground.silent.add(AlterPartitionRequest)
        with pytest.raises(TimeoutError):
            await ground.channels.send(OTHER, AlterPartitionRequest(), timeout_ms=500)
        assert isinstance(await ground.channels.send(OTHER, FetchRequest()), FetchResponse)

    scenario(body)


def test_a_broker_that_dies_is_noticed_by_itself_and_its_askers_hear_a_reset() -> None:
    async def body(ground: Ground) -> None:
        await ground.listen()
        ground.silent.add(FetchRequest)
        ground.channels.keep(OTHER, AlterPartitionRequest)
        fetching = asyncio.create_task(ground.channels.send(OTHER, FetchRequest()))
        await asyncio.sleep(0.1)
        ground.network.kill(HOST)
        with pytest.raises(ConnectionResetError):
            await fetching
        await asyncio.sleep(0.1)
        assert set(ground.lost) == {OTHER}
        assert set(ground.refused) == {(OTHER, 10, True)}

    scenario(body)


def test_a_connection_that_is_lost_is_made_again_without_being_asked_for() -> None:
    async def body(ground: Ground) -> None:
        await ground.listen()
        ground.channels.keep(OTHER, AlterPartitionRequest)
        await asyncio.sleep(0.1)
        ground.network.reset(HOST)
        await asyncio.sleep(0.1)
        assert ground.lost == [OTHER] and ground.refused == [] and len(ground.peers) == 2

    scenario(body)


def test_a_broker_that_registered_anew_is_connected_to_anew() -> None:
    async def body(ground: Ground) -> None:
        server = await ground.listen()
        await ground.channels.send(OTHER, AlterPartitionRequest())
        ground.epoch = 11
        ground.channels.drop(OTHER)
        assert ground.lost == []
        await ground.channels.send(OTHER, AlterPartitionRequest())
        assert len(ground.peers) == 2
        server.close()
        ground.network.reset(HOST)
        await asyncio.sleep(0.1)
        assert ground.refused == [(OTHER, 11, True)]

    scenario(body)


def test_whoever_cannot_be_connected_to_in_time_is_given_up() -> None:
    async def body(ground: Ground) -> None:
        await ground.listen()
        ground.network.partition(["client"], [HOST])
        before_s = asyncio.get_running_loop().time()
        with pytest.raises(TimeoutError):
            await ground.channels.send(OTHER, AlterPartitionRequest(), timeout_ms=2_000)
        assert asyncio.get_running_loop().time() - before_s == pytest.approx(2)
        ground.network.heal()
        await ground.channels.send(OTHER, AlterPartitionRequest())

    scenario(body)


def test_a_connection_that_is_given_up_is_reset_so_that_nothing_arrives_after_it_was_asked_again() -> None:
    """On a real socket: a close would let the system go on sending what is held up."""

    async def play() -> None:
        peers: list[Peer] = []
        server = await TcpNetwork().listen(lambda: Peer({AlterPartitionRequest}, peers), "127.0.0.1")
        await server.start_serving()
        port = server.sockets[0].getsockname()[1]
        ground = Ground(TcpNetwork())  # type: ignore[arg-type]
        ground.address = Address("127.0.0.1", port)
        with pytest.raises(TimeoutError):
            await ground.channels.send(OTHER, AlterPartitionRequest(), timeout_ms=200)
        assert isinstance(await asyncio.wait_for(peers[0].lost, 10), ConnectionResetError)
        await ground.channels.close()
        server.close()

    asyncio.run(play())
