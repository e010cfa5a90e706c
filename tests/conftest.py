"""How all tests run: Hypothesis without deadlines, by a fixed seed where results must repeat; and what many share."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.lanes import Lanes
from tests.zookeepers import running

#: The machine may be busy with other workers; slowness is found by benchmarks, not by chance.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("exploring", _COMMON)
settings.register_profile("repeatable", _COMMON, derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "exploring"))

# What a shell runs in the background, or by nohup, ignores these, and so does whatever that runs; the commands under
# test must not.
for _signal, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``HOST:PORT`` of a ZooKeeper that all tests share; each has a root of its own there."""
    with running(tmp_path_factory.mktemp("zookeeper")) as (server,):
        yield server.address


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    """Workers that share out files do so by lanes."""
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None
