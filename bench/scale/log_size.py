"""What an append and a random read cost at 10 MB, 1 GB and 10 GB of log: the same, or the index does not work."""

from bench import runner
from bench.progress import say
from bench.scale import logs
from bench.scale.report import Report
from bench.servers import Stand
from bench.table import MILLSTREAM

#: A request per 32 KB: small enough that each log has many batches, large enough to fill 10 GB in a minute.
BATCH = {"batch_records": 32, "record_bytes": 1_000}
ROUNDS = 5
RATIO_MAX = 1.3


def bench(contenders: list[str], quick: bool) -> str:
    sizes = {"10 MB": 10_000_000, "1 GB": logs.GB // (5 if quick else 1), "10 GB": logs.GB * (1 if quick else 10)}
    costs: dict[str, dict[str, list[float]]] = {"append": {}, "random read": {}}
    with Stand(contenders) as stand:
        server = stand.new(MILLSTREAM)
        server.start()
        topics = {shown: f"log-{shown.replace(' ', '').lower()}" for shown in sizes}
        for shown, topic in topics.items():
            logs.fill(server, topic, sizes[shown], **BATCH)
        for at in range(-1, ROUNDS):
            say(f"  round {at + 1} of {ROUNDS}")
            for shown, topic in topics.items():
                reads = runner.run("raw_random_reads", server, topic=topic, reads=3_000, seed=at + 2)
                appends = runner.run("raw_round_trips", server, topic=topic, requests=3_000)
                if at >= 0:
                    costs["append"].setdefault(shown, []).append(appends["p50_us"])
                    costs["random read"].setdefault(shown, []).append(reads["p50_us"])
    report = Report()
    for what, by_size in costs.items():
        # The best round: whatever else ran on the machine only ever adds to a cost.
        figures = {shown: min(values) for shown, values in by_size.items()}
        ratio = max(figures.values()) / min(figures.values())
        shown = ", ".join(f"{size}: {figure:.0f} µs" for size, figure in figures.items())
        report.hold(what, f"{shown}; {ratio:.2f}×", f"within {RATIO_MAX}×", kept=ratio <= RATIO_MAX)
    return report.render()
