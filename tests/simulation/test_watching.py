"""For whose next request a broker stays awake."""

from typing import Any, cast

from millstream.broker.connection import ALONE_LEAST, ClientConnection
from millstream.broker.table import ROUTES
from millstream.net.peer import Limits
from millstream.net.vigil import Vigil
from millstream.protocol.codec import encode_parts
from millstream.protocol.messages.metadata import MetadataRequest
from tests.simulation.asking import simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork

#: Metadata 4, correlation id 1, no client id.
HEADER = b"\0\3\0\4\0\0\0\1\xff\xff"


class CountingVigil(Vigil):
    """Tells how often it was begun."""

    watches = 0

    def answered(self) -> None:
        """Somebody was answered."""
        self.watches += 1


class Nowhere:
    """Answers end here."""

    pending_bytes = 0

    def send(self, parts: object) -> None:
        """Drop them."""


class Client:
    """A connection that is fed by hand, as many requests at a time as wanted."""

    def __init__(self, machine: SimBroker) -> None:
        broker = machine.broker
        assert broker is not None
        self.vigil = CountingVigil(machine.loop, machine.clock.monotonic_s)
        limits = Limits(1_000, 1_000)
        self._connection = ClientConnection(broker, ROUTES, "PLAINTEXT", machine.loop, limits, self.vigil)
        self._connection._outbox = cast("Any", Nowhere())
        self._frame = HEADER + b"".join(map(bytes, cast("Any", encode_parts(MetadataRequest(topics=[]), 4))))

    def ask(self, count: int = 1) -> bool:
        """Whether the broker stays awake after it has answered so many requests that came at once."""
        before = self.vigil.watches
        for _ in range(count):
            self._connection.frame_received(memoryview(bytearray(self._frame)))
        self._connection.turn_ended()
        return self.vigil.watches > before


def test_who_asks_ahead_is_watched_for_only_where_it_has_the_broker_to_itself() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        one, other = Client(machine), Client(machine)
        assert one.ask()
        assert one.ask(3), "nobody else is here"
        assert other.ask()
        assert not one.ask(3)
        assert other.ask(), "it waits for each answer"
        assert [one.ask() for _ in range(ALONE_LEAST)] == [False] * (ALONE_LEAST - 1) + [True]
        await machine.stop()

    simulate(scenario)
