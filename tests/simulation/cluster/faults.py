"""What befalls a cluster, drawn from the seed.  Each fault ends by itself; several may be under way at once."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from millstream.broker.broker import Broker
from millstream.controller.reassignment import Move
from millstream.model.ids import TopicPartition
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.registry import REGISTRY
from tests.simulation.cluster.world import World

Fault = Callable[[], Awaitable[None]]


class Faults:
    """Strikes until it is told to stop.

    At most min.insync.replicas - 1 machines lose unflushed data, or have a disk that errs, before every in-sync set is
    whole again, for no replicated log survives more; where every write is flushed, any number.  Processes are killed
    without such a bound.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.child_rng()
        self._under_way: set[asyncio.Task[None]] = set()
        #: Machines that lost unflushed data since all were in sync, or that cannot tell whether they did.
        self._lossy: set[int] = set()
        #: Machines whose disk is failing, once for each such fault: all may be in sync still, until a write finds it
        #: out.
        self._ailing: list[int] = []
        #: How likely each kind is in this life; every life has its own mixture, so that rare ones meet.
        self._weights = {kind: self._rng.choice((0, 1, 1, 3)) for kind in self._kinds()}
        self._pace_s = self._rng.choice((0.5, 1.5, 4.0))

    def _kinds(self) -> dict[str, Fault]:
        return {
            "kill": self._kill,
            "power loss": self._lose_power,
            "power loss everywhere": self._lose_all_power,
            "torn write, then kill": self._tear,
            "pause": self._pause,
            "two-way cut": self._cut_off,
            "one-way cut": self._deafen,
            "isolation": self._isolate,
            "cut from the registry": self._cut_from_registry,
            "registry expiry": self._expire,
            "registry away": self._registry_away,
            "resets": self._reset,
            "lossy weather": self._storm,
            "slow weather": self._slow,
            "clock skew": self._skew,
            "false alarm": self._false_alarm,
            "controller taken for dead": self._false_claim,
            "disk error": self._break_disk,
            "full disk": self._fill_disk,
            "restart": self._restart,
            "rolling restart": self._roll,
            "reassignment": self._reassign,
        }

    async def run(self, seconds: float) -> None:
        """Strike for so long, then wait for what is under way."""
        kinds = self._kinds()
        names, weights = list(self._weights), list(self._weights.values())
        if not any(weights):
            weights = [1] * len(names)
        end_s = self._world.loop.time() + seconds
        while self._world.loop.time() < end_s:
            await asyncio.sleep(self._rng.expovariate(1 / self._pace_s))
            self._forget_the_healed()
            (name,) = self._rng.choices(names, weights)
            fault = self._world.loop.create_task(_run(kinds[name]))
            self._under_way.add(fault)
            fault.add_done_callback(self._under_way.discard)
        while self._under_way:
            done, _ = await asyncio.wait(list(self._under_way))
            for task in done:
                task.result()

    def _forget_the_healed(self) -> None:
        """What was lost before all were in sync counts no more; what is about to be does."""
        if self._world.is_whole() and all(machine.is_up for machine in self._world.machines.values()):
            self._lossy = set(self._ailing)

    async def heal(self) -> None:
        """Everything works again: disks, network, clocks, and a process on every machine."""
        world = self._world
        world.ledger.remark("healed")
        world.network.heal()
        world.network.weather.reset_chance = 0
        world.network.weather.latency_ms_most = 0.5
        world.ensemble.is_away = False
        for machine in world.machines.values():
            machine.files.heal()
            machine.files.capacity_bytes = None
            if machine.process.is_paused:
                machine.process.resume()
            broker = machine.serving
            if broker is not None and has_lost_directory(broker):
                machine.crash_now(power=False)
        async with asyncio.TaskGroup() as group:
            for machine in world.machines.values():
                group.create_task(machine.boot())

    # Processes.

    def _victim(self) -> Machine | None:
        """A machine whose broker serves."""
        up = [machine for machine in self._world.machines.values() if machine.serving is not None]
        return self._rng.choice(up) if up else None

    def _may_lose(self, machine: Machine) -> bool:
        plan = self._world.plan
        return plan.is_flushed or len(self._lossy | {machine.id}) < plan.min_insync

    def _crash(self, machine: Machine, *, power: bool) -> None:
        if power:
            self._lossy.add(machine.id)
        machine.crash_now(power=power)

    @contextmanager
    def _with_ailing(self, machine: Machine) -> Iterator[None]:
        """Inside the block the machine counts as one that loses data."""
        self._lossy.add(machine.id)
        self._ailing.append(machine.id)
        try:
            yield
        finally:
            self._ailing.remove(machine.id)

    async def _down_for_a_while(self, machine: Machine) -> None:
        await asyncio.sleep(self._rng.choice((0.05, 1.0, 8.0)) * self._rng.random())
        machine.files.heal()
        await machine.boot()

    async def _kill(self) -> None:
        machine = self._victim()
        if machine is not None:
            self._note("kill", machine)
            self._crash(machine, power=False)
            await self._down_for_a_while(machine)

    async def _lose_power(self) -> None:
        machine = self._victim()
        if machine is not None and self._may_lose(machine):
            self._note("power loss", machine)
            self._crash(machine, power=True)
            await self._down_for_a_while(machine)

    async def _lose_all_power(self) -> None:
        machines = [machine for machine in self._world.machines.values() if machine.serving is not None]
        if self._world.plan.is_flushed and machines:
            self._world.ledger.fault("power loss everywhere")
            for machine in machines:
                machine.crash_now(power=True)
            async with asyncio.TaskGroup() as group:
                for machine in machines:
                    group.create_task(self._down_for_a_while(machine))

    async def _tear(self) -> None:
        """From some call on nothing reaches the disk, in the middle of whatever is being written; then it dies."""
        machine = self._victim()
        if machine is not None and self._may_lose(machine):
            self._note("torn write, then kill", machine)
            with self._with_ailing(machine):
                machine.files.fail("*", error=errno.EIO, after=self._rng.randrange(60))
                process = machine.process
                await asyncio.sleep(self._rng.uniform(0, 0.5))
                if machine.process is process and not process.is_dead:
                    self._crash(machine, power=self._may_lose(machine) and self._rng.random() < 0.5)
                await self._down_for_a_while(machine)

    async def _pause(self) -> None:
        machine = self._victim()
        if machine is not None:
            seconds = self._rng.choice((0.3, 2.0, 10.0)) * self._rng.random()
            self._note("pause", machine, f"for {seconds:.2f} s")
            process = machine.process
            process.pause()
            await asyncio.sleep(seconds)
            if not process.is_dead:
                process.resume()

    async def _restart(self) -> None:
        machine = self._victim()
        if machine is not None:
            self._note("restart", machine)
            await machine.leave()
            await self._down_for_a_while(machine)

    async def _roll(self) -> None:
        self._world.ledger.fault("rolling restart")
        for machine in list(self._world.machines.values()):
            if machine.serving is not None:
                await machine.leave()
                await machine.boot()
                await asyncio.sleep(self._rng.uniform(0, 1))

    # Network.

    def _some_nodes(self) -> list[str]:
        hosts = [machine.host for machine in self._world.machines.values()]
        return self._rng.sample(hosts, self._rng.randint(1, len(hosts) - 1))

    async def _cut(self, kind: str, ways: list[tuple[str, str]]) -> None:
        seconds = self._rng.choice((0.5, 3.0, 12.0)) * self._rng.random()
        self._world.ledger.fault(kind, f"{sorted(set(ways))} for {seconds:.2f} s")
        for origin, target in ways:
            self._world.network.cut(origin, target)
        await asyncio.sleep(seconds)
        self._world.network.mend(ways)

    async def _cut_off(self) -> None:
        """Brokers on two sides do not hear each other; clients and the registry hear both."""
        side = self._some_nodes()
        others = [machine.host for machine in self._world.machines.values() if machine.host not in side]
        ways = [way for one in side for other in others for way in ((one, other), (other, one))]
        await self._cut("two-way cut", ways)

    async def _deafen(self) -> None:
        hosts = [machine.host for machine in self._world.machines.values()]
        origin, target = self._rng.sample(hosts, 2)
        await self._cut("one-way cut", [(origin, target)])

    async def _isolate(self) -> None:
        """A broker hears no other and not the registry; clients may still reach it."""
        (host,) = self._rng.sample([machine.host for machine in self._world.machines.values()], 1)
        others = [machine.host for machine in self._world.machines.values() if machine.host != host] + [REGISTRY]
        await self._cut("isolation", [way for other in others for way in ((host, other), (other, host))])

    async def _cut_from_registry(self) -> None:
        ways = [way for host in self._some_nodes() for way in ((host, REGISTRY), (REGISTRY, host))]
        await self._cut("cut from the registry", ways if self._rng.random() < 0.7 else ways[:1])

    async def _reset(self) -> None:
        node = self._rng.choice(self._some_nodes())
        self._world.ledger.fault("resets", node)
        self._world.network.reset(node)

    async def _storm(self) -> None:
        self._world.ledger.fault("lossy weather")
        self._world.network.weather.reset_chance = self._rng.choice((0.01, 0.05))
        await asyncio.sleep(self._rng.uniform(0, 5))
        self._world.network.weather.reset_chance = 0

    async def _slow(self) -> None:
        most_ms = self._rng.choice((20, 200, 1_000))
        self._world.ledger.fault("slow weather", f"up to {most_ms} ms")
        self._world.network.weather.latency_ms_most = most_ms
        await asyncio.sleep(self._rng.uniform(0, 5))
        self._world.network.weather.latency_ms_most = 0.5

    # The registry, and what is concluded from it.

    async def _expire(self) -> None:
        node = self._rng.choice(self._some_nodes())
        if self._world.ensemble.expire(node):
            self._world.ledger.fault("registry expiry", node)

    async def _registry_away(self) -> None:
        seconds = self._rng.uniform(0, 5)
        self._world.ledger.fault("registry away", f"for {seconds:.2f} s")
        self._world.ensemble.is_away = True
        await asyncio.sleep(seconds)
        self._world.ensemble.is_away = False

    async def _false_alarm(self) -> None:
        """The controller takes a live broker for dead, under its present epoch or one before."""
        controller, machine = self._world.controller, self._victim()
        if controller is not None and machine is not None and machine.broker is not None:
            self._note("false alarm", machine)
            host = self._world.machines[controller.id]
            epoch = machine.broker.replicas.broker_epoch
            await self._inside(host, lambda: controller.controller.broker_lost(machine.id, epoch))

    async def _false_claim(self) -> None:
        """A broker takes a live controller for dead."""
        controller, machine = self._world.controller, self._victim()
        if controller is not None and machine is not None and machine.broker is not None:
            broker, claimed = machine.broker, controller.id
            if broker is not controller:
                self._note("controller taken for dead", machine)
                await self._inside(machine, lambda: broker.controller.claim_is_dead(claimed))

    async def _reassign(self) -> None:
        """A partition is moved to other brokers, or the same in another order; one such move may be taken back."""
        controller, world = self._world.controller, self._world
        places = [(topic, index, replicas) for topic, index, replicas, _, _ in world.states()]
        if controller is not None and places:
            topic, index, replicas = self._rng.choice(places)
            target = self._rng.sample(sorted(world.machines), min(len(replicas), world.plan.replicas))
            is_cancelled = self._rng.random() < 0.2
            world.ledger.fault("reassignment", f"{topic}-{index} to {target}{' and back' if is_cancelled else ''}")
            for to in (target, None) if is_cancelled else (target,):
                move = Move(TopicPartition(topic, index), to)
                await self._inside(world.machines[controller.id], partial(_reassign, controller, move))

    async def _inside(self, machine: Machine, act: Callable[[], Awaitable[None]]) -> None:
        """Do it as that machine's process, whatever comes of it."""
        with machine.process.inside(), self._world.network.as_node(machine.host):
            task = self._world.loop.create_task(_run(act))
        await asyncio.wait([task], timeout=20)
        if not task.done():
            task.cancel()
        elif not task.cancelled():
            task.exception()

    # Disks and clocks.

    async def _break_disk(self) -> None:
        machine = self._victim()
        if machine is not None and self._may_lose(machine):
            directory = self._rng.choice(("a", "b"))
            operation = self._rng.choice(("append", "flush", "*"))
            self._note("disk error", machine, f"{operation} in {directory}")
            with self._with_ailing(machine):
                machine.files.fail(operation, path=f"/data/{directory}/*", times=self._rng.choice((1, None)))
                await self._repair(machine)

    async def _fill_disk(self) -> None:
        machine = self._victim()
        if machine is not None:
            self._note("full disk", machine)
            machine.files.capacity_bytes = machine.files.used_bytes + self._rng.randrange(2_000)
            await self._repair(machine)

    async def _repair(self, machine: Machine) -> None:
        """Somebody mends the disk after a while and starts the broker anew, where it lost a directory."""
        await asyncio.sleep(self._rng.uniform(0, 6))
        machine.files.heal()
        machine.files.capacity_bytes = None
        broker = machine.serving
        if broker is not None and has_lost_directory(broker):
            if self._rng.random() < 0.5:
                machine.crash_now(power=False)
            else:
                await machine.leave()
        await machine.boot()

    async def _skew(self) -> None:
        machine = self._rng.choice(list(self._world.machines.values()))
        machine.clock.skew_ms = self._rng.choice((-1, 1)) * self._rng.choice((100, 5_000, 3_600_000))
        self._note("clock skew", machine, f"{machine.clock.skew_ms} ms")

    def _note(self, kind: str, machine: Machine, detail: str = "") -> None:
        self._world.ledger.fault(kind, f"{machine.host} {detail}".rstrip())


def has_lost_directory(broker: Broker) -> bool:
    """Whether one of its log directories is offline until it starts anew."""
    return any(directory.failure is not None for directory in broker.logs.directories)


async def _reassign(controller: Broker, move: Move) -> None:
    await controller.controller.reassign([move])


async def _run(act: Callable[[], Awaitable[None]]) -> None:
    await act()
