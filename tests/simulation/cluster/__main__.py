"""Many lives of a cluster: ``python -m tests.simulation.cluster --seeds 200``, or one again with ``--seed N``."""

import argparse
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from types import FrameType

from tests.simulation.cluster.bugs import BUGS, RARE, planted
from tests.simulation.cluster.life import Outcome, live

#: A life that takes more CPU time than this runs in circles.
STUCK_S = 300.0
#: Lives between two words of how far it has come.
PROGRESS_EVERY = 50


class Stuck(KeyboardInterrupt):
    """A life has no end; of this kind, because a loop passes on no other."""


def main() -> int:
    """Live through every seed asked for; the exit code says whether all went well."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # A seed replays only where sets are ordered alike.
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation.cluster", *sys.argv[1:]], _fixed())
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.cluster", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="this one alone, with its trace")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once (one a core)")
    parser.add_argument("--bug", choices=sorted(BUGS | RARE), help="with this bug planted in the code")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first seed that fails")
    asked = parser.parse_args()
    if asked.seed is not None:
        with planted(asked.bug) if asked.bug else nullcontext():
            outcome = live(asked.seed)
        _say("\n".join(outcome.trace))
        _say(f"digest {outcome.digest}, {outcome.virtual_s:.1f} s of virtual time")
        _say(outcome.failure or "all well")
        return 1 if outcome.failure else 0
    return _report(run_many(range(asked.first, asked.first + asked.seeds), asked.jobs, asked.bug), asked)


def run_many(seeds: range, jobs: int, bug: str | None = None) -> Iterator[Outcome]:
    """The lives of these seeds, as they end."""
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=50) as pool:
        yield from pool.imap_unordered(_live, ((seed, bug) for seed in seeds))


def _live(task: tuple[int, str | None]) -> Outcome:
    seed, bug = task
    outcome = Outcome(seed)
    signal.signal(signal.SIGPROF, _stuck)
    signal.setitimer(signal.ITIMER_PROF, STUCK_S)
    try:
        with planted(bug) if bug else nullcontext():
            return live(seed, outcome)
    except Stuck:
        outcome.failure = outcome.failure or f"it runs in circles: {traceback.format_exc()}"
        return outcome
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _stuck(number: int, frame: FrameType | None) -> None:
    raise Stuck


def _report(outcomes: Iterator[Outcome], asked: argparse.Namespace) -> int:
    began_s = time.monotonic()
    counts: Counter[str] = Counter()
    failed, lived, virtual_s = 0, 0, 0.0
    for outcome in outcomes:
        lived += 1
        counts.update(outcome.counts)
        virtual_s += outcome.virtual_s
        if outcome.failure:
            failed += 1
            _say(failure_text(outcome, asked.bug))
            if asked.until_failure:
                break
        if lived % PROGRESS_EVERY == 0:
            sys.stderr.write(f"{lived:,} of {asked.seeds:,} lives, {failed} failed\n")
    _say(f"{lived} lives in {time.monotonic() - began_s:.0f} s, {virtual_s / 60:.0f} minutes of virtual time")
    for kind, count in sorted(counts.items()):
        _say(f"{count:10,} {kind}")
    _say(f"{failed} failed" if failed else "all well")
    return 1 if failed else 0


def failure_text(outcome: Outcome, bug: str | None = None) -> str:
    """What failed, after which faults, and how to see it again."""
    again = f"PYTHONHASHSEED=0 .venv/bin/python -m tests.simulation.cluster --seed {outcome.seed}"
    if bug:
        again += f" --bug {bug}"
    return "\n".join([*outcome.trace, f"seed {outcome.seed} FAILED: {outcome.failure}", f"again: {again}", ""])


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _fixed() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "0"}


if __name__ == "__main__":
    sys.exit(main())
