"""A cluster on this machine: ZooKeeper and brokers as processes, started together and stopped in order."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.cli.cluster.held import hold, named, running_brokers
from millstream.cli.cluster.zookeeper import (
    HOST,
    START_TIMEOUT_S,
    Ports,
    ZooKeeperServer,
    find_jars,
    find_java,
    free_ports,
    how_it_ended,
)
from millstream.cli.failure import CommandFailed
from millstream.config.listeners import parse_place
from millstream.config.network import ADVERTISED_LISTENERS, METRICS_LISTENER
from millstream.config.zookeeper import ZOOKEEPER_CONNECTION_TIMEOUT_MS

if TYPE_CHECKING:
    from millstream.config.broker import BrokerConfig

#: Where ZooKeeper's ports lie above the brokers': for clients, for its peers, for elections.
ZOOKEEPER_OFFSETS = (100, 200, 300)
#: Brokers start beside ZooKeeper, so each waits for it for as long as we do, and then as long as it would anyway.
REGISTRY_TIMEOUT_MS = int(START_TIMEOUT_S * 1000) + ZOOKEEPER_CONNECTION_TIMEOUT_MS.default
#: A broker hands its partitions over before it ends.
STOP_TIMEOUT_S = 30.0
ROOT = "/millstream"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: how many of each, from which port on (0: any that are free), over which folder."""

    brokers: int
    zookeepers: int
    port: int
    data: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def broker_settings(self, number: int) -> dict[str, str]:
        """A broker's settings: every topic survives the loss of a broker where there are three."""
        replicas, in_sync = str(min(3, self.brokers)), str(2 if self.brokers > 2 else 1)
        return {
            "broker.id": str(number),
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "zookeeper.connection.timeout.ms": str(REGISTRY_TIMEOUT_MS),
            **self.settings,
        }


