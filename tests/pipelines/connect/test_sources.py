"""Sources end to end: a process of their own, a real broker, real Spark."""

import json
from pathlib import Path

from millstream.pipelines.connect.reports import Batch, Started
from tests.pipelines.connect.connectors import Connector
from tests.pipelines.records import records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


def test_a_generator_fills_a_topic_once_whatever_is_killed(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic, offsets = topics.new(2), topics.new(1, settings={"cleanup.policy": "compact"})
    config = {
        "name": "made",
        "connector.class": "GeneratorSource",
        "topic": topic,
        "count": "4000",
        "rate": "2000",
        "generators": "2",
        "tasks.max": "2",
        "fields": '{"id": "sequence", "word": "word"}',
        "key": "id",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "poll.interval.ms": "50",
    }
    with Connector(broker.address, tmp_path, config, offsets_topic=offsets) as made:
        made.wait(lambda: bool(made.told(Batch)), "a batch")
        made.wait(lambda: sum(offset["count"] for offset in made.offsets.values()) == 4000, "the end", revives=True)
        made.stop()
    found = records_of(broker.address, topic)
    assert sorted(json.loads(each.value or b"")["id"] for each in found) == list(range(4000))
