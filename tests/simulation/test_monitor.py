"""A broker tells its watchers when it can serve nobody."""

import asyncio

from tests.simulation.asking import create, produce, simulate
from tests.simulation.broker import HOST, SimBroker
from tests.simulation.network import SimNetwork

METRICS_PORT = 9308


class Asking(asyncio.Protocol):
    """Collects an answer until its connection ends."""

    def __init__(self) -> None:
        self.answer = b""
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.answer += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(None)


async def status(network: SimNetwork, path: str) -> int:
    with network.as_node("watcher"):
        transport, asking = await network.connect(Asking, HOST, METRICS_PORT)
    transport.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    await asking.ended
    return int(asking.answer.split(b" ")[1])


def test_a_broker_without_a_disk_is_alive_but_not_ready() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, settings={"metrics.listener": f"{HOST}:{METRICS_PORT}"})
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        assert await status(network, "/health/ready") == 200
        machine.files.fail("append", path="/data/*")
        await produce(connection, "orders", b"lost")
        assert await status(network, "/health/ready") == 503
        assert await status(network, "/health/live") == 200
        assert await status(network, "/metrics") == 200
        machine.files.heal()
        await machine.stop()

    simulate(scenario)
