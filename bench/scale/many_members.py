"""2,000 idle members in groups of 20: what each costs in memory with its connection, and all of them in CPU."""

import asyncio
import time

from bench import processes, wire
from bench.members import CLASSIC, CONSUMER, Group
from bench.progress import say
from bench.scale.report import Report
from bench.servers import Server, Stand
from bench.table import KAFKA, MILLSTREAM

GROUPS, MEMBERS = 100, 20
TOPIC = "idle"
LIMIT_BYTES = 20_000
#: Long enough for each member to have sent some heartbeats.
IDLE_S = 8.0


def bench(contenders: list[str], quick: bool) -> str:
    groups, report = (GROUPS // 5 if quick else GROUPS), Report()
    processes.raise_file_limit()
    with Stand(contenders) as stand:
        for name in contenders:
            if name not in (MILLSTREAM, KAFKA):
                continue
            for protocol in (CLASSIC, CONSUMER):
                server = stand.new(name)
                server.start()
                say(f"  {name}: {groups * MEMBERS:,} members, {protocol} protocol")
                asyncio.run(_measure(server, protocol, groups, report))
                stand.discard(server)
    return report.render()


async def _measure(server: Server, protocol: str, count: int, report: Report) -> None:
    with wire.Connection(server.address) as connection:
        connection.create_topic(TOPIC, MEMBERS)
        connection.await_topic(TOPIC)
    groups = [Group(server.address, f"idle-{at}", TOPIC, MEMBERS, protocol=protocol) for at in range(count + 1)]
    try:
        await _join(groups[:1])  # What the first costs, others need not pay again.
        before = processes.resident_bytes(server.pid)
        await _join(groups[1:])
        await asyncio.sleep(IDLE_S)
        each = (processes.resident_bytes(server.pid) - before) / (count * MEMBERS)
        used_s, started = processes.cpu_s(server.pid), time.perf_counter()
        await asyncio.sleep(IDLE_S)
        share = (processes.cpu_s(server.pid) - used_s) / (time.perf_counter() - started)
    finally:
        for group in groups:
            group.close()
    what = f"{server.name}, {protocol}: memory of an idle member and its connection"
    if server.name == MILLSTREAM:
        report.hold(what, f"{each / 1e3:.1f} KB", f"≤ {LIMIT_BYTES // 1_000} KB", kept=each <= LIMIT_BYTES)
    else:
        report.note(what, f"{each / 1e3:.1f} KB")
    report.note(f"{server.name}, {protocol}: CPU of {count * MEMBERS:,} idle members", f"{share:.1%} of a core")


async def _join(groups: list[Group]) -> None:
    for group in groups:
        await group.add(MEMBERS)
    await asyncio.gather(*(group.settled() for group in groups))
