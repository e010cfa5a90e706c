"""Apache Kafka's own Connect beside our worker: it refuses in the same words, and they take over from each other."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility import apache_kafka
from tests.compatibility.conftest import absent
from tests.pipelines.connect.test_rest import OWN_REFUSALS, REFUSALS, SOURCE, config, made
from tests.pipelines.connect.workers import scripted_worker
from tests.system.broker_process import BrokerProcess

GROUP = "shared"
START_TIMEOUT_S = 240.0
PROPERTIES = """
bootstrap.servers={bootstrap}
group.id={group}-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
config.storage.topic={group}-configs
offset.storage.topic={group}-offsets
status.storage.topic={group}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
listeners=http://127.0.0.1:{port}
"""


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = {"Content-Type": "application/json"} if data is not None else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@contextmanager
def apache_connect(bootstrap: str, folder: Path) -> Iterator[int]:
    """Kafka's own worker on the same topics; its port."""
    port = apache_kafka.free_port()
    properties = folder / "connect.properties"
    properties.write_text(PROPERTIES.format(bootstrap=bootstrap, group=GROUP, port=port))
    options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", apache_kafka.classpath()]
    command = ["java", *options, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]
    with open(folder / "connect.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            deadline_s = time.monotonic() + START_TIMEOUT_S
            while True:
                assert process.poll() is None and time.monotonic() < deadline_s, (folder / "connect.log").read_text()
                try:
                    if ask(port, "GET", "/health")[0] == 200:
                        break
                except (OSError, ValueError):  # Nothing listens yet, or nothing of Connect's does.
                    time.sleep(0.2)
            yield port
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_apache_s_worker_refuses_in_the_same_words_and_each_takes_over_from_the_other(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    if why := apache_kafka.missing():
        absent(why)
    given = config(tasks=2)
    with scripted_worker(broker.address, tmp_path, GROUP) as api:
        made(api, "one", given)
        made(api, "two", given, initial_state="STOPPED")
        made(api, "three", given, initial_state="PAUSED")
        api.wait_for_state("one", "RUNNING", "RUNNING", "RUNNING")
        api.wait_for(lambda: len(api.get("/connectors/one/tasks")) == 2)
        tasks = api.get("/connectors/one/tasks")
        # Whoever comes second is refused, whichever it is: the one that works on the group does not notice.
        with pytest.raises(AssertionError, match="returncode: 1"), apache_connect(broker.address, tmp_path):
            pass
        api.wait_for_state("one", "RUNNING", "RUNNING", "RUNNING")
        assert api.figure("starts_total", "one") == 1
        assert api.stop() == 0
    with apache_connect(broker.address, tmp_path) as port:
        assert sorted(ask(port, "GET", "/connectors")[1]) == ["one", "three", "two"]
        own = {"connector.class": SOURCE, "does": "works", "tasks": "2", "name": "one"}
        assert ask(port, "GET", "/connectors/one/config") == (200, own)
        assert ask(port, "GET", "/connectors/one/tasks") == (200, tasks)
        assert ask(port, "GET", "/connectors/two/tasks") == (200, [])
        second = scripted_worker(broker.address, tmp_path, GROUP)
        with pytest.raises(AssertionError, match=f"--group {GROUP}: connect-.* works on it"):
            second.start()
        second.kill()
        # It cannot load our class, and says so; what it was told of it stands.
        assert ask(port, "GET", "/connectors/two/status")[0] == 200
        for method, path, body, status, message in REFUSALS:
            answer = ask(port, method, path, body)
            assert answer == (status, {"error_code": status, "message": message}), (method, path)
        for method, path, body, status, _ in OWN_REFUSALS:
            assert ask(port, method, path, body)[0] == status, (method, path, body)
        assert ask(port, "PUT", "/connectors/one/pause")[0] == 202
        assert ask(port, "DELETE", "/connectors/three")[0] == 204
    with scripted_worker(broker.address, tmp_path, GROUP) as api:
        assert sorted(api.get("/connectors")) == ["one", "two"]
        api.wait_for_state("one", "PAUSED", "PAUSED", "PAUSED")
        api.wait_for_state("two", "STOPPED")
        assert api.ask("PUT", "/connectors/one/resume").status == 202
        api.wait_for_state("one", "RUNNING", "RUNNING", "RUNNING")
