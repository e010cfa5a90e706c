"""``python -m bench``: the broker beside the ceiling and Apache Kafka, interleaved in one run.

Without names everything but the scale benches is measured: the main table, those of delivery and of the cluster,
``spark`` beside Spark's own connector, ``mirror`` beside MirrorMaker 2. With names, those stages or benches alone;
``delivery`` and ``cluster`` mean all stages of theirs, ``scale`` all of the scale benches.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench import cluster, clusters, delivery, mirror, processes, runner, scale, servers, spark, stages, table, wire
from bench.progress import say
from bench.rows import ROWS


class Table(NamedTuple):
    """What is measured for one table: by section of the document."""

    stages: dict[str, Callable[[stages.Turn], runner.Figures]]
    rows: list[table.Row]
    #: Those who have a part in some of its stages alone, and in which.
    only: Mapping[str, tuple[str, ...]] = {}
    #: How its contenders are made.
    makers: Mapping[str, servers.Maker] = servers.MAKERS


TABLES = {
    "table": Table(stages.STAGES, ROWS),
    "delivery": Table(delivery.STAGES, delivery.ROWS, only={table.CEILING: ("transactions",)}),
    "cluster": Table(cluster.STAGES, cluster.ROWS, only={table.CEILING: ()}, makers=clusters.MAKERS),
}
STAGES = {name: stage for each in TABLES.values() for name, stage in each.stages.items()}
#: Those that make a table by themselves and are measured without names too.
PIPELINES: dict[str, Callable[[list[str], bool], str]] = {"spark": spark.bench, "mirror": mirror.bench}
#: All that make a table by themselves, under their own names.
BENCHES = {**scale.BENCHES, **PIPELINES}
#: Names that stand for several.
SETS = {"scale": list(scale.BENCHES), "delivery": list(delivery.STAGES), "cluster": list(cluster.STAGES)}


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Servers and folders are cleared away on any way out.
    names = [name for chosen in [*given.names, *given.only] for name in chosen.split(",") if name]
    names = [each for name in names for each in SETS.get(name, [name])] or [*STAGES, *PIPELINES]
    unknown = [name for name in names if name not in STAGES and name not in BENCHES]
    if unknown:
        say(f"no bench is called {', '.join(unknown)}; there are: {', '.join([*STAGES, *BENCHES, *SETS])}")
        return 2
    if given.out is not None:
        _check_sections(given.out, names)
    contenders = _contenders(given.servers)
    failed = False
    for section in TABLES:
        chosen = [name for name in names if name in TABLES[section].stages]
        if chosen:
            rounds = given.rounds or (1 if given.quick else 3)
            failed |= _measure(section, contenders, chosen, rounds, given.quick, given.out)
    for name in names:
        if name in BENCHES:
            _publish(given.out, name, BENCHES[name](contenders, given.quick))
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        help=f"stages ({', '.join(STAGES)}), benches ({', '.join(BENCHES)}), or {', '.join(SETS)}; "
        f"default: all stages, {', '.join(PIPELINES)}",
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME[,…]", help="the same as naming it")
    parser.add_argument("--rounds", type=int, help="how often each load runs on each server (default: 3)")
    parser.add_argument("--quick", action="store_true", help="one short round; figures are rough")
    parser.add_argument("--servers", default=",".join(servers.MAKERS), help="who runs (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also put each table in its section of this document")
    return parser


def _check_sections(out: Path, names: list[str]) -> None:
    """Raise now, and not after an hour of measuring, when the document has no place for what will be found."""
    document = out.read_text()
    sections = [section for section, each in TABLES.items() if not each.stages.keys().isdisjoint(names)]
    for section in [*sections, *(name for name in names if name in BENCHES)]:
        table.replace_section(document, section, "")


def _contenders(wanted: str) -> list[str]:
    """Those of the wanted servers that can run here; why another cannot is said."""
    found = []
    for name, reason in servers.available().items():
        if name.lower() not in wanted.lower().split(","):
            continue
        if reason:
            say(f"{name} is left out: {reason}")
        else:
            found.append(name)
    return found


def _measure(section: str, contenders: list[str], names: list[str], rounds: int, quick: bool, out: Path | None) -> bool:
    """Measure a table and print it; whether any load failed."""
    rows, only = TABLES[section].rows, TABLES[section].only
    contenders = [each for each in contenders if each not in only or set(only[each]) & set(names)]
    measured: table.Measured = {row.key: {} for row in rows}
    failures: list[str] = []
    started = time.monotonic()
    with servers.Stand(contenders, makers=TABLES[section].makers) as stand:
        running = [stand.new(name) for name in contenders]
        sizes = stages.QUICK if quick else stages.FULL
        for server in running:
            say(f"{server.name}: ready after {server.start():.2f} s")
            if section == "table":  # The loads of the other warm up by themselves.
                stages.warm_up(stages.Turn(stand, server, sizes, "0"))
        for name, at in ((name, at) for name in names for at in range(rounds)):
            # Each round starts with another server, so that none always runs in another's wake.
            turns = [server for server in running if name in only.get(server.name, names)]
            for server in turns[at % len(turns) :] + turns[: at % len(turns)]:
                say(f"[{time.monotonic() - started:4.0f} s] {name}, round {at + 1} of {rounds}, {server.name}")
                _take_turn(name, stages.Turn(stand, server, sizes, f"{name}-{at}"), measured, failures)
        if section == "table" and len(names) == len(stages.STAGES):
            measured["rss_load"] = {server.name: [processes.resident_bytes(server.pid)] for server in running}
    _publish(out, section, table.render(rows, measured))
    for line in failures:
        say(f"failed: {line}")
    return bool(failures)


def _take_turn(name: str, turn: stages.Turn, measured: table.Measured, failures: list[str]) -> None:
    os.sync()  # What the one before wrote is no burden to the next.
    try:
        figures = STAGES[name](turn)
    except (runner.LoadFailed, wire.Refused, OSError, TimeoutError, RuntimeError) as failure:
        failures.append(f"{name}, {turn.server.name}: {failure}")
        say(f"  failed: {failure}")
        return
    finally:
        turn.clear()
    for key, value in figures.items():
        measured[key].setdefault(turn.server.name, []).append(value)


def _publish(out: Path | None, section: str, body: str) -> None:
    print(f"\n{body}\n", flush=True)
    if out is not None:
        stamp = time.strftime("%Y-%m-%d", time.gmtime())
        text = f"Measured on {stamp}, {os.cpu_count()} cores, Python {sys.version.split()[0]}.\n\n{body}"
        out.write_text(table.replace_section(out.read_text(), section, text))


if __name__ == "__main__":
    sys.exit(main())
