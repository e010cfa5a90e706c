"""While a long partition is compacted in the background, how long a produce to another takes."""

import time
from statistics import median

from bench import runner, wire
from bench.progress import say
from bench.scale import logs
from bench.scale.report import Report, millis
from bench.servers import Server, Stand
from bench.table import MILLSTREAM

KEYS = 100_000
BATCH_RECORDS = 100
VALUE_BYTES = 1_000
PATIENCE_S = 300.0
WINDOW_S = 1.0
SETTINGS = {"log.cleaner.backoff.ms": "200"}
#: Held back until the log is written and the idle figure taken.
HELD = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000", "segment.bytes": str(128 << 20)}
RELEASED = {**HELD, "min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.01"}


def bench(contenders: list[str], quick: bool) -> str:
    count, report = (200_000_000 if quick else logs.GB), Report()
    with Stand(contenders) as stand:
        server = stand.new(MILLSTREAM, SETTINGS)
        server.start()
        with wire.Connection(server.address) as connection:
            connection.create_topic("keyed", configs=HELD)
            _fill(connection, count)
        runner.run("raw_latency", server, topic="probe", seconds=2)
        idle_us = median(_window(server) for _ in range(3))
        before = logs.size_bytes(server, "keyed")
        with wire.Connection(server.address) as connection:
            connection.alter_topic("keyed", RELEASED)
        windows_us, took_s = _until_compacted(server, before)
        after = logs.size_bytes(server, "keyed")
    ratio = median(windows_us) / idle_us
    report.note("compacted", f"{before / 1e6:.0f} MB to {after / 1e6:.0f} MB in about {took_s:.0f} s")
    report.note("produce p99, idle", millis(idle_us))
    figure = f"{millis(median(windows_us))}, {ratio:.1f}× idle ({millis(max(windows_us))})"
    report.hold("produce p99 beside compaction (worst window)", figure, "≤ 3× idle", kept=ratio <= 3)
    return report.render()


def _window(server: Server) -> float:
    return runner.run("raw_latency", server, topic="probe", seconds=WINDOW_S)["p99_us"]


def _fill(connection: wire.Connection, count: int) -> None:
    """Write every key in turn, again and again, until the log is so long."""
    frames = [
        wire.produce_frame("keyed", wire.encode_batch([b"v" * VALUE_BYTES] * BATCH_RECORDS, _keys(first)))
        for first in range(0, KEYS, BATCH_RECORDS)
    ]
    written = at = 0
    while written < count:
        wire.check_produced(connection.ask(frames[at]), "keyed")
        written, at = written + len(frames[at]), (at + 1) % len(frames)
    say(f"  {written / 1e6:.0f} MB of {KEYS:,} keys written")


def _keys(first: int) -> list[bytes]:
    return [b"key-%08d" % key for key in range(first, first + BATCH_RECORDS)]


def _until_compacted(server: Server, before: int) -> tuple[list[float], float]:
    """p99 of each window until the log has shrunk and no longer does."""
    started, last = time.monotonic(), before
    windows_us: list[float] = []
    while time.monotonic() - started < PATIENCE_S:
        p99_us = _window(server)
        size = logs.size_bytes(server, "keyed")
        say(f"  {size / 1e6:.0f} MB, produce p99 {millis(p99_us)}")
        if size < before and size == last:
            return windows_us or [p99_us], time.monotonic() - started
        last = size
        windows_us.append(p99_us)
    raise TimeoutError(f"nothing was compacted within {PATIENCE_S} s")
