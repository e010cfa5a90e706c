"""5,000 partitions and 1,000 idle connections: start, memory, and what they cost a producer to one partition."""

from bench import processes, runner, wire
from bench.progress import say
from bench.scale.report import Report
from bench.servers import Server, Stand
from bench.table import MILLSTREAM

TOPICS, PARTITIONS_EACH = 50, 100
CONNECTIONS = 1_000
ROUNDS = 5


def bench(contenders: list[str], quick: bool) -> str:
    topics, report = (TOPICS // 5 if quick else TOPICS), Report()
    processes.raise_file_limit()
    with Stand(contenders) as stand:
        empty, full = stand.new(MILLSTREAM), stand.new(MILLSTREAM)
        empty.start()
        full.start()
        with wire.Connection(full.address) as connection:
            for at in range(topics):
                connection.create_topic(f"many-{at}", PARTITIONS_EACH)
        say(f"  {topics * PARTITIONS_EACH:,} partitions created")
        full.stop()
        ready_s = full.start()
        idle = [_connect(full) for _ in range(CONNECTIONS)]
        slowdown = _slowdown(empty, full)
        resident = processes.resident_bytes(full.pid)
        for connection in idle:
            connection.close()
    count = f"{topics * PARTITIONS_EACH:,} partitions"
    report.hold(f"ready with {count}", f"{ready_s:.2f} s", "≤ 5 s", kept=ready_s <= 5)
    shown = f"{resident / 1e6:.0f} MB"
    report.hold(f"resident with {count} and {CONNECTIONS:,} connections", shown, "≤ 400 MB", kept=resident <= 400e6)
    report.hold("round trip of one record, of the empty broker's", f"{slowdown:.2f}×", "≤ 1.2×", kept=slowdown <= 1.2)
    return report.render()


def _slowdown(empty: Server, full: Server) -> float:
    times: dict[str, list[float]] = {"empty": [], "full": []}
    for _ in range(ROUNDS):
        for name, server in (("empty", empty), ("full", full)):
            figures = runner.run("raw_round_trips", server, topic="one", requests=10_000)
            times[name].append(figures["p50_us"])
    # The best rounds: whatever else ran on the machine only ever adds to a cost.
    best = {name: min(values) for name, values in times.items()}
    say(f"  round trips: empty {best['empty']:.0f} µs, full {best['full']:.0f} µs")
    return best["full"] / best["empty"]


def _connect(server: Server) -> wire.Connection:
    """A client that has said hello and now waits."""
    connection = wire.Connection(server.address)
    connection.api_keys()
    return connection
