"""A long log, kill -9 while it is written: how soon the broker serves again, with large batches and with tiny ones."""

import time

from bench import runner
from bench.progress import say
from bench.scale import logs
from bench.scale.report import Report
from bench.servers import Server, Stand, await_writable
from bench.table import CEILING, MILLSTREAM

READY_MAX_S = 2.0
SHAPES = {"batches of 1 MB": 1_000, "batches of one record": 1}


def bench(contenders: list[str], quick: bool) -> str:
    count, report = (logs.GB // 2 if quick else 10 * logs.GB), Report()
    with Stand(contenders) as stand:
        for shape, batch_records in SHAPES.items():
            for name in contenders:
                if name == CEILING or (name != MILLSTREAM and batch_records == 1):
                    continue  # Ten million requests to Apache Kafka take a quarter of an hour and tell nothing more.
                server = stand.new(name)
                server.start()
                ready_s = _killed_while_writing(server, count, batch_records)
                what, figure = f"{name}: {count / logs.GB:g} GB in {shape}, ready again after", f"{ready_s:.2f} s"
                if name == MILLSTREAM:
                    report.hold(what, figure, f"≤ {READY_MAX_S:g} s", kept=ready_s <= READY_MAX_S)
                else:
                    report.note(what, figure)
                stand.discard(server)
    return report.render()


def _killed_while_writing(server: Server, count: int, batch_records: int) -> float:
    load = runner.begin("raw_fill", server, topic="long", bytes=2 * count, batch_records=batch_records)
    try:
        shown = time.monotonic()
        while (size := logs.size_bytes(server, "long")) < count:
            if load.poll() is not None:
                runner.finish(load)
                raise runner.LoadFailed("the log was not filled")
            if time.monotonic() - shown > 15:
                shown = time.monotonic()
                say(f"  {server.name}: {size / 1e6:,.0f} MB written")
            time.sleep(0.1)
        server.kill()
    finally:
        runner.end(load)
    started = time.perf_counter()
    server.start()
    await_writable(server, "long")
    return time.perf_counter() - started
