"""Which registry a broker opens, and what that costs."""

import subprocess
import sys

import pytest

from millstream.broker.environment import open_embedded, registry_opener
from millstream.config.broker import BrokerConfig
from millstream.config.setting import SettingError


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.load(overrides={name.replace("_", "."): text for name, text in settings.items()})


def test_a_broker_is_alone_unless_an_ensemble_is_named() -> None:
    assert registry_opener(config()) is open_embedded
    assert registry_opener(config(zookeeper_connect="localhost:2181")) is not open_embedded


def test_nodes_are_not_protected_for_nobody() -> None:
    registry_opener(config(zookeeper_connect="localhost", zookeeper_set_acl="true", zookeeper_digest="a:b"))
    with pytest.raises(SettingError, match=r"zookeeper\.set\.acl=true: nodes need an owner"):
        registry_opener(config(zookeeper_connect="localhost", zookeeper_set_acl="true"))


def test_a_broker_that_is_alone_does_not_load_the_client_of_zookeeper() -> None:
    code = "import millstream.broker.server, sys; print(sorted({'kazoo', 'sqlite3'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
