"""A worker and its API, from start to end."""

import asyncio
import os
import random
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from millstream.client.cluster import Cluster
from millstream.client.wire import Address
from millstream.metrics.metric import TURN_S
from millstream.model.clock import SystemClock
from millstream.net.http import HttpPeer, Page, Request
from millstream.pipelines.connect import job
from millstream.pipelines.connect.rest.api import Api
from millstream.pipelines.connect.rest.exchange import error
from millstream.pipelines.connect.rest.levels import LEVELS, Levels
from millstream.pipelines.connect.runtime.fleet import WorkerSettings
from millstream.pipelines.connect.runtime.worker import Worker
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.restarts import Restarts

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What may be listened on and cannot be called.
ANYWHERE = ("", "0.0.0.0", "::")
STOPPING = "stopping behind the batches under way; once more stops them at once"


@dataclass(frozen=True)
class ServeOptions:
    """What to serve, where, and on which Spark."""

    bootstrap: str
    addresses: Sequence[Address]
    data: str
    host: str
    port: int
    group: str = "connect"
    defaults: Mapping[str, str] = field(default_factory=dict)
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    providers: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = job.COMMAND
    restarts: Callable[[], Restarts] = Restarts


async def serve(options: ServeOptions, ready: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Serve until told to stop by a signal; ``ready`` is given the place once every connector is looked after."""
    async with Cluster(options.addresses) as cluster:
        await cluster.refresh([])
        stops: asyncio.Queue[int] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, stops.put_nowait, number)
        peers: set[HttpPeer] = set()
        front = Front()
        server = await _listen(options, front, peers)
        try:
            place = _place(options.host, server.sockets[0].getsockname()[1])
            worker = _worker(options, cluster, place, say)
            await _run(worker, front, stops, lambda: ready(f"http://{place}"), say)
        finally:
            server.close()
            for peer in list(peers):
                peer.close()
            for number in STOPS:
                loop.remove_signal_handler(number)


class Front:
    """What answers requests: nobody at first, then the API."""

    def __init__(self) -> None:
        self.api: Api | None = None

    async def answer(self, request: Request) -> Page:
        """The answer to any request at all."""
        if self.api is None:
            return error(HTTPStatus.SERVICE_UNAVAILABLE, "Worker is still starting up.")
        return await self.api.answer(request)


async def _listen(options: ServeOptions, front: Front, peers: set[HttpPeer]) -> asyncio.Server:
    def peer() -> HttpPeer:
        return HttpPeer(front.answer, peers, keeps_open=True)

    try:
        return await asyncio.get_running_loop().create_server(peer, options.host, options.port)
    except OSError as fault:
        words = os.strerror(fault.errno) if fault.errno else str(fault)
        raise PipelineError(f"--port {options.port}: {words}") from None


def _worker(options: ServeOptions, cluster: Cluster, place: str, say: Callable[[str], None]) -> Worker:
    settings = WorkerSettings(
        bootstrap=options.bootstrap,
        data=options.data,
        worker_id=place,
        group=options.group,
        defaults=options.defaults,
        master=options.master,
        conf=options.conf,
        providers=options.providers,
        env=options.env,
        command=options.command,
    )
    return Worker(settings, cluster, SystemClock(), random.random, say, options.restarts)


async def _run(
    worker: Worker,
    front: Front,
    stops: "asyncio.Queue[int]",
    ready: Callable[[], None],
    say: Callable[[str], None],
) -> None:
    levels = Levels(SystemClock().now_ms)
    api = front.api = Api(worker, levels)
    turning = asyncio.create_task(_turn(worker))
    try:
        if not await _is_opened(worker, stops):
            return
        for name, level in worker.store.configs.loggers.items():
            if level.upper() in LEVELS:
                levels.set(name, level.upper())
        api.is_ready = True
        ready()
        await _told_or_replaced(worker, stops)
        say(STOPPING)
        closing = asyncio.create_task(worker.close())
        again = asyncio.create_task(stops.get())
        await asyncio.wait((closing, again), return_when=asyncio.FIRST_COMPLETED)
        if not closing.done():
            worker.kill()
        again.cancel()
        await closing
    finally:
        turning.cancel()
        worker.kill()


async def _is_opened(worker: Worker, stops: "asyncio.Queue[int]") -> bool:
    """Whether it was opened; no longer tried once told to stop, for brokers may be away."""
    opening, told = asyncio.create_task(worker.open()), asyncio.create_task(stops.get())
    try:
        await asyncio.wait((opening, told), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
        return opening.done()
    finally:
        opening.cancel()
        told.cancel()


async def _told_or_replaced(worker: Worker, stops: "asyncio.Queue[int]") -> None:
    """Return when told to stop; what ``replaced`` raises is raised at once: another works on the connectors."""
    waiting = [asyncio.create_task(stops.get()), asyncio.create_task(worker.replaced())]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in waiting:
            task.cancel()


async def _turn(worker: Worker) -> None:
    while True:
        await asyncio.sleep(TURN_S)
        worker.metrics.metrics.turn()


def _place(host: str, port: int) -> str:
    """Where others find the worker: one that listens everywhere by the machine's name."""
    known = socket.gethostname() if host in ANYWHERE else host
    return f"[{known}]:{port}" if ":" in known else f"{known}:{port}"
