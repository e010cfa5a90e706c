"""Chores where nobody answers."""

import asyncio
import socket

from millstream.model.clock import SystemClock
from millstream.pipelines.mirror.definition import Mirror
from millstream.pipelines.mirror.upkeep import Upkeep


def test_a_cluster_that_does_not_answer_is_told() -> None:
    with socket.socket() as deaf:  # Bound and not listening: whoever comes is refused.
        deaf.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{deaf.getsockname()[1]}"
        text = f"clusters=A,B\nA.bootstrap.servers={place}\nB.bootstrap.servers={place}\nA->B.enabled=true\n"
        told: list[str] = []

        async def scenario() -> None:
            upkeep = Upkeep(Mirror(text, "f").flows[0], SystemClock(), told.append, lambda: told.append("away"))
            await upkeep.look()
            upkeep.close()

        asyncio.run(scenario())
    assert told == ["away"]
