"""What a command keeps running: alone on its checkpoint, shown while it runs, and summed up at its end."""

import asyncio
from typing import Protocol

from millstream.cli.pipeline.display import Terminal
from millstream.model.clock import Clock
from millstream.pipelines.running.lock import held
from millstream.pipelines.running.progress import Progress

METRICS_HOST = "127.0.0.1"


class Supervised(Protocol):
    """A supervisor, or several as one."""

    progress: Progress

    async def run(self, metrics_at: tuple[str, int] | None = None) -> None:
        """Return when it is done or told to stop; PipelineError when it cannot go on."""
        ...


def keep(supervised: Supervised, display: Terminal, clock: Clock, checkpoint: str, metrics_port: int | None) -> None:
    """Run it to its end; PipelineError when it cannot go on, or another process holds the checkpoint."""
    before_s = clock.monotonic_s()
    try:
        with held(checkpoint):
            asyncio.run(supervised.run(None if metrics_port is None else (METRICS_HOST, metrics_port)))
    finally:
        display.done()
    display.say(supervised.progress.summary(clock.monotonic_s() - before_s))
