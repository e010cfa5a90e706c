"""While one consumer reads a long cold log, how long another's produce takes."""

from bench import runner
from bench.progress import say
from bench.scale import logs
from bench.scale.report import Report, millis
from bench.servers import Server, Stand
from bench.table import CEILING, KAFKA, MILLSTREAM

LATENCY_S = 5.0


def bench(contenders: list[str], quick: bool) -> str:
    count = logs.GB if quick else 10 * logs.GB
    report, worst_us = Report(), {}
    with Stand(contenders) as stand:
        for name in contenders:
            if name == CEILING:
                continue
            server = stand.new(name)
            server.start()
            logs.fill(server, "cold", count)
            runner.run("raw_latency", server, topic="warm", seconds=LATENCY_S)
            idle = runner.run("raw_latency", server, topic="probe", seconds=LATENCY_S)
            busy, read_per_s = _beside_a_cold_read(server)
            worst_us[name] = busy["p99_us"]
            ratio = busy["p99_us"] / idle["p99_us"]
            report.note(f"{name}: read of {count / logs.GB:g} GB of cold log", f"{read_per_s / 1e6:.0f} MB/s")
            report.note(f"{name}: produce p99, idle", millis(idle["p99_us"]))
            what, figure = f"{name}: produce p99 beside the read", f"{millis(busy['p99_us'])}, {ratio:.1f}× idle"
            if name == MILLSTREAM:
                report.hold(what, figure, "≤ 3× idle", kept=ratio <= 3)
            else:
                report.note(what, figure)
            stand.discard(server)
    if MILLSTREAM in worst_us and KAFKA in worst_us:
        ratio = worst_us[MILLSTREAM] / worst_us[KAFKA]
        report.hold("produce p99 beside the read, of Kafka's", f"{ratio:.2f}×", "ahead of Kafka", kept=ratio < 1)
    return report.render()


def _beside_a_cold_read(server: Server) -> tuple[runner.Figures, float]:
    """Latency from the start of a read to its end, and the read's speed.

    The read may take longer than a window; the worst window that lies wholly within it is what counts.
    """
    logs.cool(server)
    read = runner.begin("raw_scan", server, topic="cold")
    worst: runner.Figures | None = None
    try:
        while True:
            window = runner.run("raw_latency", server, topic="probe", seconds=1.5)
            if read.poll() is not None and worst is not None:
                break
            say(f"  {server.name}: produce p99 {millis(window['p99_us'])} beside the read")
            if worst is None or window["p99_us"] > worst["p99_us"]:
                worst = window
        figures = runner.finish(read)
    finally:
        if read.poll() is None:
            runner.end(read)
    return worst, figures["bytes_per_s"]
