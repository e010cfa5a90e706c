"""`millstream connect` itself: real connectors on real Spark, driven by a client of Connect's API that is not ours."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_connect import KafkaConnect

from tests.pipelines.connect.workers import ROOT, ConnectProcess, worker
from tests.pipelines.processes import children_of, command_of
from tests.pipelines.records import values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

#: Spark is started six times, on however busy a machine.
pytestmark = pytest.mark.timeout(600)

#: A user's own source, found by --plugin-path: it brings a record and then takes its process down.
CRASHING = """
import os
from millstream.pipelines.connect.base import Source
from millstream.pipelines.connect.record import Record

class Crashing(Source):
    def partitions(self):
        return [{"all": 1}]

    def latest(self, partition, start, limit):
        if start is not None:
            os._exit(3)
        return {"count": 1}

    def read(self, partition, start, end):
        return [Record("crashed", "once")]
"""


@pytest.fixture
def running(broker: BrokerProcess, tmp_path: Path) -> Iterator[ConnectProcess]:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "crashing.py").write_text(CRASHING)
    text = "org.apache.kafka.connect.storage.StringConverter"
    more = ["--plugin-path", str(plugins), "-c", f"key.converter={text}", "-c", f"value.converter={text}"]
    with worker(broker.address, tmp_path, "command", *more) as api:
        yield api


def state(client: KafkaConnect, name: str) -> list[str]:
    status = client.get_connector_status(name)
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_client_of_others_drives_connectors_over_crashes_and_restarts(
    broker: BrokerProcess, running: ConnectProcess, tmp_path: Path
) -> None:
    client = KafkaConnect(url=running.url)
    assert client.get_cluster_info()["kafka_cluster_id"]
    assert any(plugin["class"].endswith("FileSource") for plugin in client.list_connector_plugins())
    came, went = tmp_path / "came.txt", tmp_path / "went.txt"
    came.write_text("".join(f"{number}\n" for number in range(100)))
    source = {"connector.class": "FileSource", "file": str(came), "topic": "command-lines"}
    sink = {"connector.class": "FileSink", "file": str(went), "topics": "command-lines"}
    assert client.validate_connector_config("FileSource", {**source, "name": "in"})["error_count"] == 0
    assert client.create_connector({"name": "in", "config": source})["type"] == "source"
    assert client.create_connector({"name": "out", "config": sink})["type"] == "sink"
    running.wait_for(lambda: state(client, "in") == state(client, "out") == ["RUNNING", "RUNNING"])
    running.wait_for(lambda: len(lines(went)) == 100)
    assert sorted(client.list_connectors()) == ["in", "out"]
    assert client.list_connectors(expand="status", state="running").keys() == {"in", "out"}
    assert client.list_connector_tasks("in")[0]["id"] == {"connector": "in", "task": 0}
    assert client.get_connector_task_status("in", 0)["state"] == "RUNNING"
    assert client.list_connector_topics("in") == {"in": {"topics": ["command-lines"]}}
    place = {"partition": {"filename": str(came)}, "offset": {"position": came.stat().st_size}}
    running.wait_for(lambda: running.get("/connectors/in/offsets") == {"offsets": [place]})
    running.wait_for(lambda: running.figure("records_total", "out") == 100)
    mark = running.get("/connectors/out/offsets")
    assert mark["offsets"][0]["partition"] == {"kafka_topic": "command-lines", "kafka_partition": 0}

    # A crash loop beside it stops nothing.
    pids, count = _pids(running), 100
    client.create_connector({"name": "crashing", "config": {"connector.class": "crashing.Crashing"}})
    while running.figure("falls_total", "crashing") < 2:
        with open(came, "a") as more:
            more.write(f"{count}\n")
        count += 1
        running.wait_for(lambda count=count: len(lines(went)) == count)  # type: ignore[misc]
    assert len(pids) == 2 and pids <= _pids(running)
    out = running.figures("out")
    assert out["starts_total"] == 1 and out["falls_total"] == 0 and out["batches_total"] == out["batch_number"] + 1
    assert values_of(broker.address, "crashed") == [b"once"]
    client.delete_connector("crashing")

    # Its offsets altered, a sink takes what lies behind them once more.
    client.stop_connector("out")
    running.wait_for(lambda: state(client, "out") == ["STOPPED"])
    assert running.ask("PATCH", "/connectors/out/offsets", mark).status == 200
    client.update_connector("out", {**sink, "file": f"{went}.2"})
    client.resume_connector("out")

    # Started again, the worker goes on with everything; what came meanwhile is not lost.
    assert running.stop(signal.SIGINT) == 0
    with open(came, "a") as more:
        more.write(f"{count}\n")
    running.start()
    behind = Path(f"{went}.2")
    running.wait_for(lambda: lines(behind)[-1:] == [str(count)])
    again = [int(line) for line in lines(behind)]
    assert 0 < again[0] <= 100 and again == list(range(again[0], count + 1))
    assert [int(line) for line in lines(went)] == list(range(count))
    client.delete_all_connectors()
    assert client.list_connectors() == []


def _pids(running: ConnectProcess) -> set[int]:
    """The processes of connectors."""
    assert running.process is not None
    return {pid for pid in children_of(running.process.pid) if "connect.process" in command_of(pid)}


def test_what_it_needs_and_has_not_is_told_in_a_line(broker: BrokerProcess, topics: Topics, tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "millstream", "connect", "--port", "0", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        assert done.returncode != 0 and done.stdout == ""
        return done.stderr

    data = ["--data", str(tmp_path / "data")]
    assert said("-b", "127.0.0.1:1", *data).startswith("millstream: nothing listens at 127.0.0.1:1; is a broker")
    assert said("-b", "nonsense:x", *data) == "millstream: 'nonsense:x' is not HOST:PORT\n"
    (tmp_path / "file").write_text("")
    in_file = said("-b", broker.address, "--data", str(tmp_path / "file" / "x"))
    assert re.fullmatch(r"millstream: --data .*: Not a directory\n", in_file)
    topics.new(name="forgets-configs")
    topics.new(2, name="splits-configs", settings={"cleanup.policy": "compact"})
    for group, words in (
        ("forgets", "must have cleanup.policy=compact, and has delete: in time, it would delete what it keeps"),
        ("splits", "must have one partition, and has 2"),
    ):
        assert said("-b", broker.address, *data, "--group", group) == f"millstream: topic {group}-configs {words}\n"
    nowhere = said("-b", broker.address, *data, "--plugin-path", f"{tmp_path},/nope")
    assert nowhere == "millstream: --plugin-path: there is no folder /nope\n"
    provider = said("-b", broker.address, *data, "-c", "config.providers=vault")
    assert provider.startswith("millstream: config.providers.vault.class=: must be one of FileConfigProvider, ")


def test_one_worker_to_a_folder_to_a_port_and_to_a_group(broker: BrokerProcess, tmp_path: Path) -> None:
    with worker(broker.address, tmp_path, "alone") as api:
        command = [sys.executable, "-m", "millstream", "connect", "-b", broker.address, "--group", "alone"]
        for more, message in (
            (["--port", "0", "--data", str(tmp_path / "data")], "runs these connectors already"),
            (
                ["--port", str(api.port), "--data", str(tmp_path / "other")],
                f"--port {api.port}: address already in use",
            ),
            (
                ["--port", "0", "--data", str(tmp_path / "other")],
                f"millstream: --group alone: worker 127.0.0.1:{api.port} works on it, and one at a time does\n",
            ),
        ):
            done = subprocess.run([*command, *more], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
            assert done.returncode == 1 and message.lower() in done.stderr.lower(), done.stderr
        assert json.loads(json.dumps(api.get("/connectors"))) == []
        assert api.stop() == 0


def test_connectors_of_the_plugin_path_are_listed_before_they_are_used(broker: BrokerProcess, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.py").write_text(
        "from millstream.pipelines.connect.base import Sink\nclass MySink(Sink):\n    version = '7'\n"
    )
    with worker(broker.address, tmp_path, "own", "--plugin-path", str(own)) as api:
        assert {"class": "mine.MySink", "type": "sink", "version": "7"} in api.get("/connector-plugins")
        assert api.stop() == 0
