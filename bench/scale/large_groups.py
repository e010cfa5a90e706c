"""A group of 100 members over 200 partitions: how long until it settles after a member joins, and after one dies."""

import asyncio
import random
import time

from bench import wire
from bench.members import CLASSIC, CONSUMER, Group
from bench.progress import say
from bench.scale.report import Report
from bench.servers import Server, Stand
from bench.table import KAFKA, MILLSTREAM

MEMBERS, PARTITIONS = 100, 200
TOPIC = "large"
SESSION_S, HEARTBEAT_S = 6, 1.0
#: What is left to the server beside what it is told to wait for.
LIMIT_S = 2.0
ROUNDS = 3
#: The new protocol's members are told by the server how often to beat; the classic ones tell it.
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_S * 1_000),
    "group.consumer.min.session.timeout.ms": str(SESSION_S * 1_000),
    "group.consumer.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1_000)),
    "group.consumer.min.heartbeat.interval.ms": str(int(HEARTBEAT_S * 1_000)),
}


def bench(contenders: list[str], quick: bool) -> str:
    report = Report()
    with Stand(contenders) as stand:
        for name in contenders:
            if name in (MILLSTREAM, KAFKA):
                server = stand.new(name, SETTINGS)
                server.start()
                with wire.Connection(server.address) as connection:
                    connection.create_topic(TOPIC, PARTITIONS)
                    connection.await_topic(TOPIC)
                for protocol in (CLASSIC, CONSUMER):
                    say(f"  {name}: {MEMBERS} members, {protocol} protocol")
                    asyncio.run(_measure(server, protocol, 1 if quick else ROUNDS, report))
                stand.discard(server)
    return report.render()


async def _measure(server: Server, protocol: str, rounds: int, report: Report) -> None:
    group = Group(
        server.address,
        f"large-{protocol}",
        TOPIC,
        PARTITIONS,
        protocol=protocol,
        session_ms=SESSION_S * 1_000,
        heartbeat_s=HEARTBEAT_S,
    )
    chance = random.Random(1)
    joins_s, deaths_s = [], []
    try:
        started = time.perf_counter()
        await group.add(MEMBERS)
        first_s = await group.settled() - started
        for _ in range(rounds):
            await asyncio.sleep(HEARTBEAT_S * (1 + chance.random()))  # At any moment between two heartbeats.
            started = time.perf_counter()
            await group.add(1)
            joins_s.append(await group.settled() - started)
            await asyncio.sleep(HEARTBEAT_S * (1 + chance.random()))
            started = time.perf_counter()
            group.kill()
            deaths_s.append(await group.settled() - started)
    finally:
        group.close()
    name = f"{server.name}, {protocol}"
    report.note(f"{name}: {MEMBERS} members over {PARTITIONS} partitions settle at first", f"{first_s:.2f} s")
    _hold(report, server, f"{name}: after one joins", max(joins_s), HEARTBEAT_S, "a heartbeat")
    _hold(report, server, f"{name}: after one dies", max(deaths_s), SESSION_S + HEARTBEAT_S, "session and heartbeat")


def _hold(report: Report, server: Server, what: str, took_s: float, waited_s: float, waits: str) -> None:
    if server.name == MILLSTREAM:
        target = f"≤ {waited_s + LIMIT_S:g} s ({waits}, and {LIMIT_S:g} s)"
        report.hold(what, f"{took_s:.2f} s", target, kept=took_s <= waited_s + LIMIT_S)
    else:
        report.note(what, f"{took_s:.2f} s")
