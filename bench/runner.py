"""Runs one load as a process and takes its figures."""

import json
import os
import subprocess
import sys
from typing import Protocol

from bench.servers import PROJECT

LOAD_TIMEOUT_S = 1_800.0

Figures = dict[str, float]


class Reached(Protocol):
    """Where a load is sent."""

    @property
    def address(self) -> str: ...


class LoadFailed(Exception):
    """A load ended without figures."""


def begin(load: str, server: Reached, **options: float | str) -> "subprocess.Popen[str]":
    """Start ``bench.loads.<load>`` against a server."""
    command = [sys.executable, "-m", f"bench.loads.{load}", "--server", server.address]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.Popen(
        command, cwd=PROJECT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(process: "subprocess.Popen[str]") -> Figures:
    try:
        out, errors = process.communicate(timeout=LOAD_TIMEOUT_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        raise LoadFailed(errors.strip().splitlines()[-1] if errors.strip() else f"exit code {process.returncode}")
    figures: Figures = json.loads(out.splitlines()[-1])
    return figures


def run(load: str, server: Reached, **options: float | str) -> Figures:
    return finish(begin(load, server, **options))


def end(process: "subprocess.Popen[str]") -> None:
    """Stop a load that would go on."""
    process.kill()
    process.communicate()