class LocalBroker:
    """One broker process."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self.address = ""  #: once it is ready
        self.metrics = ""  #: where they are shown, if anywhere
        self._command = command
        self._process: Process | None = None
        self._complaints: list[str] = []
        self._reading: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start the process; ``ready`` says when it serves."""
        # In a session of its own, for Ctrl-C in a terminal is meant for us: brokers are stopped in turn.
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        self._reading = asyncio.create_task(self._read_complaints())

    async def ready(self) -> None:
        """Return once it serves; CommandFailed with its own words when it ends instead."""
        assert self._process is not None and self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b"metrics "):
                self.metrics = line.split()[1].decode()
            if line.startswith(b"ready "):
                self.address = line.split()[1].decode()
                return
        await self.ended()
        said = self._complaints[-1].removeprefix("millstream: ") if self._complaints else "it says nothing"
        raise CommandFailed(f"broker {self.number} did not start: {said}")

    async def ended(self) -> str:
        """Return once it has ended, with how."""
        assert self._process is not None and self._reading is not None
        status = await self._process.wait()
        await self._reading
        again = shlex.join(self._command)
        return f"broker {self.number} {how_it_ended(status)}; start it again with: {again}"

    async def stop(self) -> None:
        """Have it end as SIGTERM does, by force if it must be."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
            except TimeoutError:
                self._process.kill()
        await self.ended()

    async def _read_complaints(self) -> None:
        """Pass on what it says of trouble; at its start the last word is kept for whoever started it."""
        assert self._process is not None and self._process.stderr is not None
        async for line in self._process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._complaints = [text]
            if self.address:
                print(f"broker {self.number}: {text}", file=sys.stderr)


class LocalCluster:
    """The processes of a plan."""

    def __init__(self, plan: Plan) -> None:
        """CommandFailed when the plan cannot be, before anything is made.

        Settings that are wrong, no ZooKeeper to run, a folder that is in use or not ours, ports that are taken.
        """
        _check_settings(plan)
        find_java(os.environ), find_jars(os.environ)
        # A folder that is not there is nobody's, and is made once all is known to be well.
        self._lock = hold(plan.data) if plan.data.exists() else None
        _check_data(plan)
        zookeepers, brokers = _ports(plan)
        self._data = data = plan.data.absolute()
        self.zookeepers = [
            ZooKeeperServer(data / f"zookeeper-{number}", number, zookeepers)
            for number in range(1, plan.zookeepers + 1)
        ]
        registry = f"zk://{','.join(server.address for server in self.zookeepers)}{ROOT}"
        self.brokers = [
            LocalBroker(number, _command(plan, number, port, data, registry)) for number, port in enumerate(brokers, 1)
        ]

    async def start(self, tell: Callable[[str], None]) -> None:
        """Start all at once, for brokers wait for ZooKeeper; returns when all of them serve."""
        self._lock = self._lock or hold(self._data)
        for server in self.zookeepers:
            # It holds the folder as well: where we are killed it runs on, and must not be given a rival.
            server.start(keep_open=[self._lock.fileno()])
        for broker in self.brokers:
            await broker.start()
        for server in self.zookeepers:
            await asyncio.to_thread(server.wait)
            tell(f"zookeeper {server.address}")
        await asyncio.gather(*(broker.ready() for broker in self.brokers))
        for broker in self.brokers:
            tell(f"broker {broker.number} pid {broker.pid} {broker.address}")
            if broker.metrics:
                tell(f"metrics {broker.number} {broker.metrics}")
        tell(f"ready {','.join(broker.address for broker in self.brokers)}")

    async def stop(self) -> None:
        """Stop the brokers one after the other, so that each can hand over to the rest, and then ZooKeeper.

        Without a majority of ZooKeepers nothing can be handed over, and they wait in vain for it together.
        """
        can_decide = 2 * sum(server.is_running() for server in self.zookeepers) > len(self.zookeepers)
        turns = asyncio.Semaphore(1 if can_decide else len(self.brokers))

        async def stop(broker: LocalBroker) -> None:
            async with turns:
                await broker.stop()

        await asyncio.gather(*map(stop, self.brokers))
        if by_hand := running_brokers(self._data, [broker.number for broker in self.brokers]):
            print(f"started by hand, and not stopped: {named(by_hand)}", file=sys.stderr)
        for server in self.zookeepers:
            await asyncio.to_thread(server.stop)
        if self._lock is not None:
            self._lock.close()


#: Settings that are each broker's own, and what says instead where it is and what it goes by.
_GIVEN_OTHERWISE = {
    "broker.id": "brokers are numbered from 1 on; --brokers says how many there are",
    "node.id": "brokers are numbered from 1 on; --brokers says how many there are",
    "listeners": "--port is the first broker's, and the others' come after it",
    "log.dir": "--data holds a folder for each broker",
    "log.dirs": "--data holds a folder for each broker",
    "zookeeper.connect": "a ZooKeeper of its own is started; to join another: millstream serve --registry",
}


def _check_settings(plan: Plan) -> None:
    """Refuse what a broker would refuse, were it started."""
    from millstream.broker.server import ServeOptions, load_config
    from millstream.config.setting import SettingError

    for name, instead in _GIVEN_OTHERWISE.items():
        if name in plan.settings:
            raise CommandFailed(f"--set {name}: each broker has its own; {instead}")
    options = ServeOptions(HOST, plan.port, str(plan.data), settings=plan.broker_settings(1), registry=f"zk://{HOST}:1")
    try:
        config = load_config(options, os.environ)
    except SettingError as error:
        raise CommandFailed(str(error)) from None
    for name, instead in _taken_over(plan, config):
        raise CommandFailed(f"{config.static[name].origin} {name}: each broker has its own; {instead}")


def _taken_over(plan: Plan, config: BrokerConfig) -> Iterator[tuple[str, str]]:
    """The same of settings that every broker takes over, from the environment as well."""
    if config.get(ADVERTISED_LISTENERS) is not None:
        yield ADVERTISED_LISTENERS.name, f"all are found at {HOST}; elsewhere: millstream serve --registry, for each"
    place = config.get(METRICS_LISTENER)
    if plan.brokers > 1 and place is not None and parse_place(place).port:
        yield METRICS_LISTENER.name, "port 0 finds each a free one, which is told"


def _check_data(plan: Plan) -> None:
    """An ensemble must not be grown or shrunk by chance: servers without its data could outvote those with it."""
    there = len(list(plan.data.glob("zookeeper-[0-9]")))
    if there not in (0, plan.zookeepers):
        raise CommandFailed(f"{plan.data} holds a cluster of {there} ZooKeepers; go on with --zookeeper {there}")
    if by_hand := running_brokers(plan.data, range(1, plan.brokers + 1)):
        raise CommandFailed(f"{plan.data} is in use by what was started by hand: stop {named(by_hand)} first")


def _command(plan: Plan, number: int, port: int, data: Path, registry: str) -> list[str]:
    settings = plan.broker_settings(number)
    place = ["--host", HOST, "--port", str(port), "--data", str(data / f"broker-{number}"), "--registry", registry]
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return [sys.executable, "-m", "millstream", "serve", *place, *given]


def _ports(plan: Plan) -> tuple[list[Ports], list[int]]:
    """Where everyone listens; a free port is found for all but the brokers, who find theirs."""
    if plan.port:
        ensemble = [
            Ports(*(plan.port + offset + number for offset in ZOOKEEPER_OFFSETS)) for number in range(plan.zookeepers)
        ]
        brokers = [plan.port + number for number in range(plan.brokers)]
        _check_free([*brokers, *(port for ports in ensemble for port in ports)])
        return ensemble, brokers
    free = free_ports(3 * plan.zookeepers)
    return [Ports(*free[3 * number : 3 * number + 3]) for number in range(plan.zookeepers)], [0] * plan.brokers


def _check_free(ports: Iterable[int]) -> None:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except (OSError, OverflowError) as error:
                reason = re.sub(r"^\[.*?\] ", "", str(error))
                raise CommandFailed(f"port {port} cannot be had ({reason}); choose others with --port") from None
