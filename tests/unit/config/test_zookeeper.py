"""How an ensemble is named."""

import pytest

from millstream.config.broker import BrokerConfig
from millstream.config.setting import SettingError
from millstream.config.zookeeper import Ensemble, parse_ensemble, parse_registry


@pytest.mark.parametrize(
    ("text", "ensemble"),
    [
        ("localhost", Ensemble((("localhost", 2181),))),
        ("a:2181,b:2182", Ensemble((("a", 2181), ("b", 2182)))),
        ("a:2181, b:2182/kafka/one", Ensemble((("a", 2181), ("b", 2182)), "/kafka/one")),
        ("[::1]:2181/", Ensemble((("::1", 2181),))),
    ],
)
def test_an_ensemble_is_servers_and_a_root(text: str, ensemble: Ensemble) -> None:
    assert parse_ensemble(text) == ensemble
    assert parse_ensemble(str(ensemble)) == ensemble


@pytest.mark.parametrize("text", ["", ":2181", "a:", "a:0", "a:65536", "a:x", "a,,b", "a//b", "a/b//c", "user@a:2181"])
def test_what_names_no_ensemble_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_ensemble(text)
    with pytest.raises(SettingError, match="host:port,host:port/chroot"):
        BrokerConfig.load(overrides={"zookeeper.connect": text})


def test_a_registry_may_name_who_asks() -> None:
    assert parse_registry("zk://a:2181,b/root") == ("a:2181,b/root", None)
    assert parse_registry("zk://kafka:s%40cret@a:2181") == ("a:2181", "kafka:s@cret")


@pytest.mark.parametrize("text", ["zookeeper", "a:2181", "zk:/a", "zk://", "zk://user@a:2181", "zk://:pw@a"])
def test_what_names_no_registry_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_registry(text)
