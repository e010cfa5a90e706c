"""Two brokers that know nothing of each other."""

from collections.abc import Iterator

import pytest

from tests.system.broker_process import BrokerProcess


@pytest.fixture
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("one")) as running:
        yield running


@pytest.fixture
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("other")) as running:
        yield running
