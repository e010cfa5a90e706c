"""What every load is given and gives back."""

import argparse
import json
from collections.abc import Sequence

RECORD_BYTES = 100


def parser(load: str | None) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=load)
    options.add_argument("--server", required=True, help="HOST:PORT")
    options.add_argument("--topic", required=True)
    return options


def report(**figures: float) -> None:
    print(json.dumps(figures), flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie."""
    return values[min(int(len(values) * share), len(values) - 1)]


def latency_report(latencies_us: list[float]) -> None:
    latencies_us.sort()
    report(
        p50_us=percentile(latencies_us, 0.50),
        p99_us=percentile(latencies_us, 0.99),
        p999_us=percentile(latencies_us, 0.999),
        max_us=latencies_us[-1],
        count=len(latencies_us),
    )
