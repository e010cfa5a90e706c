"""A client of Connect's API that is not ours drives a real worker; its connectors are played, so no Spark is needed."""

from pathlib import Path

import pytest
from kafka_connect import KafkaConnect

from tests.pipelines.connect.test_rest import SINK, SOURCE, config
from tests.pipelines.connect.workers import scripted_worker
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


def states(client: KafkaConnect, name: str) -> list[str]:
    status = client.get_connector_status(name)
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def test_a_client_of_others_makes_changes_stops_and_deletes_connectors(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    with scripted_worker(broker.address, tmp_path, "client") as api:
        client = KafkaConnect(url=api.url)
        assert client.get_cluster_info()["kafka_cluster_id"]
        assert any(plugin["class"].endswith("FileSource") for plugin in client.list_connector_plugins())
        assert client.validate_connector_config(SOURCE, {**config("flies"), "name": "in"})["error_count"] == 1
        assert client.create_connector({"name": "in", "config": config(tasks=2)})["type"] == "source"
        assert client.create_connector({"name": "out", "config": config(kind=SINK, topics=topic)})["type"] == "sink"
        api.wait_for(lambda: states(client, "in") == ["RUNNING"] * 3 and states(client, "out") == ["RUNNING"] * 2)
        api.wait_for(lambda: len(client.list_connector_tasks("in")) == 2)
        assert sorted(client.list_connectors()) == ["in", "out"]
        assert client.list_connectors(expand="status", state="running").keys() == {"in", "out"}
        assert client.get_connector_task_status("in", 1)["state"] == "RUNNING"
        api.wait_for(lambda: client.list_connector_topics("in") == {"in": {"topics": ["lines"]}})

        assert client.update_connector("in", config(tasks=1))["config"]["tasks"] == "1"
        api.wait_for(lambda: states(client, "in") == ["RUNNING"] * 2)
        starts = api.figure("starts_total", "in")
        client.restart_connector("in")
        api.wait_for(lambda: api.figure("starts_total", "in") == starts + 1)
        client.pause_connector("out")
        api.wait_for(lambda: states(client, "out") == ["PAUSED"] * 2)
        client.resume_connector("out")
        client.stop_connector("in")
        api.wait_for(lambda: states(client, "in") == ["STOPPED"] and states(client, "out") == ["RUNNING"] * 2)

        with pytest.raises(Exception, match="404"):
            client.get_connector("none")
        client.delete_all_connectors()
        assert client.list_connectors() == []
