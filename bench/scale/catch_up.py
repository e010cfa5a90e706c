"""While a replica that was away copies a long log, how long a produce to its leader takes."""

import itertools
import time
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median
from typing import NamedTuple, cast

from bench import clusters, messages, runner, wire
from bench.clusters import BROKERS, Cluster, Led
from bench.progress import say
from bench.scale import logs
from bench.scale.report import Report, millis
from bench.servers import Stand
from bench.table import KAFKA, MILLSTREAM

RATE = 500
WINDOW_S = 3.0
#: Idle windows before and after, of each kind.
IDLE = 3
#: Who has a record before it is acknowledged: with all, the replica that copies is soon one of them.
ALL_IN_SYNC, LEADER = -1, 1
ACKS = {ALL_IN_SYNC: "acks=all", LEADER: "acks=1"}
LOOK_EVERY_S = 0.1
#: The same where nobody else shall ask.
LOOK_ALONE_EVERY_S = 0.5
#: How much of the log is copied once more with nobody beside it.
ALONE = 3 / 10
TIMEOUT_S = 900.0

#: p99 of each window, by acks.
Windows = dict[int, list[float]]


class Found(NamedTuple):
    """What was measured, and how long the replica took to be in sync again, its start included; alone, for a part."""

    idle_us: Windows
    beside_us: Windows
    took_s: float
    alone_s: float


def bench(contenders: list[str], quick: bool) -> str:
    count = logs.GB if quick else 10 * logs.GB
    names = [name for name in contenders if name in clusters.MAKERS]
    report, found = Report(), {}
    with Stand(names, makers=clusters.MAKERS) as stand:
        for name in names:
            cluster = cast("Cluster", stand.new(name))
            say(f"  {name}: ready after {cluster.start():.2f} s")
            found[name] = _measure(cluster, count)
            stand.discard(cluster)
            _tell(report, name, count, found[name])
    if MILLSTREAM in found and KAFKA in found:
        for acks, shown in ACKS.items():
            ratio = median(found[MILLSTREAM].beside_us[acks]) / median(found[KAFKA].beside_us[acks])
            what = f"produce p99 beside the copy, {shown}, of Kafka's"
            report.hold(what, f"{ratio:.2f}×", "ahead of Kafka", kept=ratio < 1)
    return report.render()


def _tell(report: Report, name: str, count: int, found: Found) -> None:
    speed = f"{found.took_s:.1f} s, {count / found.took_s / 1e6:.0f} MB/s"
    report.note(f"{name}: a replica copies {count / logs.GB:g} GB, from its start until it is in sync", speed)
    alone = f"{found.alone_s:.1f} s, {ALONE * count / found.alone_s / 1e6:.0f} MB/s"
    report.note(f"{name}: it copies {ALONE * count / logs.GB:g} GB while nobody else asks for anything", alone)
    for acks, shown in ACKS.items():
        idle_us, beside_us = median(found.idle_us[acks]), median(found.beside_us[acks])
        report.note(f"{name}: produce p99 at {RATE}/s, {shown}, idle", millis(idle_us))
        ratio, worst_us = beside_us / idle_us, max(found.beside_us[acks])
        what = f"{name}: produce p99 beside the copy, {shown} (worst window)"
        figure = f"{millis(beside_us)}, {ratio:.1f}× idle ({millis(worst_us)})"
        if name == MILLSTREAM:
            report.hold(what, figure, "≤ 3× idle", kept=ratio <= 3)
        else:
            report.note(what, figure)


def _measure(cluster: Cluster, count: int) -> Found:
    """Stop a broker, fill a topic that it has a replica of, start it again; all the while one broker leads."""
    controller = clusters.controller_of(cluster)
    leader, away = sorted(cluster.nodes.keys() - {controller})
    led = Led(leader, cluster.nodes[leader].address)
    for topic in ("long", "probe", "alone"):
        clusters.create_topic(cluster, topic, homes=[[leader, controller, away]])
    _window(led, ALL_IN_SYNC)  # A first time, unmeasured.
    idle_us: Windows = {acks: [_window(led, acks) for _ in range(IDLE)] for acks in ACKS}
    _fill_without(cluster, led, away, "long", count)
    beside_us, took_s = _beside_a_copy(cluster, led, away)
    for acks in ACKS:
        idle_us[acks] += [_window(led, acks) for _ in range(IDLE)]
    _fill_without(cluster, led, away, "alone", int(ALONE * count))
    return Found(idle_us, beside_us, took_s, _alone(cluster, led, away))


def _fill_without(cluster: Cluster, led: Led, away: int, topic: str, count: int) -> None:
    cluster.stop_one(away)
    say(f"  {cluster.name}: broker {away} is away, filling a topic with {count / logs.GB:g} GB")
    filled = runner.run("raw_fill", led, topic=topic, bytes=count, acks=ALL_IN_SYNC)
    logs.cool(cluster)
    say(f"  filled in {filled['seconds']:.0f} s; it comes back")


def _alone(cluster: Cluster, led: Led, away: int) -> float:
    """How long the broker takes from its start until it is in sync."""
    with wire.Connection(led.address) as connection:
        started = time.perf_counter()
        cluster.start_one(away)
        return _in_sync_at(connection, "alone", LOOK_ALONE_EVERY_S) - started


def _beside_a_copy(cluster: Cluster, led: Led, away: int) -> tuple[Windows, float]:
    """p99 of each window from the broker's start until it is in sync, and how long that took."""
    windows_us: Windows = {acks: [] for acks in ACKS}
    with wire.Connection(led.address) as connection, ThreadPoolExecutor(1) as beside:
        started = time.perf_counter()
        starting = beside.submit(cluster.start_one, away)
        in_sync = beside.submit(_started_and_in_sync_at, connection, starting)
        for acks in itertools.cycle(ACKS):
            if in_sync.done() and all(windows_us.values()):
                break
            p99_us = _window(led, acks)
            if not in_sync.done() or not windows_us[acks]:  # One that it was only beside for a part says less.
                say(f"  {cluster.name}: produce p99 {millis(p99_us)} beside the copy, {ACKS[acks]}")
                windows_us[acks].append(p99_us)
        return windows_us, in_sync.result() - started


def _started_and_in_sync_at(connection: wire.Connection, starting: "Future[None]") -> float:
    starting.result()
    return _in_sync_at(connection, "long", LOOK_EVERY_S)


def _in_sync_at(connection: wire.Connection, topic: str, look_every_s: float) -> float:
    """When the topic had all its replicas in sync, on ``time.perf_counter``."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages.partitions_of(connection, topic)[0].isr_nodes) < BROKERS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the replica is not in sync after {TIMEOUT_S} s")
        time.sleep(look_every_s)
    return time.perf_counter()


def _window(leader: Led, acks: int) -> float:
    return runner.run("raw_latency", leader, topic="probe", rate=RATE, seconds=WINDOW_S, acks=acks)["p99_us"]
