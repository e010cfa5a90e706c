"""The options of the sink: what is taken, and what is refused by name and value."""

import pytest

from millstream.config.setting import SettingError
from millstream.pipelines.spark.sink.options import sink_options

GIVEN = {"kafka.bootstrap.servers": "here:9092", "topic": "orders"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"deliverry": "at-least-once"}, "deliverry=at-least-once: unknown option; did you mean delivery?"),
        ({"decisionTopic": "d"}, "decisiontopic=d: unknown option; did you mean decisionsTopic?"),
        ({"txnAppld": "a"}, "txnappld=a: unknown option; did you mean txnAppId?"),
        ({"kafka.compression.typ": "lz4"}, "did you mean kafka.compression.type?"),
        ({"kafka.transactional.id": "t"}, "kafka.transactional.id=t: the sink decides this itself"),
        ({"kafka.security.protocol": "SSL"}, "only PLAINTEXT is spoken here"),
        ({"kafka.sasl.jaas.config": "secret"}, r"\[hidden\]: encryption and authentication are not spoken here"),
        ({"txnAppId": "a"}, "txnAppId=a: goes together with txnVersion, which is not given"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        sink_options(GIVEN | given)


@pytest.mark.parametrize(
    "name", ["kafka.metadata.max.idle.ms", "kafka.linger.ms", "kafka.retries", "includeHeaders", "mine"]
)
def test_what_means_nothing_here_is_taken_so_that_code_moves_unchanged(name: str) -> None:
    assert sink_options(GIVEN | {name: "1"}) == sink_options(GIVEN)
