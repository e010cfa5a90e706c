"""While one consumer reads a long cold log, how long another's produce takes."""

from statistics import median

from bench import runner
from bench.progress import say
from bench.scale import logs
from bench.scale.report import Report, millis
from bench.servers import Server, Stand
from bench.table import CEILING, KAFKA, MILLSTREAM

LATENCY_S = 5.0
WINDOW_S = 1.5


def bench(contenders: list[str], quick: bool) -> str:
    count = logs.GB if quick else 10 * logs.GB
    report, beside_us = Report(), {}
    with Stand(contenders) as stand:
        for name in contenders:
            if name == CEILING:
                continue
            server = stand.new(name)
            server.start()
            logs.fill(server, "cold", count)
            runner.run("raw_latency", server, topic="warm", seconds=LATENCY_S)
            idle_us = median(_window(server)["p99_us"] for _ in range(3))
            windows_us, read_per_s = _beside_a_cold_read(server)
            beside_us[name] = median(windows_us)
            ratio = beside_us[name] / idle_us
            report.note(f"{name}: read of {count / logs.GB:g} GB of cold log", f"{read_per_s / 1e6:.0f} MB/s")
            report.note(f"{name}: produce p99, idle", millis(idle_us))
            what = f"{name}: produce p99 beside the read (worst window)"
            figure = f"{millis(beside_us[name])}, {ratio:.1f}× idle ({millis(max(windows_us))})"
            if name == MILLSTREAM:
                report.hold(what, figure, "≤ 3× idle", kept=ratio <= 3)
            else:
                report.note(what, figure)
            stand.discard(server)
    if MILLSTREAM in beside_us and KAFKA in beside_us:
        ratio = beside_us[MILLSTREAM] / beside_us[KAFKA]
        report.hold("produce p99 beside the read, of Kafka's", f"{ratio:.2f}×", "ahead of Kafka", kept=ratio < 1)
    return report.render()


def _window(server: Server) -> runner.Figures:
    return runner.run("raw_latency", server, topic="probe", seconds=WINDOW_S)


def _beside_a_cold_read(server: Server) -> tuple[list[float], float]:
    """p99 of each window from the start of a read to its end, and the read's speed."""
    logs.cool(server)
    read = runner.begin("raw_scan", server, topic="cold")
    windows_us: list[float] = []
    try:
        while True:
            p99_us = _window(server)["p99_us"]
            if read.poll() is not None and windows_us:
                break
            say(f"  {server.name}: produce p99 {millis(p99_us)} beside the read")
            windows_us.append(p99_us)
        figures = runner.finish(read)
    finally:
        if read.poll() is None:
            runner.end(read)
    return windows_us, figures["bytes_per_s"]
