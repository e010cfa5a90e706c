"""The topic of dead letters, made before a sink begins; a broker and no Spark."""

from pathlib import Path

import pytest

from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.options import parse
from millstream.pipelines.connect.settings import LETTERS_REPLICATION_FACTOR, LETTERS_TOPIC
from millstream.pipelines.connect.spark.letters import ensure_topic, options_of
from millstream.pipelines.spark.sink.process import sink_process
from tests.system.broker_process import BrokerProcess


def test_more_replicas_than_there_are_brokers_are_told_by_the_option_to_blame(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    config, _ = parse((LETTERS_TOPIC, LETTERS_REPLICATION_FACTOR), {LETTERS_TOPIC.name: "orders-dead"})
    here = sink_process(options_of(Job(broker.address, {"name": "dead"}, str(tmp_path))))
    complaint = (
        r"^errors\.deadletterqueue\.topic\.replication\.factor=3: topic 'orders-dead' cannot be made: .*; "
        "set it to no more than there are brokers, 1 for a single one$"
    )
    with pytest.raises(Misconfigured, match=complaint):
        ensure_topic(here, config)
