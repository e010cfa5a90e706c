"""A client's connection, apart from any broker."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from millstream.broker.connection import ClientConnection
from millstream.broker.table import ROUTES
from millstream.model.clock import SystemClock
from millstream.net.peer import Limits
from millstream.net.vigil import Vigil


def test_a_request_that_nobody_ended_lets_go_of_its_connection_when_the_loop_is_closed() -> None:
    """Its coroutine is collected as garbage: there is nothing more to start, and nobody to tell of an error."""
    loop = asyncio.new_event_loop()
    broker = cast("Any", SimpleNamespace(clock=SystemClock()))
    connection = ClientConnection(
        broker, ROUTES, "PLAINTEXT", loop, Limits(1_000, 1_000), Vigil(loop, SystemClock().monotonic_s)
    )
    with connection.holding():
        loop.close()
