"""A running broker for the tests of a module, and the command line pointed at it.

With MILLSTREAM_TEST_BOOTSTRAP set, that cluster is used instead: Apache Kafka, to see that a test asks for nothing
that is ours alone.
"""

import os
from collections.abc import Iterator

import pytest

from tests.system.broker_process import BrokerProcess
from tests.system.command import Millstream

BOOTSTRAP_VARIABLE = "MILLSTREAM_TEST_BOOTSTRAP"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[str]:
    """``HOST:PORT`` of a broker that all tests of a module share; with its ``BROKER_SETTINGS``, where it has some."""
    given = os.environ.get(BOOTSTRAP_VARIABLE)
    if given:
        yield given
        return
    settings = getattr(request.module, "BROKER_SETTINGS", {})
    with BrokerProcess(tmp_path_factory.mktemp("data"), settings=settings) as broker:
        yield broker.address


@pytest.fixture(scope="module")
def millstream(bootstrap: str) -> Millstream:
    return Millstream(bootstrap)


@pytest.fixture
def topic(millstream: Millstream, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own, with three partitions."""
    name = f"{request.node.name[:80]}-{os.urandom(4).hex()}".replace("[", "-").replace("]", "")
    millstream("topic", "create", name, "-p", 3)
    millstream("topic", "describe", name)  # Asks every leader, so each is known to be at work.
    return name
